# info on GGUF files
check_PROGRAMS += tests/programs/test_info
tests_programs_test_info_SOURCES = tests/programs/test_info.c tests/programs/command.h \
	tests/kernels/scratch_dir.h $(RH_GGUF_MAKE)
tests_programs_test_info_CFLAGS = $(RH_TEST_CFLAGS)
tests_programs_test_info_LDADD = $(RH_TEST_LDADD)
