# tests of door
DOOR_FIXTURE = tests/door/fixture.c tests/door/fixture.h tests/door/fake_planner.c tests/door/fake_planner.h
check_PROGRAMS += tests/door/test_door
tests_door_test_door_SOURCES = tests/door/test_door.c $(DOOR_FIXTURE)
tests_door_test_door_CFLAGS = $(RH_TEST_CFLAGS)
tests_door_test_door_LDADD = $(RH_TEST_LDADD)
