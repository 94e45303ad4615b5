# tests of programs
check_PROGRAMS += tests/programs/test_cli tests/programs/test_prove
tests_programs_test_cli_SOURCES = tests/programs/test_cli.c tests/programs/command.h
tests_programs_test_cli_CFLAGS = $(RH_TEST_CFLAGS)
tests_programs_test_cli_LDADD = $(RH_TEST_LDADD)
tests_programs_test_prove_SOURCES = tests/programs/test_prove.c tests/programs/command.h \
	tests/kernels/scratch_dir.h
tests_programs_test_prove_CFLAGS = $(RH_TEST_CFLAGS)
tests_programs_test_prove_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/programs/test_serve
tests_programs_test_serve_SOURCES = tests/programs/test_serve.c tests/programs/server.h \
	tests/programs/command.h
tests_programs_test_serve_CFLAGS = $(RH_TEST_CFLAGS)
tests_programs_test_serve_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/programs/test_ctl_sessions
tests_programs_test_ctl_sessions_SOURCES = tests/programs/test_ctl_sessions.c tests/programs/server.h \
	tests/programs/command.h
tests_programs_test_ctl_sessions_CFLAGS = $(RH_TEST_CFLAGS)
tests_programs_test_ctl_sessions_LDADD = $(RH_TEST_LDADD)
include $(srcdir)/tests/programs/info.mk
check_PROGRAMS += tests/programs/test_output
tests_programs_test_output_SOURCES = tests/programs/test_output.c tests/sessions/expect.h \
	lanes/programs/output.c lanes/programs/output.h
tests_programs_test_output_CFLAGS = $(RH_TEST_CFLAGS)
tests_programs_test_output_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/programs/test_loading
tests_programs_test_loading_SOURCES = tests/programs/test_loading.c lanes/programs/loading.c
tests_programs_test_loading_CFLAGS = $(RH_TEST_CFLAGS)
tests_programs_test_loading_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/programs/test_prove_published
tests_programs_test_prove_published_SOURCES = tests/programs/test_prove_published.c tests/programs/command.h
tests_programs_test_prove_published_CFLAGS = $(RH_TEST_CFLAGS)
tests_programs_test_prove_published_LDADD = $(RH_TEST_LDADD)
