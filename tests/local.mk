# SPDX-License-Identifier: Apache-2.0
include $(srcdir)/tests/actors/local.mk
include $(srcdir)/tests/kernels/local.mk
include $(srcdir)/tests/gpu/local.mk
include $(srcdir)/tests/cuda/local.mk
include $(srcdir)/tests/cuda/emulated.mk
include $(srcdir)/tests/fabric/local.mk
include $(srcdir)/tests/sessions/local.mk
include $(srcdir)/tests/lanes/local.mk
include $(srcdir)/tests/text/local.mk
include $(srcdir)/tests/door/local.mk
include $(srcdir)/tests/sim/local.mk
include $(srcdir)/tests/programs/local.mk
include $(srcdir)/tests/fuzz/local.mk

check_PROGRAMS += tests/tidy tests/include_check
tests_tidy_SOURCES = tests/tidy.c tests/tree.c tests/tree.h tests/harness.h
tests_tidy_CFLAGS = $(RH_TEST_CFLAGS)
tests_tidy_LDADD = $(RH_TEST_LDADD)
tests_include_check_SOURCES = tests/include_check.c tests/tree.c tests/tree.h tests/harness.h
tests_include_check_CFLAGS = $(RH_TEST_CFLAGS)
tests_include_check_LDADD = $(RH_TEST_LDADD)

EXTRA_DIST += tests/README.md tests/run tests/stages.mk tests/count tests/run_one tests/lint tests/install_check tests/dist_check \
	tests/cross_aarch64 \
	tests/cppcheck.suppress tests/tidy.allow tests/reference tests/planted

# The tests of what runs on several threads, for the thread sanitizer.
RH_CONCURRENT_TESTS = $(filter tests/actors/% tests/gpu/% tests/fabric/% tests/door/% tests/lanes/test_round \
	tests/lanes/test_steady tests/lanes/test_vocabulary, $(TESTS))
.PHONY: check-concurrent check-planted
check-planted: $(check_PROGRAMS)
	+$(SHELL) $(srcdir)/tests/planted/run $(notdir $(abs_builddir)) 2
check-concurrent:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(RH_CONCURRENT_TESTS)'
