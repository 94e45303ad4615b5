check_PROGRAMS += tests/sessions/test_book tests/sessions/test_memory
tests_sessions_test_book_SOURCES = tests/sessions/test_book.c \
	tests/sessions/lanes_model.h tests/sessions/lanes_model.c
tests_sessions_test_book_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_book_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_memory_SOURCES = tests/sessions/test_memory.c \
	tests/sessions/lanes_model.h tests/sessions/lanes_model.c
tests_sessions_test_memory_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_memory_LDADD = $(RH_TEST_LDADD)
