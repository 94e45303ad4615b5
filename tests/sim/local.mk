check_PROGRAMS += tests/sim/test_sim
tests_sim_test_sim_SOURCES = tests/sim/test_sim.c tests/sim/scenario.c tests/sim/scenario.h tests/sim/visitor.c tests/sim/visitor.h \
	tests/sessions/fake_disk.c tests/sessions/fake_disk.h
tests_sim_test_sim_CFLAGS = $(RH_TEST_CFLAGS)
tests_sim_test_sim_LDADD = $(RH_TEST_LDADD)

check_PROGRAMS += tests/sim/test_slow_disk
tests_sim_test_slow_disk_SOURCES = tests/sim/test_slow_disk.c tests/sim/life.h
tests_sim_test_slow_disk_CFLAGS = $(RH_TEST_CFLAGS)
tests_sim_test_slow_disk_LDADD = $(RH_TEST_LDADD)

check_PROGRAMS += tests/sim/test_early_copies
tests_sim_test_early_copies_SOURCES = tests/sim/test_early_copies.c tests/sim/life.h
tests_sim_test_early_copies_CFLAGS = $(RH_TEST_CFLAGS)
tests_sim_test_early_copies_LDADD = $(RH_TEST_LDADD)

check_PROGRAMS += tests/sim/test_frozen_disk
tests_sim_test_frozen_disk_SOURCES = tests/sim/test_frozen_disk.c tests/sim/life.h
tests_sim_test_frozen_disk_CFLAGS = $(RH_TEST_CFLAGS)
tests_sim_test_frozen_disk_LDADD = $(RH_TEST_LDADD)

check_PROGRAMS += tests/sim/test_carry_killed
tests_sim_test_carry_killed_SOURCES = tests/sim/test_carry_killed.c tests/sim/life.h \
	tests/sessions/fake_disk.c tests/sessions/fake_disk.h tests/sessions/expect.h
tests_sim_test_carry_killed_CFLAGS = $(RH_TEST_CFLAGS)
tests_sim_test_carry_killed_LDADD = $(RH_TEST_LDADD)
