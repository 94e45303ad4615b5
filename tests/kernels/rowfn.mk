# Tests of row functions, draw, profiles, tables and the oracle.
check_PROGRAMS += tests/kernels/test_bf16 tests/kernels/test_approx tests/kernels/test_attend tests/kernels/test_draw \
	tests/kernels/test_golden tests/kernels/test_oracle tests/kernels/test_product \
	tests/kernels/test_q8 tests/kernels/test_rows tests/kernels/test_step16
tests_kernels_test_step16_SOURCES = tests/kernels/test_step16.c tests/kernels/step16_inputs.h
tests_kernels_test_step16_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_step16_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_approx_SOURCES = tests/kernels/test_approx.c tests/kernels/kit.h
tests_kernels_test_approx_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_approx_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_attend_SOURCES = tests/kernels/test_attend.c tests/kernels/kit.h
tests_kernels_test_attend_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_attend_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_bf16_SOURCES = tests/kernels/test_bf16.c tests/kernels/kit.h
tests_kernels_test_bf16_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_bf16_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_draw_SOURCES = tests/kernels/test_draw.c tests/kernels/kit.h
tests_kernels_test_draw_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_draw_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_golden_SOURCES = tests/kernels/test_golden.c tests/kernels/kit.h
tests_kernels_test_golden_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_golden_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_product_SOURCES = tests/kernels/test_product.c tests/kernels/kit.h \
	tests/kernels/kit_blocks.h
tests_kernels_test_product_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_product_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_q8_SOURCES = tests/kernels/test_q8.c tests/kernels/kit.h \
	tests/kernels/kit_blocks.h
tests_kernels_test_q8_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_q8_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_rows_SOURCES = tests/kernels/test_rows.c tests/kernels/kit.h
tests_kernels_test_rows_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_rows_LDADD = $(RH_TEST_LDADD)
tests_kernels_test_oracle_SOURCES = tests/kernels/test_oracle.c tests/kernels/kit.h \
	tests/kernels/reference.c tests/kernels/reference.h
tests_kernels_test_oracle_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_oracle_LDADD = $(RH_TEST_LDADD)
check_PROGRAMS += tests/kernels/test_experts
tests_kernels_test_experts_SOURCES = tests/kernels/test_experts.c tests/kernels/kit.h
tests_kernels_test_experts_CFLAGS = $(RH_TEST_CFLAGS)
tests_kernels_test_experts_LDADD = $(RH_TEST_LDADD)
EXTRA_DIST += tests/golden/rowfn.txt tests/golden/bf16.txt tests/golden/q8.txt tests/kernels/golden_print.c
dist_check_SCRIPTS += tests/kernels/clang_golden.sh
# The whole program beside llama.cpp, by hand: tests/bench/peer_llama_cpp.py
EXTRA_DIST += tests/bench/peer_llama_cpp.py tests/bench/peer_bf16.py tests/bench/peer_amx_gcc.h \
	tests/bench/peer_torch.py tests/bench/torch_loop.py
# make bench-kernels
EXTRA_PROGRAMS += tests/bench/bench_kernels
tests_bench_bench_kernels_SOURCES = tests/bench/bench_kernels.c tests/kernels/kit.h
tests_bench_bench_kernels_CFLAGS = $(AM_CFLAGS)
tests_bench_bench_kernels_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
CLEANFILES += tests/bench/bench_kernels
bench-kernels: tests/bench/bench_kernels$(EXEEXT)
	tests/bench/bench_kernels$(EXEEXT)
.PHONY: bench-kernels
