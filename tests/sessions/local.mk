check_PROGRAMS += tests/sessions/test_book
tests_sessions_test_book_SOURCES = tests/sessions/test_book.c \
	tests/sessions/lanes_model.h tests/sessions/lanes_model.c
tests_sessions_test_book_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_book_LDADD = $(RH_TEST_LDADD)
