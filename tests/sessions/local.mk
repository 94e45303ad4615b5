check_PROGRAMS += tests/sessions/test_pages \
	tests/sessions/test_evict \
	tests/sessions/test_reserve \
	tests/sessions/test_reason \
	tests/sessions/test_trie \
	tests/sessions/test_book \
	tests/sessions/test_parking \
	tests/sessions/test_memory \
	tests/sessions/test_tiers \
	tests/sessions/test_warm \
	tests/sessions/test_catalog \
	tests/sessions/test_export \
	tests/sessions/test_index \
	tests/sessions/test_store \
	tests/sessions/test_store_load \
	tests/sessions/test_store_damage \
	tests/sessions/test_store_running
tests_sessions_test_pages_SOURCES = tests/sessions/test_pages.c tests/sessions/expect.h
tests_sessions_test_pages_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_pages_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_evict_SOURCES = tests/sessions/test_evict.c tests/sessions/expect.h
tests_sessions_test_evict_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_evict_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_reserve_SOURCES = tests/sessions/test_reserve.c tests/sessions/expect.h
tests_sessions_test_reserve_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_reserve_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_reason_SOURCES = tests/sessions/test_reason.c tests/sessions/expect.h
tests_sessions_test_reason_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_reason_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_trie_SOURCES = tests/sessions/test_trie.c tests/sessions/expect.h
tests_sessions_test_trie_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_trie_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_book_SOURCES = tests/sessions/test_book.c tests/sessions/expect.h \
	tests/sessions/lanes_model.h tests/sessions/lanes_model.c
tests_sessions_test_book_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_book_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_parking_SOURCES = tests/sessions/test_parking.c tests/sessions/expect.h
tests_sessions_test_parking_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_parking_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_memory_SOURCES = tests/sessions/test_memory.c tests/sessions/expect.h \
	tests/sessions/lanes_model.h tests/sessions/lanes_model.c
tests_sessions_test_memory_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_memory_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_warm_SOURCES = tests/sessions/test_warm.c tests/sessions/expect.h
tests_sessions_test_warm_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_warm_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_tiers_SOURCES = tests/sessions/test_tiers.c tests/sessions/expect.h
tests_sessions_test_tiers_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_tiers_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_catalog_SOURCES = tests/sessions/test_catalog.c tests/sessions/expect.h
tests_sessions_test_catalog_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_catalog_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_export_SOURCES = tests/sessions/test_export.c tests/sessions/expect.h
tests_sessions_test_export_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_export_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_index_SOURCES = tests/sessions/test_index.c tests/sessions/expect.h \
	tests/sessions/store_rig.c tests/sessions/store_rig.h \
	tests/sessions/fake_disk.c tests/sessions/fake_disk.h
tests_sessions_test_index_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_index_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_store_SOURCES = tests/sessions/test_store.c tests/sessions/expect.h \
	tests/sessions/store_rig.c tests/sessions/store_rig.h \
	tests/sessions/fake_disk.c tests/sessions/fake_disk.h
tests_sessions_test_store_load_SOURCES = tests/sessions/test_store_load.c tests/sessions/expect.h \
	tests/sessions/store_rig.c tests/sessions/store_rig.h \
	tests/sessions/fake_disk.c tests/sessions/fake_disk.h
tests_sessions_test_store_load_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_store_load_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_store_damage_SOURCES = tests/sessions/test_store_damage.c tests/sessions/expect.h \
	tests/sessions/store_rig.c tests/sessions/store_rig.h \
	tests/sessions/fake_disk.c tests/sessions/fake_disk.h
tests_sessions_test_store_damage_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_store_damage_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_store_running_SOURCES = tests/sessions/test_store_running.c tests/sessions/expect.h \
	tests/sessions/store_rig.c tests/sessions/store_rig.h \
	tests/sessions/fake_disk.c tests/sessions/fake_disk.h
tests_sessions_test_store_running_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_store_running_LDADD = $(RH_TEST_LDADD)
tests_sessions_test_store_CFLAGS = $(RH_TEST_CFLAGS)
tests_sessions_test_store_LDADD = $(RH_TEST_LDADD)

EXTRA_PROGRAMS += tests/bench/bench_sessions
tests_bench_bench_sessions_SOURCES = tests/bench/bench_sessions.c
tests_bench_bench_sessions_CFLAGS = $(AM_CFLAGS)
tests_bench_bench_sessions_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
.PHONY: bench-sessions
bench-sessions: tests/bench/bench_sessions$(EXEEXT)
	./tests/bench/bench_sessions$(EXEEXT)
EXTRA_DIST += tests/bench/fio_read
