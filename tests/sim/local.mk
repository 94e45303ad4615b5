check_PROGRAMS += tests/sim/test_sim
tests_sim_test_sim_SOURCES = tests/sim/test_sim.c tests/sim/scenario.c tests/sim/scenario.h \
	tests/sessions/fake_disk.c tests/sessions/fake_disk.h
tests_sim_test_sim_CFLAGS = $(RH_TEST_CFLAGS)
tests_sim_test_sim_LDADD = $(RH_TEST_LDADD)
