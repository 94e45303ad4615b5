# tests of fabric
check_PROGRAMS += tests/fabric/test_conductor
tests_fabric_test_conductor_SOURCES = tests/fabric/test_conductor.c tests/fabric/ranks.c tests/fabric/ranks.h tests/gpu/plan_make.h
tests_fabric_test_conductor_CFLAGS = $(RH_TEST_CFLAGS)
tests_fabric_test_conductor_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/fabric/test_coll_mailbox tests/fabric/test_cpu_ranks
tests_fabric_test_coll_mailbox_SOURCES = tests/fabric/test_coll_mailbox.c tests/gpu/plan_make.h
tests_fabric_test_coll_mailbox_CFLAGS = $(RH_TEST_CFLAGS)
tests_fabric_test_coll_mailbox_LDADD = $(RH_TEST_LDADD)
tests_fabric_test_cpu_ranks_SOURCES = tests/fabric/test_cpu_ranks.c $(RH_CPU_RIG)
tests_fabric_test_cpu_ranks_CFLAGS = $(RH_TEST_CFLAGS)
tests_fabric_test_cpu_ranks_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/fabric/test_votes
tests_fabric_test_votes_SOURCES = tests/fabric/test_votes.c tests/fabric/ranks.c tests/fabric/ranks.h tests/gpu/plan_make.h
tests_fabric_test_votes_CFLAGS = $(RH_TEST_CFLAGS)
tests_fabric_test_votes_LDADD = $(RH_TEST_LDADD)
dist_check_SCRIPTS += tests/model/run_votes
EXTRA_DIST += tests/model/votes.pml
