noinst_LIBRARIES += libfabric.a
libfabric_a_SOURCES = fabric/protocol.h fabric/conductor.h fabric/conductor.c
EXTRA_DIST += fabric/README.md
