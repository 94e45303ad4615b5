noinst_LIBRARIES += libactors.a
libactors_a_SOURCES = actors/status.c actors/status.h actors/status.def actors/check.c \
	actors/check.h actors/actor.h actors/protocol.h
