# tests of door
DOOR_FIXTURE = tests/door/fixture.c tests/door/fixture.h tests/door/fake_planner.c \
	tests/door/fake_planner.h
check_PROGRAMS += tests/door/test_wire
tests_door_test_wire_SOURCES = tests/door/test_wire.c
tests_door_test_wire_CFLAGS = $(RH_TEST_CFLAGS)
tests_door_test_wire_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/door/test_events
tests_door_test_events_SOURCES = tests/door/test_events.c
tests_door_test_events_CFLAGS = $(RH_TEST_CFLAGS)
tests_door_test_events_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/door/test_table
tests_door_test_table_SOURCES = tests/door/test_table.c
tests_door_test_table_CFLAGS = $(RH_TEST_CFLAGS)
tests_door_test_table_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/door/test_listen
tests_door_test_listen_SOURCES = tests/door/test_listen.c
tests_door_test_listen_CFLAGS = $(RH_TEST_CFLAGS)
tests_door_test_listen_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/door/test_door
tests_door_test_door_SOURCES = tests/door/test_door.c $(DOOR_FIXTURE)
tests_door_test_door_CFLAGS = $(RH_TEST_CFLAGS)
tests_door_test_door_LDADD = $(RH_TEST_LDADD)
DOOR_ENGINE = tests/door/engine_fixture.c tests/door/engine_fixture.h
check_PROGRAMS += tests/door/test_protocol_doc
tests_door_test_protocol_doc_SOURCES = tests/door/test_protocol_doc.c $(DOOR_ENGINE) $(DOOR_FIXTURE)
tests_door_test_protocol_doc_CFLAGS = $(RH_TEST_CFLAGS)
tests_door_test_protocol_doc_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/door/test_engine_door
tests_door_test_engine_door_SOURCES = tests/door/test_engine_door.c $(DOOR_ENGINE) $(DOOR_FIXTURE)
tests_door_test_engine_door_CFLAGS = $(RH_TEST_CFLAGS)
tests_door_test_engine_door_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/door/test_desk
tests_door_test_desk_SOURCES = tests/door/test_desk.c $(DOOR_FIXTURE)
tests_door_test_desk_CFLAGS = $(RH_TEST_CFLAGS)
tests_door_test_desk_LDADD = $(RH_TEST_LDADD)
# The client in doc/protocol.md, where python3 has pynng.
dist_check_SCRIPTS += tests/door/python_example
