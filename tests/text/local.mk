check_PROGRAMS += tests/text/test_reference tests/text/test_stream tests/text/test_tokenizers \
	tests/text/test_template
EXTRA_DIST += tests/text/make_vectors.py tests/text/tokenizers.json tests/text/templates.json
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
