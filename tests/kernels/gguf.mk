# GGUF files and blocked formats
RH_GGUF_MAKE = tests/kernels/gguf_make.c tests/kernels/gguf_blocks.c tests/kernels/gguf_make.h
check_PROGRAMS += tests/kernels/test_quant
tests_kernels_test_quant_SOURCES = tests/kernels/test_quant.c tests/kernels/kit.h tests/kernels/kit_blocks.h $(RH_GGUF_MAKE)
tests_kernels_test_quant_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_quant_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/kernels/test_gguf
tests_kernels_test_gguf_SOURCES = tests/kernels/test_gguf.c tests/kernels/model_dir.h \
	tests/kernels/scratch_dir.h $(RH_GGUF_MAKE)
tests_kernels_test_gguf_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_gguf_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/kernels/test_gguf_hostile
tests_kernels_test_gguf_hostile_SOURCES = tests/kernels/test_gguf_hostile.c \
	tests/kernels/model_dir.h tests/kernels/scratch_dir.h $(RH_GGUF_MAKE)
tests_kernels_test_gguf_hostile_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_gguf_hostile_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/kernels/test_gguf_families
tests_kernels_test_gguf_families_SOURCES = tests/kernels/test_gguf_families.c tests/kernels/model_dir.h \
	tests/kernels/scratch_dir.h tests/kernels/family_models.h tests/kernels/forward64.c \
	tests/kernels/forward64.h $(RH_GGUF_MAKE)
tests_kernels_test_gguf_families_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_gguf_families_LDADD = $(RH_TEST_LDADD)
