# Kernels on a GPU, each program skipping with a plain line where there is none: make check-gpu.
RH_CUDA_KIT = tests/cuda/kit.c tests/cuda/kit.h
RH_CUDA_LDADD = libgpu.a libkernels.a $(RH_ISA_LIBS) libactors.a -ldl -lpthread -lm
RH_ATTEND_RIG = tests/cuda/attend_rig.c tests/cuda/attend_rig.h $(RH_CUDA_KIT)
RH_GPU_TESTS = tests/cuda/test_step16 tests/cuda/test_product_bf16 tests/cuda/test_product_blocks \
	tests/cuda/test_attend_bf16
RH_GPU_BENCHES = tests/cuda/bench_product_bf16 tests/cuda/bench_attend_bf16
EXTRA_PROGRAMS += $(RH_GPU_TESTS) $(RH_GPU_BENCHES)
# Launch shapes, anywhere.
check_PROGRAMS += tests/cuda/test_shapes_bf16
tests_cuda_test_shapes_bf16_SOURCES = tests/cuda/test_shapes_bf16.c
tests_cuda_test_shapes_bf16_CFLAGS = $(RH_TEST_CFLAGS)
tests_cuda_test_shapes_bf16_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/cuda/test_blocks
tests_cuda_test_blocks_SOURCES = tests/cuda/test_blocks.c tests/kernels/kit.h tests/kernels/kit_blocks.h
tests_cuda_test_blocks_CFLAGS = $(RH_TEST_CFLAGS)
tests_cuda_test_blocks_LDADD = $(RH_TEST_LDADD)
tests_cuda_test_step16_SOURCES = tests/cuda/test_step16.c tests/kernels/step16_inputs.h $(RH_CUDA_KIT)
tests_cuda_test_step16_LDADD = $(RH_CUDA_LDADD) $(XXHASH_LIBS)
tests_cuda_test_product_bf16_SOURCES = tests/cuda/test_product_bf16.c $(RH_CUDA_KIT)
tests_cuda_test_product_bf16_LDADD = $(RH_CUDA_LDADD)
tests_cuda_test_product_blocks_SOURCES = tests/cuda/test_product_blocks.c $(RH_CUDA_KIT)
tests_cuda_test_product_blocks_LDADD = $(RH_CUDA_LDADD)
tests_cuda_bench_product_bf16_SOURCES = tests/cuda/bench_product_bf16.c $(RH_CUDA_KIT)
tests_cuda_bench_product_bf16_LDADD = $(RH_CUDA_LDADD)
tests_cuda_test_attend_bf16_SOURCES = tests/cuda/test_attend_bf16.c $(RH_ATTEND_RIG)
tests_cuda_test_attend_bf16_LDADD = $(RH_CUDA_LDADD)
tests_cuda_bench_attend_bf16_SOURCES = tests/cuda/bench_attend_bf16.c $(RH_ATTEND_RIG)
tests_cuda_bench_attend_bf16_LDADD = $(RH_CUDA_LDADD)
# What racecheck makes of a ring; built by hand where a GPU is.
EXTRA_DIST += tests/cuda/ring_sanitize.cu
.PHONY: check-gpu bench-gpu
check-gpu: $(RH_GPU_TESTS)
	@for t in $(RH_GPU_TESTS); do echo "$$t"; ./$$t; r=$$?; test $$r = 0 || test $$r = 77 || exit 1; done
bench-gpu: $(RH_GPU_BENCHES)
	@for t in $(RH_GPU_BENCHES); do ./$$t v || exit 1; done
