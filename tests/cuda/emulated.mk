# Kernels for GPUs, emulated on the host or, by make check-gpu, on this machine's GPU.
RH_CUDA_EMULATED = tests/cuda/emulate.h tests/cuda/emulate.c tests/cuda/emulated.h tests/cuda/emulated.c \
	tests/cuda/emulated_bf16.h tests/cuda/emulated_bf16.c tests/cuda/where.h
check_PROGRAMS += tests/cuda/test_rowfn
tests_cuda_test_rowfn_SOURCES = tests/cuda/test_rowfn.c tests/cuda/rowfn_cuda.c tests/cuda/rowfn_cuda.h \
	$(RH_CUDA_EMULATED) tests/kernels/kit.h
tests_cuda_test_rowfn_CFLAGS = $(RH_TEST_CFLAGS)
tests_cuda_test_rowfn_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/cuda/test_device
tests_cuda_test_device_SOURCES = tests/cuda/test_device.c $(RH_CUDA_EMULATED) $(RH_CPU_RIG)
tests_cuda_test_device_CFLAGS = $(RH_TEST_CFLAGS)
tests_cuda_test_device_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/cuda/test_device_ranks
tests_cuda_test_device_ranks_SOURCES = tests/cuda/test_device_ranks.c tests/kernels/scratch_dir.h \
	$(RH_CUDA_EMULATED) $(RH_CPU_RIG) $(RH_NCCL_FAKE) $(RH_GGUF_MAKE)
tests_cuda_test_device_ranks_CFLAGS = $(RH_TEST_CFLAGS)
tests_cuda_test_device_ranks_LDADD = $(RH_TEST_LDADD)
# The same programs on this machine's GPU; each skips with a plain line where there is none.
RH_GPU_SAME = tests/cuda/test_rowfn tests/cuda/test_device tests/cuda/test_device_ranks \
	tests/gpu/test_fable
.PHONY: check-gpu check-gpu-same
check-gpu: check-gpu-same
check-gpu-same: $(RH_GPU_SAME)
	@for t in $(RH_GPU_SAME); do echo "$$t"; RH_CUDA=gpu RH_SRCDIR='$(abs_srcdir)' ./$$t || exit 1; done
