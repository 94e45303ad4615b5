noinst_LIBRARIES += libactors.a
libactors_a_SOURCES = actors/status.c actors/status.h actors/status.def actors/check.c \
	actors/check.h actors/actor.h actors/protocol.h actors/actor.c actors/ck.h actors/clock.c \
	actors/clock.h actors/credit.h actors/drain.c actors/mailbox.h actors/message.c actors/message.h actors/port.h \
	actors/port_threads.c actors/private.h actors/runtime.c actors/sim.c actors/sim.h actors/slots.h actors/snapshot.h \
	actors/trace.c actors/trace.h actors/watch.c actors/worker.c
