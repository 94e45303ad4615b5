check_PROGRAMS += tests/lanes/test_accept tests/lanes/test_round
tests_lanes_test_accept_SOURCES = tests/lanes/test_accept.c
tests_lanes_test_accept_CFLAGS = $(RH_TEST_CFLAGS)
tests_lanes_test_accept_LDADD = $(RH_TEST_LDADD)
tests_lanes_test_round_SOURCES = tests/lanes/test_round.c
tests_lanes_test_round_CFLAGS = $(RH_TEST_CFLAGS)
tests_lanes_test_round_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/lanes/test_engine
tests_lanes_test_engine_SOURCES = tests/lanes/test_engine.c tests/lanes/engine_calls.c \
	tests/lanes/engine_calls.h lanes/programs/client.c lanes/programs/client.h
tests_lanes_test_engine_CFLAGS = $(RH_TEST_CFLAGS)
tests_lanes_test_engine_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/lanes/test_tiers
tests_lanes_test_tiers_SOURCES = tests/lanes/test_tiers.c tests/lanes/engine_calls.c \
	tests/lanes/engine_calls.h lanes/programs/client.c lanes/programs/client.h
tests_lanes_test_tiers_CFLAGS = $(RH_TEST_CFLAGS)
tests_lanes_test_tiers_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/lanes/test_steady
tests_lanes_test_steady_SOURCES = tests/lanes/test_steady.c lanes/programs/client.c \
	lanes/programs/client.h
tests_lanes_test_steady_CFLAGS = $(RH_TEST_CFLAGS)
tests_lanes_test_steady_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/lanes/test_vocabulary
tests_lanes_test_vocabulary_SOURCES = tests/lanes/test_vocabulary.c tests/text/support.h \
	tests/kernels/scratch_dir.h $(RH_GGUF_MAKE)
tests_lanes_test_vocabulary_CFLAGS = $(RH_TEST_CFLAGS)
tests_lanes_test_vocabulary_LDADD = $(RH_TEST_LDADD)
