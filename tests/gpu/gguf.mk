# models from GGUF files on the CPU device
check_PROGRAMS += tests/gpu/test_gguf_cpu
tests_gpu_test_gguf_cpu_SOURCES = tests/gpu/test_gguf_cpu.c tests/kernels/family_models.h tests/kernels/scratch_dir.h \
	$(RH_CPU_RIG) $(RH_GGUF_MAKE)
tests_gpu_test_gguf_cpu_CFLAGS = $(RH_TEST_CFLAGS)
tests_gpu_test_gguf_cpu_LDADD = $(RH_TEST_LDADD)
EXTRA_DIST += tests/fetch_smollm2
