check_PROGRAMS += tests/text/test_reference tests/text/test_stream
tests_text_test_reference_SOURCES = tests/text/test_reference.c tests/text/support.h
tests_text_test_reference_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_reference_LDADD = $(RH_TEST_LDADD)
tests_text_test_stream_SOURCES = tests/text/test_stream.c tests/text/support.h
tests_text_test_stream_CFLAGS = $(RH_TEST_CFLAGS)
tests_text_test_stream_LDADD = $(RH_TEST_LDADD)
