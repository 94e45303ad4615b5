# fuzz target of GGUF files
check_PROGRAMS += tests/fuzz/fuzz_gguf
tests_fuzz_fuzz_gguf_SOURCES = tests/fuzz/fuzz_gguf.c tests/fuzz/fuzz_main.c
tests_fuzz_fuzz_gguf_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
EXTRA_DIST += tests/fuzz/corpus/gguf
