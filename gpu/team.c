/* SPDX-License-Identifier: Apache-2.0
 * The team's words:
 *   ticket  region and next unit; members take units by compare and exchange, so nobody takes one
 *           of a region that is over
 *   done    units of the region that are finished; who finishes the last one opens the next region
 *   region  number of the region, to wait for
 *   job     number of the run, to wait for between runs
 *   gate    GATE_OPEN while a run may be joined, and how many helpers are inside; the caller waits
 *           for 0
 *
 * Waiting and waking (pairing W): a waiter adds itself to `parked` and then lets the kernel compare
 * the word; a waker changes the word and then reads `parked`. All four are sequentially consistent:
 * either the waker sees the waiter, or the kernel sees the new word and the waiter does not sleep.
 * Weaker orders lose a wake.
 */
#include "gpu/team.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "actors/check.h"
#include "actors/ck.h"
#include "actors/port.h"
#include "kernels/rowfn.h"

enum {
    TEAM_SPIN_NS = 50000,   /* about the price of a park and a wake */
    TEAM_SPINS_A_LOOK = 64, /* pauses between two looks at the clock */
    TEAM_YIELDS = 8
};
#define GATE_OPEN 0x80000000u

/* A word that is waited for, alone on its cache lines. */
struct team_word {
    _Alignas(128) _Atomic uint32_t value;
    _Atomic uint32_t parked;
};

struct gpu_team {
    struct team_word job, gate, region;
    _Alignas(128) _Atomic uint64_t ticket;
    _Alignas(128) _Atomic uint32_t done;
    _Alignas(128) _Atomic uint32_t failed;
    /* written by the caller while the gate is shut and nobody is inside */
    _Alignas(128) void (*fn)(void *self, struct gpu_member *m); /* NULL ends the helpers */
    void *self;
    uint32_t first_region;
    uint32_t size;
    uint64_t spin_ns;
    size_t scratch_bytes;
    unsigned char *scratch;
    pthread_t threads[GPU_TEAM_MAX];
    struct gpu_member members[GPU_TEAM_MAX];
};

static bool word_passed(struct team_word *w, uint32_t old) {
    /* Acquire: pairs with word_set and gate_leave; what came before them is seen. */
    return atomic_load_explicit(&w->value, memory_order_acquire) != old;
}

