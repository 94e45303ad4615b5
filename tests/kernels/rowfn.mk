# Tests of row functions, draw, profiles, tables and the oracle.
check_PROGRAMS += tests/kernels/test_product tests/kernels/test_attend tests/kernels/test_golden
tests_kernels_test_product_SOURCES = tests/kernels/test_product.c tests/kernels/kit.h
tests_kernels_test_product_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_product_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_attend_SOURCES = tests/kernels/test_attend.c tests/kernels/kit.h
tests_kernels_test_attend_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_attend_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_golden_SOURCES = tests/kernels/test_golden.c tests/kernels/kit.h
tests_kernels_test_golden_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_golden_LDADD = $(RH_TEST_LDADD)
EXTRA_DIST += tests/golden/rowfn.txt
