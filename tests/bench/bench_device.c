/* SPDX-License-Identifier: Apache-2.0
 * The CPU device on fable-5m: price of a region of the team, cold prompts as a share of the fused
 * multiply-add peak, decode by lanes. Shares and ratios are per second of processor time (waiting
 * by spinning counts), so that a busy machine changes them little; tokens a second are by the
 * clock. `make bench-device`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "gpu/team.h"
#include "tests/gpu/cpu_rig.h"
#include "tests/kernels/reference.h"

enum { REPEATS = 5, ROWS = 512, PEAK_STEPS = 1 << 21, DECODE_STEPS = 150, DECODE_FROM = 128 };

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_double);
    return x[n / 2];
}

static void *volatile sink;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static double peak_avx512(void) {
    __m512 a[16], x = _mm512_set1_ps(0.999F), y = _mm512_set1_ps(1e-3F);
    for (int i = 0; i < 16; i++)
        a[i] = _mm512_set1_ps((float)i);
    for (int s = 0; s < PEAK_STEPS / 16; s++)
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            a[i] = _mm512_fmadd_ps(a[i], x, y);
    for (int i = 1; i < 16; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    sink = (void *)(uintptr_t)_mm512_cvtss_f32(a[0]);
    return PEAK_STEPS * 16.0;
}
__attribute__((target("avx2,fma"))) static double peak_avx2(void) {
    __m256 a[12], x = _mm256_set1_ps(0.999F), y = _mm256_set1_ps(1e-3F);
    for (int i = 0; i < 12; i++)
        a[i] = _mm256_set1_ps((float)i);
    for (int s = 0; s < PEAK_STEPS / 12; s++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            a[i] = _mm256_fmadd_ps(a[i], x, y);
    for (int i = 1; i < 12; i++)
        a[0] = _mm256_add_ps(a[0], a[i]);
    sink = (void *)(uintptr_t)_mm256_cvtss_f32(a[0]);
    return PEAK_STEPS / 12 * 12 * 8.0;
}
#endif

/* Fused multiply-adds a second of one thread's processor time, of the vectors that the table uses;
 * 0: not known. */
static double peak(const char *isa) {
    double best = 0;
    for (int i = 0; i < 3 * REPEATS; i++) {
        double n = 0, t = seconds(CLOCK_THREAD_CPUTIME_ID);
#if defined(__x86_64__)
        if (strcmp(isa, "avx512") == 0)
            n = peak_avx512();
        else if (strcmp(isa, "avx2") == 0)
            n = peak_avx2();
#endif
        double rate = n / (seconds(CLOCK_THREAD_CPUTIME_ID) - t);
        best = rate > best ? rate : best;
    }
    return best;
}

enum { REGIONS = 500, UNIT_STEPS = 2000 };

/* A unit of about a microsecond. */
static void unit(uint64_t *state) {
    for (int i = 0; i < UNIT_STEPS; i++)
        *state = *state * 6364136223846793005u + 1442695040888963407u;
}

/* Regions of one unit a member; member 0 keeps their times where it had one unit and another member
 * the rest. */
struct regions {
    double time[REGIONS];
    uint32_t n, limit;
    _Alignas(64) uint64_t state[GPU_TEAM_MAX][8];
};
static void small_regions(void *self, struct gpu_member *m) {
    struct regions *r = self;
    uint32_t begin, end;
    for (uint32_t i = 0; i < r->limit; i++) {
        uint32_t taken = 0;
        double from = m->index == 0 ? seconds(CLOCK_MONOTONIC) : 0;
        while (gpu_team_take(m, m->size, 1, &begin, &end)) {
            unit(&r->state[m->index][0]);
            taken++;
        }
        gpu_team_end(m);
        if (m->index == 0 && taken == 1)
            r->time[r->n++] = seconds(CLOCK_MONOTONIC) - from;
    }
}

/* What a region costs on top of its longest unit, when every member is running: the tenth of the
 * samples that was disturbed least. */
static void bench_team(uint32_t threads) {
    static struct regions r;
    static double all[400 * REGIONS], units[1000];
    struct gpu_team *t;
    struct status_note note;
    uint32_t n = 0;
    double run = 1;
    rig_ok(gpu_team_open(threads, 64, &t, &note), &note);
    for (int i = 0; i < 400; i++) {
        r.n = 0;
        r.limit = REGIONS;
        gpu_team_run(t, small_regions, &r);
        memcpy(all + n, r.time, r.n * sizeof *all);
        n += r.n;
        r.limit = 0;
        double from = seconds(CLOCK_MONOTONIC);
        gpu_team_run(t, small_regions, &r);
        from = seconds(CLOCK_MONOTONIC) - from;
        run = from < run ? from : run;
    }
    for (int i = 0; i < 1000; i++) {
        double from = seconds(CLOCK_MONOTONIC);
        unit(&r.state[0][0]);
        units[i] = seconds(CLOCK_MONOTONIC) - from;
    }
    qsort(all, n, sizeof *all, by_double);
    qsort(units, 1000, sizeof *units, by_double);
    if (n < 100)
        printf("| %u | the members never ran at one time | %.0f |\n", threads, run * 1e9);
    else
        printf("| %u | %.0f | %.0f |\n", threads, (all[n / 10] - units[100]) * 1e9, run * 1e9);
    gpu_team_close(t);
}

