# Tests of actors/: each file mirrors one there.
check_PROGRAMS += tests/actors/test_actor tests/actors/test_ck tests/actors/test_clock \
	tests/actors/test_drain tests/actors/test_journal tests/actors/test_mailbox_yield \
	tests/actors/test_sim tests/actors/test_status tests/actors/test_worker
EXTRA_DIST += tests/actors/rig.h
tests_actors_test_actor_SOURCES = tests/actors/test_actor.c
tests_actors_test_actor_CFLAGS = $(RH_TEST_CFLAGS)
tests_actors_test_actor_LDADD = $(RH_TEST_LDADD)
tests_actors_test_ck_SOURCES = tests/actors/test_ck.c
tests_actors_test_ck_CFLAGS = $(RH_TEST_CFLAGS)
tests_actors_test_ck_LDADD = $(RH_TEST_LDADD)
tests_actors_test_clock_SOURCES = tests/actors/test_clock.c
tests_actors_test_clock_CFLAGS = $(RH_TEST_CFLAGS)
tests_actors_test_clock_LDADD = $(RH_TEST_LDADD)
tests_actors_test_drain_SOURCES = tests/actors/test_drain.c
tests_actors_test_drain_CFLAGS = $(RH_TEST_CFLAGS)
tests_actors_test_drain_LDADD = $(RH_TEST_LDADD)
tests_actors_test_journal_SOURCES = tests/actors/test_journal.c
tests_actors_test_journal_CFLAGS = $(RH_TEST_CFLAGS)
tests_actors_test_journal_LDADD = $(RH_TEST_LDADD)
tests_actors_test_mailbox_yield_SOURCES = tests/actors/test_mailbox_yield.c
tests_actors_test_mailbox_yield_CFLAGS = $(RH_TEST_CFLAGS)
tests_actors_test_mailbox_yield_LDADD = $(RH_TEST_LDADD)
tests_actors_test_sim_SOURCES = tests/actors/test_sim.c
tests_actors_test_sim_CFLAGS = $(RH_TEST_CFLAGS)
tests_actors_test_sim_LDADD = $(RH_TEST_LDADD)
tests_actors_test_status_SOURCES = tests/actors/test_status.c
tests_actors_test_status_CFLAGS = $(RH_TEST_CFLAGS)
tests_actors_test_status_LDADD = $(RH_TEST_LDADD)
tests_actors_test_worker_SOURCES = tests/actors/test_worker.c
tests_actors_test_worker_CFLAGS = $(RH_TEST_CFLAGS)
tests_actors_test_worker_LDADD = $(RH_TEST_LDADD)
# The Spin model of the mailbox.
dist_check_SCRIPTS += tests/model/run_mailbox
EXTRA_DIST += tests/model/mailbox.pml tests/model/spin.sh
# What the actors cost, as ratios to a bare C loop of the same run.
EXTRA_PROGRAMS += tests/bench/bench_actors
tests_bench_bench_actors_SOURCES = tests/bench/bench_actors.c
tests_bench_bench_actors_CFLAGS = $(AM_CFLAGS)
tests_bench_bench_actors_LDADD = libactors.a $(CK_LIBS) -lpthread
.PHONY: bench-actors
bench-actors: tests/bench/bench_actors$(EXEEXT)
	./tests/bench/bench_actors$(EXEEXT)
# Any bytes as a journal.
check_PROGRAMS += tests/fuzz/fuzz_journal
tests_fuzz_fuzz_journal_SOURCES = tests/fuzz/fuzz_journal.c tests/fuzz/fuzz_main.c
tests_fuzz_fuzz_journal_LDADD = $(RH_LIBS) $(RH_DEPS_LIBS)
EXTRA_DIST += tests/fuzz/corpus/journal
