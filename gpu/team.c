/* SPDX-License-Identifier: Apache-2.0
 * The team. Two words make it: `job` counts runs (members wait for it between runs), `epoch` counts barriers (members wait
 * for it inside a run; the end of a run is one too). Both are waited for by spin, then yield, then futex.
 *
 * Waiting and waking (pairing W): a waiter adds itself to `parked` and then lets the kernel compare the word; a waker stores
 * the word and then reads `parked`. All four are sequentially consistent: either the waker sees the waiter, or the
 * kernel sees the new word and the waiter does not sleep. Weaker orders lose a wake.
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
#include <time.h>
#include <unistd.h>

#include "actors/check.h"
#include "kernels/rowfn.h"

enum {
    TEAM_SPIN_NS = 50000,  /* about the price of a park and a wake */
    TEAM_SPINS_A_LOOK = 64, /* pauses between two looks at the clock */
    TEAM_YIELDS = 8
};

/* A word that is waited for, alone on its cache lines. */
struct team_word {
    _Alignas(128) _Atomic uint32_t value;
    _Atomic uint32_t parked;
};

struct gpu_team {
    struct team_word job, epoch;
    _Alignas(128) _Atomic uint32_t arrived; /* members at the barrier now */
    /* Units taken in this region and the next; the counter of a region that begins is zeroed at the barrier before. */
    struct {
        _Alignas(128) _Atomic uint32_t value;
    } taken[2];
    _Alignas(128) void (*fn)(void *self, struct gpu_member *m); /* NULL ends the members */
    void *self;
    uint32_t size;
    uint64_t spin_ns;
    size_t scratch_bytes;
    unsigned char *scratch;
    pthread_t threads[GPU_TEAM_MAX];
    struct gpu_member members[GPU_TEAM_MAX];
};

static uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_once(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static bool word_passed(struct team_word *w, uint32_t old) {
    /* Acquire: pairs with the release half of word_set; what came before it is seen. */
    return atomic_load_explicit(&w->value, memory_order_acquire) != old;
}

/* Spins for at most spin_ns, yields a few times, then parks until the word differs from old. */
static void word_wait(struct team_word *w, uint32_t old, uint64_t spin_ns) {
    uint64_t begin = 0;
    for (uint32_t i = 1; spin_ns > 0; i++) {
        if (word_passed(w, old))
            return;
        pause_once();
        if (i % TEAM_SPINS_A_LOOK != 0)
            continue;
        uint64_t now = clock_ns();
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
    atomic_fetch_sub_explicit(&w->parked, 1, memory_order_relaxed);
}

static void word_set(struct team_word *w, uint32_t value) {
    atomic_store_explicit(&w->value, value, memory_order_seq_cst);          /* W */
    if (atomic_load_explicit(&w->parked, memory_order_seq_cst) != 0)        /* W */
        syscall(SYS_futex, &w->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void gpu_team_barrier(struct gpu_member *m) {
    struct gpu_team *t = m->team;
    uint32_t region = m->region++;
    if (t->size == 1) {
        atomic_store_explicit(&t->taken[(region + 1) % 2].value, 0, memory_order_relaxed);
        return;
    }
    /* Read before arriving: after the last arrival the epoch may move on. Relaxed: this thread passed the last barrier,
     * so it sees that epoch or, when another came first, cannot miss its own, as it has not arrived. */
    uint32_t epoch = atomic_load_explicit(&t->epoch.value, memory_order_relaxed);
    /* Acquire and release: the last arriver sees what all did and hands it on through the epoch. */
    if (atomic_fetch_add_explicit(&t->arrived, 1, memory_order_acq_rel) + 1 < t->size) {
        word_wait(&t->epoch, epoch, t->spin_ns);
        return;
    }
    atomic_store_explicit(&t->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&t->taken[(region + 1) % 2].value, 0, memory_order_relaxed);
    word_set(&t->epoch, epoch + 1);
}

bool gpu_team_take(struct gpu_member *m, uint32_t n, uint32_t grain, uint32_t *begin, uint32_t *end) {
    /* Relaxed: the counter only hands out numbers; barriers order the data. */
    _Atomic uint32_t *taken = &m->team->taken[m->region % 2].value;
    if (atomic_load_explicit(taken, memory_order_relaxed) >= n)
        return false;
    uint32_t at = atomic_fetch_add_explicit(taken, grain, memory_order_relaxed);
    if (at >= n)
        return false;
    *begin = at;
    *end = n - at < grain ? n : at + grain;
    return true;
}

static void *member_main(void *arg) {
    struct gpu_member *m = arg;
    struct gpu_team *t = m->team;
    krn_fpenv_check();
    /* The first touch places the pages near this thread. */
    memset(m->scratch, 0, t->scratch_bytes);
    for (uint32_t job = 0;; job++) {
        word_wait(&t->job, job, t->spin_ns);
        if (t->fn == NULL)
            return NULL;
        t->fn(t->self, m);
        gpu_team_barrier(m);
    }
}

void gpu_team_run(struct gpu_team *t, void (*fn)(void *self, struct gpu_member *m), void *self) {
    CHECK(fn != NULL);
    krn_fpenv_check();
    t->fn = fn;
    t->self = self;
    if (t->size > 1)
        word_set(&t->job, atomic_load_explicit(&t->job.value, memory_order_relaxed) + 1);
    fn(self, &t->members[0]);
    gpu_team_barrier(&t->members[0]);
}

/* Ends the members [1, n) that were started. */
static void team_stop(struct gpu_team *t, uint32_t n) {
    t->fn = NULL;
    word_set(&t->job, atomic_load_explicit(&t->job.value, memory_order_relaxed) + 1);
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
            status = status_say(note, STATUS_NO_MEMORY, "thread %u of %u cannot be started", i, t->size);
            team_stop(t, i);
        }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static uint32_t cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 1)
        return 1;
    return (uint32_t)CPU_COUNT(&set);
}

enum status gpu_team_open(uint32_t threads, size_t scratch_bytes, struct gpu_team **out,
                          struct status_note *note) {
    uint32_t n_cores = cores();
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
        t->members[i] = (struct gpu_member){t, i, threads, 0, scratch + i * scratch_bytes};
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
