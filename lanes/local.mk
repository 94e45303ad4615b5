noinst_LIBRARIES += liblanes.a
liblanes_a_SOURCES = lanes/protocol.h lanes/request.h lanes/engine.h lanes/planner_policy.h \
	lanes/slot.c lanes/slot.h lanes/accept.c lanes/accept.h lanes/draft.c lanes/draft.h \
	lanes/lane.c lanes/lane.h lanes/policy.c lanes/admit.c lanes/admit.h lanes/round.c \
	lanes/round.h lanes/planner.c lanes/planner_round.c lanes/planner.h lanes/private.h \
	lanes/engine.c lanes/engine_tiers.c lanes/engine_tiers.h lanes/engine_exchange.c lanes/engine_exchange.h lanes/journal.c lanes/journal.h lanes/vocabulary.c lanes/vocabulary.h
