# tests of kernels
check_PROGRAMS += tests/kernels/test_family
tests_kernels_test_family_SOURCES = tests/kernels/test_family.c
tests_kernels_test_family_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_family_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/kernels/test_weights
tests_kernels_test_weights_SOURCES = tests/kernels/test_weights.c tests/kernels/scratch_dir.h
tests_kernels_test_weights_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_weights_LDADD = $(RH_TEST_LDADD)
include $(srcdir)/tests/kernels/rowfn.mk
