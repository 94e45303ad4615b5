# tests of fabric
check_PROGRAMS += tests/fabric/test_conductor
tests_fabric_test_conductor_SOURCES = tests/fabric/test_conductor.c tests/fabric/ranks.h tests/gpu/plan_make.h
tests_fabric_test_conductor_CFLAGS = $(RH_TEST_CFLAGS)
tests_fabric_test_conductor_LDADD = $(RH_TEST_LDADD)
