noinst_LIBRARIES += libfabric.a
libfabric_a_SOURCES = fabric/votes.h fabric/votes.c fabric/protocol.h fabric/conductor.h fabric/conductor.c fabric/tree.h \
	fabric/tree.c fabric/coll_mailbox.h fabric/coll_mailbox.c
EXTRA_DIST += fabric/README.md
