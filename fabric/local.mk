noinst_LIBRARIES += libfabric.a
libfabric_a_SOURCES = fabric/votes.h fabric/votes.c fabric/protocol.h fabric/conductor.h fabric/conductor.c fabric/tree.h \
	fabric/tree.c fabric/coll_mailbox.h fabric/coll_mailbox.c fabric/nccl.def fabric/nccl.h fabric/nccl.c fabric/coll_nccl.h fabric/coll_nccl.c
EXTRA_DIST += fabric/README.md