/* Multiply-adds of a prompt of n tokens from position 0, logits of the last row. */
static double prompt_work(const struct krn_config *c, double n) {
    double q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim, h = c->hidden;
    double row = h * (q + 2 * kv) + q * h + 3.0 * h * c->ffn;
    return c->layers * (n * row + n * (n + 1) / 2 * 2 * q) + (double)c->vocab * h;
}

static double run_prompt(struct rig *r, struct rig_session *s, const uint32_t *ids, uint32_t n) {
    double t = seconds(CLOCK_PROCESS_CPUTIME_ID);
    r->next_page = 1;
    rig_session_begin(r, s, 1, ids, n);
    while (s->done < n) {
        uint32_t left = n - s->done, rows = left < ROWS ? left : ROWS;
        struct test_seq seq = rig_seq(r, s, rows, rows == left);
        rig_step(r, 0, NULL, 0, &seq, 1);
        s->done += rows;
    }
    return seconds(CLOCK_PROCESS_CPUTIME_ID) - t;
}

static void bench_cold(const struct rig_model *m, const uint32_t *ids, uint32_t threads,
                       double fma_peak) {
    static const uint32_t lengths[] = {512, 2048, 4000};
    static struct rig_session s;
    struct rig r;
    rig_open(&r, m, ROWS, threads, NULL);
    for (int l = 0; l < 3; l++) {
        double cpu[REPEATS], wall[REPEATS];
        for (int i = 0; i < REPEATS; i++) {
            double from = seconds(CLOCK_MONOTONIC);
            cpu[i] = run_prompt(&r, &s, ids, lengths[l]);
            wall[i] = seconds(CLOCK_MONOTONIC) - from;
        }
        double share = prompt_work(&m->model->config, lengths[l]) / median(cpu, REPEATS) / fma_peak;
        printf("| %u | %u | %.0f | %.0f %% |\n", threads, lengths[l],
               lengths[l] / median(wall, REPEATS), share * 100);
    }
    rig_close(&r);
}

static void bench_decode(const struct rig_model *m, const uint32_t *ids, uint32_t threads) {
    static struct rig_session s[RIG_SEQS];
    struct rig r;
    double one = 0;
    rig_open(&r, m, ROWS, threads, NULL);
    for (uint32_t lanes = 1; lanes <= RIG_SEQS; lanes *= 2) {
        double cpu[REPEATS], wall[REPEATS];
        for (int i = 0; i < REPEATS; i++) {
            r.next_page = 1;
            for (uint32_t l = 0; l < lanes; l++) {
                rig_session_begin(&r, &s[l], l, ids, DECODE_FROM + DECODE_STEPS);
                struct test_seq seq = rig_seq(&r, &s[l], DECODE_FROM, 1);
                rig_step(&r, 0, NULL, 0, &seq, 1);
                s[l].done = DECODE_FROM;
            }
            double c = seconds(CLOCK_PROCESS_CPUTIME_ID), w = seconds(CLOCK_MONOTONIC);
            for (int step = 0; step < DECODE_STEPS; step++) {
                struct test_seq seqs[RIG_SEQS];
                for (uint32_t l = 0; l < lanes; l++) {
                    seqs[l] = rig_seq(&r, &s[l], 1, 1);
                    s[l].done++;
                }
                rig_step(&r, 0, NULL, 0, seqs, lanes);
            }
            cpu[i] = seconds(CLOCK_PROCESS_CPUTIME_ID) - c;
            wall[i] = seconds(CLOCK_MONOTONIC) - w;
        }
        double rate = lanes * DECODE_STEPS / median(cpu, REPEATS);
        one = lanes == 1 ? rate : one;
        printf("| %u | %u | %.0f | %.2f |\n", threads, lanes,
               lanes * DECODE_STEPS / median(wall, REPEATS), rate / one);
    }
    rig_close(&r);
}

int main(void) {
    struct reference *ref = reference_open();
    struct krn_model *model;
    struct status_note note;
    struct rig_model m;
    const uint32_t *ids = (const uint32_t *)ref->heldout;
    const char *isa = krn_rowfn_pick(NULL)->isa;
    rig_ok(krn_model_open(ref->model_path, &model, &note), &note);
    rig_model_wrap(&m, model, 0);
    double fma_peak = peak(isa);
    printf("%s, V = %u, peak of one thread %.1f G multiply-adds/s\n\n", isa,
           m.profile.virtual_ranks, fma_peak * 1e-9);
    printf("| threads | ns a region | ns a run |\n| --- | --- | --- |\n");
    for (uint32_t threads = 1; threads <= 2; threads++)
        bench_team(threads);
    printf("\n| threads | cold prompt | tok/s | share of the peak |\n| --- | --- | --- | --- |\n");
    for (uint32_t threads = 1; threads <= 2; threads++)
        bench_cold(&m, ids, threads, fma_peak);
    printf("\n| threads | lanes | decode tok/s | to one lane |\n| --- | --- | --- | --- |\n");
    for (uint32_t threads = 1; threads <= 2; threads++)
        bench_decode(&m, ids, threads);
    rig_model_close(&m);
    reference_close(ref);
    return 0;
}
