# model files and families
check_PROGRAMS += tests/kernels/test_family tests/kernels/test_weights \
	tests/kernels/test_weights_hostile tests/kernels/test_config_json
tests_kernels_test_family_SOURCES = tests/kernels/test_family.c tests/kernels/model_dir.h \
	tests/kernels/scratch_dir.h
tests_kernels_test_family_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_family_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_weights_SOURCES = tests/kernels/test_weights.c tests/kernels/model_dir.h \
	tests/kernels/scratch_dir.h
tests_kernels_test_weights_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_weights_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_weights_hostile_SOURCES = tests/kernels/test_weights_hostile.c \
	tests/kernels/model_dir.h tests/kernels/scratch_dir.h
tests_kernels_test_weights_hostile_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_weights_hostile_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_config_json_SOURCES = tests/kernels/test_config_json.c
tests_kernels_test_config_json_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_config_json_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/kernels/test_fp8
tests_kernels_test_fp8_SOURCES = tests/kernels/test_fp8.c tests/kernels/model_dir.h \
	tests/kernels/scratch_dir.h
tests_kernels_test_fp8_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_fp8_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/kernels/test_families
tests_kernels_test_families_SOURCES = tests/kernels/test_families.c tests/kernels/model_dir.h \
	tests/kernels/scratch_dir.h
tests_kernels_test_families_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_families_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/kernels/test_reference
tests_kernels_test_reference_SOURCES = tests/kernels/test_reference.c tests/kernels/reference.c \
	tests/kernels/reference.h
tests_kernels_test_reference_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_reference_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/kernels/test_variants
tests_kernels_test_variants_SOURCES = tests/kernels/test_variants.c \
	tests/kernels/reference.c tests/kernels/reference.h
tests_kernels_test_variants_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_variants_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/kernels/test_weights_memory
tests_kernels_test_weights_memory_SOURCES = tests/kernels/test_weights_memory.c \
	tests/kernels/model_dir.h tests/kernels/scratch_dir.h $(RH_GGUF_MAKE)
tests_kernels_test_weights_memory_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_weights_memory_LDFLAGS = \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=aligned_alloc,--wrap=free
tests_kernels_test_weights_memory_LDADD = $(RH_TEST_LDADD)