/* Spins for at most spin_ns, yields a few times, then parks until the word differs from old. */
static void word_wait(struct team_word *w, uint32_t old, uint64_t spin_ns) {
    uint64_t begin = 0;
    for (uint32_t i = 1; spin_ns > 0; i++) {
        if (word_passed(w, old))
            return;
        act_stall();
        if (i % TEAM_SPINS_A_LOOK != 0)
            continue;
        uint64_t now = act_port_now_ns();
        begin = begin == 0 ? now : begin;
        if (now - begin > spin_ns)
            break;
    }
    for (int i = 0; i < TEAM_YIELDS; i++) {
        if (word_passed(w, old))
            return;
        sched_yield();
    }
    atomic_fetch_add_explicit(&w->parked, 1, memory_order_seq_cst); /* W */
    while (atomic_load_explicit(&w->value, memory_order_seq_cst) == old)
        syscall(SYS_futex, &w->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    /* Relaxed: a count that is too high costs one call that wakes nobody. */
    atomic_fetch_sub_explicit(&w->parked, 1, memory_order_relaxed);
}

/* After a sequentially consistent change of the word (W). */
static void word_wake(struct team_word *w) {
    if (atomic_load_explicit(&w->parked, memory_order_seq_cst) != 0) /* W */
        syscall(SYS_futex, &w->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void word_set(struct team_word *w, uint32_t value) {
    atomic_store_explicit(&w->value, value, memory_order_seq_cst); /* W */
    word_wake(w);
}

/* Reports held units done; the last one opens the next region. */
static void team_report(struct gpu_member *m) {
    struct gpu_team *t = m->team;
    uint32_t held = m->held;
    m->held = 0;
    /* Acquire and release: the last reporter sees what all units wrote and hands it on through
     * ticket and region. */
    if (held == 0 || atomic_fetch_add_explicit(&t->done, held, memory_order_acq_rel) + held < m->n)
        return;
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    /* Release: pairs with the acquire in gpu_team_take. */
    atomic_store_explicit(&t->ticket, (uint64_t)(m->region + 1) << 32, memory_order_release);
    word_set(&t->region, m->region + 1);
}

bool gpu_team_take(struct gpu_member *m, uint32_t n, uint32_t grain, uint32_t *begin,
                   uint32_t *end) {
    struct gpu_team *t = m->team;
    m->n = n;
    if (t->size == 1) {
        *begin = m->next;
        *end = n - m->next < grain ? n : m->next + grain;
        m->next = *end;
        return *begin < n;
    }
    team_report(m);
    uint64_t ticket = atomic_load_explicit(&t->ticket, memory_order_acquire);
    for (;;) {
        uint32_t at = (uint32_t)ticket;
        if ((uint32_t)(ticket >> 32) != m->region || at >= n)
            return false;
        uint32_t to = n - at < grain ? n : at + grain;
        /* Acquire: pairs with the release in team_report, so that this member sees the regions
         * before. */
        if (atomic_compare_exchange_weak_explicit(&t->ticket, &ticket,
                                                  (uint64_t)m->region << 32 | to,
                                                  memory_order_acquire, memory_order_acquire)) {
            m->held = to - at;
            *begin = at;
            *end = to;
            return true;
        }
    }
}

void gpu_team_end(struct gpu_member *m) {
    struct gpu_team *t = m->team;
    m->next = 0;
    if (m->n == 0 || t->size == 1)
        return;
    team_report(m);
    word_wait(&t->region, m->region, t->spin_ns);
    m->region++;
    m->n = 0;
}

void gpu_team_fail(struct gpu_member *m) {
    /* Relaxed: the region's end orders it for all who work in this region. */
    atomic_store_explicit(&m->team->failed, 1, memory_order_relaxed);
}

bool gpu_team_failed(const struct gpu_member *m) {
    return atomic_load_explicit(&m->team->failed, memory_order_relaxed) != 0;
}

static void member_run(struct gpu_member *m) {
    m->region = m->team->first_region;
    m->n = m->next = m->held = 0;
    m->team->fn(m->team->self, m);
    CHECK(m->held == 0);
}

/* Into an open gate; false when it is shut. */
static bool gate_enter(struct gpu_team *t) {
    uint32_t gate = atomic_load_explicit(&t->gate.value, memory_order_relaxed);
    do {
        if ((gate & GATE_OPEN) == 0)
            return false;
        /* Acquire: pairs with the opening in gpu_team_run; fn, self and first_region are seen. */
    } while (!atomic_compare_exchange_weak_explicit(&t->gate.value, &gate, gate + 1,
                                                    memory_order_acquire, memory_order_relaxed));
    return true;
}

static void gate_leave(struct gpu_team *t) {
    /* Release half: the caller, when it sees 0, may change what fn read. */
    if (atomic_fetch_sub_explicit(&t->gate.value, 1, memory_order_seq_cst) == 1) /* W */
        word_wake(&t->gate);
}

static void *member_main(void *arg) {
    struct gpu_member *m = arg;
    struct gpu_team *t = m->team;
    krn_fpenv_check();
    memset(m->scratch, 0, t->scratch_bytes); /* the first touch places the pages near this thread */
    for (uint32_t job = 0;;) {
        word_wait(&t->job, job, t->spin_ns);
        job = atomic_load_explicit(&t->job.value, memory_order_relaxed);
        /* A run that is over, or the next one already: whatever is open is joined. */
        if (!gate_enter(t))
            continue;
        bool last = t->fn == NULL;
        if (!last)
            member_run(m);
        gate_leave(t);
        if (last)
            return NULL;
    }
}

/* Opens the gate for fn and calls the helpers. */
static void team_call(struct gpu_team *t, void (*fn)(void *self, struct gpu_member *m),
                      void *self) {
    t->fn = fn;
    t->self = self;
    t->first_region = (uint32_t)(atomic_load_explicit(&t->ticket, memory_order_relaxed) >> 32);
    atomic_store_explicit(&t->failed, 0, memory_order_relaxed);
    /* Release: pairs with gate_enter. */
    atomic_store_explicit(&t->gate.value, GATE_OPEN, memory_order_release);
    word_set(&t->job, atomic_load_explicit(&t->job.value, memory_order_relaxed) + 1);
}

void gpu_team_run(struct gpu_team *t, void (*fn)(void *self, struct gpu_member *m), void *self) {
    CHECK(fn != NULL);
    krn_fpenv_check();
    if (t->size == 1) {
        t->fn = fn;
        t->self = self;
        atomic_store_explicit(&t->failed, 0, memory_order_relaxed);
        member_run(&t->members[0]);
        return;
    }
    team_call(t, fn, self);
    member_run(&t->members[0]);
    /* Acquire: pairs with gate_leave. */
    uint32_t inside =
        atomic_fetch_and_explicit(&t->gate.value, ~GATE_OPEN, memory_order_acq_rel) & ~GATE_OPEN;
    while (inside != 0) {
        word_wait(&t->gate, inside, t->spin_ns);
        inside = atomic_load_explicit(&t->gate.value, memory_order_acquire);
    }
}

/* Ends the members [1, n) that were started. The gate stays open, so each finds its way out. */
static void team_stop(struct gpu_team *t, uint32_t n) {
    team_call(t, NULL, NULL);
    for (uint32_t i = 1; i < n; i++)
        pthread_join(t->threads[i], NULL);
}

static enum status team_start(struct gpu_team *t, struct status_note *note) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals belong to the program's own threads */
    enum status status = STATUS_OK;
    for (uint32_t i = 1; i < t->size && status == STATUS_OK; i++)
        if (pthread_create(&t->threads[i], NULL, member_main, &t->members[i]) != 0) {
            status =
                status_say(note, STATUS_NO_MEMORY, "thread %u of %u cannot be started", i, t->size);
            team_stop(t, i);
        }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

uint32_t gpu_team_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 1)
        return 1;
    return (uint32_t)CPU_COUNT(&set);
}

enum status gpu_team_open(uint32_t threads, size_t scratch_bytes, struct gpu_team **out,
                          struct status_note *note) {
    uint32_t n_cores = gpu_team_cores();
    if (threads == 0)
        threads = n_cores < GPU_TEAM_MAX ? n_cores : GPU_TEAM_MAX;
    if (threads > GPU_TEAM_MAX)
        return status_say(note, STATUS_TOO_LARGE, "%u threads asked for, at most %u", threads,
                          GPU_TEAM_MAX);
    scratch_bytes = (scratch_bytes + 127) / 128 * 128;
    struct gpu_team *t = aligned_alloc(128, sizeof *t);
    unsigned char *scratch = aligned_alloc(128, threads * scratch_bytes + 128);
    if (t == NULL || scratch == NULL) {
        free(t);
        free(scratch);
        return status_say(note, STATUS_NO_MEMORY, "no memory for a team of %u threads", threads);
    }
    memset(t, 0, sizeof *t);
    t->size = threads;
    t->scratch = scratch;
    t->scratch_bytes = scratch_bytes;
    t->spin_ns = threads <= n_cores ? TEAM_SPIN_NS : 0;
    for (uint32_t i = 0; i < threads; i++)
        t->members[i] = (struct gpu_member){
            .team = t, .index = i, .size = threads, .scratch = scratch + i * scratch_bytes};
    enum status status = team_start(t, note);
    if (status != STATUS_OK) {
        free(scratch);
        free(t);
        return status;
    }
    *out = t;
    return STATUS_OK;
}

void gpu_team_close(struct gpu_team *t) {
    if (t == NULL)
        return;
    if (t->size > 1)
        team_stop(t, t->size);
    free(t->scratch);
    free(t);
}

uint32_t gpu_team_size(const struct gpu_team *t) {
    return t->size;
}
