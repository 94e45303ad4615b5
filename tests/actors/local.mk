# Tests of actors/: each file mirrors one there.
check_PROGRAMS += tests/actors/test_actor tests/actors/test_clock
EXTRA_DIST += tests/actors/rig.h
tests_actors_test_actor_SOURCES = tests/actors/test_actor.c
tests_actors_test_actor_CFLAGS = $(RH_TEST_CFLAGS)
tests_actors_test_actor_LDADD = $(RH_TEST_LDADD)
tests_actors_test_clock_SOURCES = tests/actors/test_clock.c
tests_actors_test_clock_CFLAGS = $(RH_TEST_CFLAGS)
tests_actors_test_clock_LDADD = $(RH_TEST_LDADD)
