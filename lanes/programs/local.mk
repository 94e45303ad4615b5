bin_PROGRAMS += roundhouse
roundhouse_SOURCES = lanes/programs/main.c lanes/programs/options.c lanes/programs/options.h \
	lanes/programs/options.def lanes/programs/client.c lanes/programs/client.h \
	lanes/programs/input.c lanes/programs/input.h lanes/programs/output.c \
	lanes/programs/output.h lanes/programs/loading.c \
	lanes/programs/loading.h lanes/programs/run.c lanes/programs/chat.c \
	lanes/programs/show.c lanes/programs/show.h lanes/programs/show_screen.c \
	lanes/programs/prove.c lanes/programs/prove.h lanes/programs/prove_cases.c lanes/programs/scratch.c lanes/programs/scratch.h \
	lanes/programs/bench.h lanes/programs/bench.c lanes/programs/bench_run.c \
	lanes/programs/bench_shape.c lanes/programs/bench_tiers.c lanes/programs/bench_svg.c lanes/programs/info.c \
	lanes/programs/serve.c lanes/programs/ctl.c lanes/programs/ctl.h \
	lanes/programs/ctl_sessions.c lanes/programs/tokenize.c
roundhouse_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
