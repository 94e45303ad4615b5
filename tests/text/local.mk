check_PROGRAMS += tests/text/test_reference tests/text/test_stream tests/text/test_tokenizers \
	tests/text/test_template tests/text/test_encode tests/text/test_refusals \
	tests/text/test_programs tests/text/test_characters tests/text/test_tables \
	tests/text/test_published tests/text/test_layouts
EXTRA_DIST += tests/text/make_vectors.py tests/text/tokenizers.json tests/text/templates.json \
	tests/text/make_character_vectors.py tests/text/characters.json tests/text/tables.json \
	tests/text/templates
tests_text_test_reference_SOURCES = tests/text/test_reference.c tests/text/support.h
tests_text_test_reference_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_reference_LDADD = $(RH_TEST_LDADD)
tests_text_test_stream_SOURCES = tests/text/test_stream.c tests/text/support.h
tests_text_test_stream_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_stream_LDADD = $(RH_TEST_LDADD)
tests_text_test_tokenizers_SOURCES = tests/text/test_tokenizers.c tests/text/support.h
tests_text_test_tokenizers_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_tokenizers_LDADD = $(RH_TEST_LDADD)
tests_text_test_template_SOURCES = tests/text/test_template.c tests/text/support.h
tests_text_test_template_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_template_LDADD = $(RH_TEST_LDADD)
tests_text_test_encode_SOURCES = tests/text/test_encode.c tests/text/support.h
tests_text_test_encode_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_encode_LDADD = $(RH_TEST_LDADD)
tests_text_test_refusals_SOURCES = tests/text/test_refusals.c tests/text/support.h
tests_text_test_refusals_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_refusals_LDADD = $(RH_TEST_LDADD)
tests_text_test_programs_SOURCES = tests/text/test_programs.c tests/text/support.h \
	tests/programs/command.h
tests_text_test_programs_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_programs_LDADD = $(RH_TEST_LDADD)
tests_text_test_characters_SOURCES = tests/text/test_characters.c tests/text/support.h \
	tests/text/tables.h
tests_text_test_characters_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_characters_LDADD = $(RH_TEST_LDADD)
tests_text_test_tables_SOURCES = tests/text/test_tables.c tests/text/support.h tests/text/tables.h
tests_text_test_tables_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_tables_LDADD = $(RH_TEST_LDADD)
tests_text_test_published_SOURCES = tests/text/test_published.c tests/text/support.h \
	tests/text/tables.h
tests_text_test_published_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_published_LDADD = $(RH_TEST_LDADD)
tests_text_test_layouts_SOURCES = tests/text/test_layouts.c tests/text/layouts.c \
	tests/text/layouts.h tests/text/support.h tests/kernels/scratch_dir.h $(RH_GGUF_MAKE)
tests_text_test_layouts_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_layouts_LDADD = $(RH_TEST_LDADD)
