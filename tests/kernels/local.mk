# tests of kernels
include $(srcdir)/tests/kernels/weights.mk
include $(srcdir)/tests/kernels/rowfn.mk
include $(srcdir)/tests/kernels/gguf.mk

check_PROGRAMS += tests/kernels/test_matmul_open
tests_kernels_test_matmul_open_SOURCES = tests/kernels/test_matmul_open.c
tests_kernels_test_matmul_open_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_matmul_open_LDADD = $(RH_TEST_LDADD)
