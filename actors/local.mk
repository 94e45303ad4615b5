noinst_LIBRARIES += libactors.a
libactors_a_SOURCES = actors/actor.c actors/actor.h actors/check.c actors/check.h actors/ck.h \
	actors/clock.c actors/clock.h actors/credit.h actors/drain.c actors/journal.c actors/journal.h \
	actors/mailbox.h actors/message.c actors/message.h actors/port.h actors/port_threads.c \
	actors/private.h actors/protocol.h actors/ring.h actors/runtime.c actors/sim.c actors/sim.h actors/slots.h \
	actors/snapshot.h actors/status.c actors/status.def actors/status.h actors/trace.c \
	actors/trace.h actors/watch.c actors/worker.c
EXTRA_DIST += actors/README.md
