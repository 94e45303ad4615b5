# tests of gpu
RH_CPU_RIG = tests/gpu/cpu_rig.c tests/gpu/cpu_rig.h tests/gpu/truth.c tests/gpu/truth.h tests/gpu/plan_make.h
check_PROGRAMS += tests/gpu/test_plan tests/gpu/test_device_fake tests/gpu/test_team
tests_gpu_test_plan_SOURCES = tests/gpu/test_plan.c tests/gpu/plan_make.h
tests_gpu_test_plan_CFLAGS = $(RH_TEST_CFLAGS)
tests_gpu_test_plan_LDADD = $(RH_TEST_LDADD)
tests_gpu_test_device_fake_SOURCES = tests/gpu/test_device_fake.c tests/gpu/plan_make.h
tests_gpu_test_device_fake_CFLAGS = $(RH_TEST_CFLAGS)
tests_gpu_test_device_fake_LDADD = $(RH_TEST_LDADD)
tests_gpu_test_team_SOURCES = tests/gpu/test_team.c
tests_gpu_test_team_CFLAGS = $(RH_TEST_CFLAGS)
tests_gpu_test_team_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/gpu/test_rank
tests_gpu_test_rank_SOURCES = tests/gpu/test_rank.c
tests_gpu_test_rank_CFLAGS = $(RH_TEST_CFLAGS)
tests_gpu_test_rank_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/gpu/test_device_cpu
tests_gpu_test_device_cpu_SOURCES = tests/gpu/test_device_cpu.c $(RH_CPU_RIG)
tests_gpu_test_device_cpu_CFLAGS = $(RH_TEST_CFLAGS)
tests_gpu_test_device_cpu_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/gpu/test_device_steps
tests_gpu_test_device_steps_SOURCES = tests/gpu/test_device_steps.c $(RH_CPU_RIG)
tests_gpu_test_device_steps_CFLAGS = $(RH_TEST_CFLAGS)
tests_gpu_test_device_steps_LDADD = $(RH_TEST_LDADD)
tests_gpu_test_device_steps_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=mmap
check_PROGRAMS += tests/gpu/test_fable
tests_gpu_test_fable_SOURCES = tests/gpu/test_fable.c tests/kernels/reference.c tests/kernels/reference.h $(RH_CPU_RIG)
tests_gpu_test_fable_CFLAGS = $(RH_TEST_CFLAGS)
tests_gpu_test_fable_LDADD = $(RH_TEST_LDADD)

EXTRA_PROGRAMS += tests/bench/bench_device
tests_bench_bench_device_SOURCES = tests/bench/bench_device.c tests/kernels/reference.c tests/kernels/reference.h $(RH_CPU_RIG)
tests_bench_bench_device_CFLAGS = $(AM_CFLAGS)
tests_bench_bench_device_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
.PHONY: bench-device
bench-device: tests/bench/bench_device$(EXEEXT)
	RH_SRCDIR='$(abs_srcdir)' ./tests/bench/bench_device$(EXEEXT)
include $(srcdir)/tests/gpu/gguf.mk
include $(srcdir)/tests/gpu/cuda.mk
