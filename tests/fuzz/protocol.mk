# fuzz targets of the front door's messages and of sessions' files
check_PROGRAMS += tests/fuzz/fuzz_protocol
tests_fuzz_fuzz_protocol_SOURCES = tests/fuzz/fuzz_protocol.c tests/fuzz/fuzz_main.c
tests_fuzz_fuzz_protocol_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
EXTRA_DIST += tests/fuzz/corpus/protocol
check_PROGRAMS += tests/fuzz/fuzz_session
tests_fuzz_fuzz_session_SOURCES = tests/fuzz/fuzz_session.c tests/fuzz/fuzz_main.c
tests_fuzz_fuzz_session_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
EXTRA_DIST += tests/fuzz/corpus/session
