# fuzz targets of the text parts
check_PROGRAMS += tests/fuzz/fuzz_tokenizer tests/fuzz/fuzz_encode tests/fuzz/fuzz_template \
	tests/fuzz/fuzz_tables
tests_fuzz_fuzz_tokenizer_SOURCES = tests/fuzz/fuzz_tokenizer.c tests/fuzz/fuzz_main.c
tests_fuzz_fuzz_tokenizer_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
tests_fuzz_fuzz_encode_SOURCES = tests/fuzz/fuzz_encode.c tests/fuzz/fuzz_main.c
tests_fuzz_fuzz_encode_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
tests_fuzz_fuzz_template_SOURCES = tests/fuzz/fuzz_template.c tests/fuzz/fuzz_main.c
tests_fuzz_fuzz_template_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
tests_fuzz_fuzz_tables_SOURCES = tests/fuzz/fuzz_tables.c tests/fuzz/fuzz_main.c
tests_fuzz_fuzz_tables_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
EXTRA_DIST += tests/fuzz/corpus/tokenizer tests/fuzz/corpus/encode tests/fuzz/corpus/template \
	tests/fuzz/corpus/tables
