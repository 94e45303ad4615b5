/* SPDX-License-Identifier: Apache-2.0
 * Row functions against what the machine can do: products and attention as a ratio to the
 * fused-multiply-add peak of the table's vector width, decode as a ratio to the read bandwidth of
 * a buffer as large as the weights. Every ratio is of two medians of the same run. `make
 * bench-kernels`.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tests/kernels/kit.h"

enum { REPEATS = 9, PEAK_STEPS = 1 << 20 };

static const struct krn_rowfn *fn;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Median seconds of one call of f, each sample at least 3 ms long. */
static double median(void (*f)(void *), void *arg) {
    double sample[REPEATS];
    unsigned calls = 1;
    for (;;) {
        double t = now();
        for (unsigned i = 0; i < calls; i++)
            f(arg);
        if (now() - t > 3e-3)
            break;
        calls *= 2;
    }
    for (unsigned s = 0; s < REPEATS; s++) {
        double t = now();
        for (unsigned i = 0; i < calls; i++)
            f(arg);
        sample[s] = (now() - t) / calls;
    }
    qsort(sample, REPEATS, sizeof *sample, by_double);
    return sample[REPEATS / 2];
}

static volatile float sink;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void peak_avx512(void *arg) {
    (void)arg;
    __m512 a[16], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
    for (int i = 0; i < 16; i++)
        a[i] = _mm512_set1_ps((float)i);
    for (int s = 0; s < PEAK_STEPS / 16; s++)
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            a[i] = _mm512_fmadd_ps(a[i], x, y);
    for (int i = 1; i < 16; i++)
        a[0] = _mm512_add_ps(a[0], a[i]);
    sink = _mm512_cvtss_f32(a[0]);
}

__attribute__((target("avx2,fma"))) static void peak_avx2(void *arg) {
    (void)arg;
    __m256 a[12], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
    for (int i = 0; i < 12; i++)
        a[i] = _mm256_set1_ps((float)i);
    for (int s = 0; s < PEAK_STEPS / 12; s++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            a[i] = _mm256_fmadd_ps(a[i], x, y);
    for (int i = 1; i < 12; i++)
        a[0] = _mm256_add_ps(a[0], a[i]);
    sink = _mm256_cvtss_f32(a[0]);
}
#endif

static void peak_scalar(void *arg) {
    (void)arg;
    float a[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int s = 0; s < PEAK_STEPS / 64; s++)
        for (int i = 0; i < 8; i++)
            a[i] = fmaf(a[i], 0.999f, 1e-3f);
    sink = a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
}

/* Fused multiply-adds (of one fp32) a second. */
static double peak(void) {
#if defined(__x86_64__)
    if (strcmp(fn->isa, "avx512") == 0)
        return PEAK_STEPS * 16.0 / median(peak_avx512, NULL);
    if (strcmp(fn->isa, "avx2") == 0)
        return PEAK_STEPS / 12 * 12 * 8.0 / median(peak_avx2, NULL);
#endif
    return PEAK_STEPS / 8.0 / median(peak_scalar, NULL);
}

struct buffer {
    const uint64_t *p;
    size_t bytes;
};

static volatile uint64_t sink64;

typedef uint64_t pair __attribute__((vector_size(16)));

static void read_all(void *arg) {
    struct buffer *b = arg;
    const pair *p = (const pair *)(const void *)b->p;
    pair s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    for (size_t i = 0; i + 4 <= b->bytes / sizeof *p; i += 4) {
        s0 += p[i];
        s1 += p[i + 1];
        s2 += p[i + 2];
        s3 += p[i + 3];
    }
    s0 += s1 + s2 + s3;
    sink64 = s0[0] + s0[1];
}

/* Bytes a second that one thread reads from a buffer of this size. */
static double bandwidth(size_t bytes) {
    struct buffer b = {kit_alloc(bytes), bytes};
    memset((void *)b.p, 1, bytes);
    double s = median(read_all, &b);
    free((void *)b.p);
    return (double)bytes / s;
}

struct job {
    struct krn_product p;
    struct krn_attend a;
    uint32_t from, to;
    void *scratch;
};

static void run_product(void *arg) {
    struct job *j = arg;
    fn->product(&j->p, j->from, j->to, j->scratch);
}

static void run_attend(void *arg) {
    struct job *j = arg;
    fn->attend(&j->a, j->from, j->to, j->scratch);
}

static void bench_products(double fma_peak, enum krn_dtype dtype, uint32_t segments) {
    static const uint32_t shapes[][2] = {
        {256, 256}, {704, 256}, {256, 704}, {4096, 256}, {2048, 2048}};
    static const uint32_t rows[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 512};
    static const char *const names[] = {"f32", "f16", "bf16"};
    struct kit_rand r = {1, 0};
    for (unsigned s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        uint32_t n = shapes[s][0], k = shapes[s][1];
        struct krn_tensor w = kit_tensor(&r, dtype, n, k, KIT_TAME);
        struct krn_packed packed = kit_pack(&w);
        double bw = bandwidth(packed.bytes);
        for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            float *x = kit_floats((size_t)rows[i] * k), *y = kit_floats((size_t)rows[i] * n);
            kit_fill(&r, x, (size_t)rows[i] * k, KIT_TAME);
            struct job j = {.p = {.x = x,
                                  .ldx = k,
                                  .rows = rows[i],
                                  .w = &packed,
                                  .segments = segments,
                                  .y = y,
                                  .ldy = n},
                            .to = packed.n_blocks,
                            .scratch = kit_alloc(KRN_SCRATCH_BYTES)};
            double t = median(run_product, &j);
            printf("product %-4s V=%u %4u x %4u rows %3u: %8.1f us  %5.1f %% of peak  %5.1f %% of "
                   "read "
                   "bandwidth\n",
                   names[dtype], segments, n, k, rows[i], t * 1e6,
                   100.0 * rows[i] * n * k / t / fma_peak, 100.0 * (double)packed.bytes / t / bw);
            free(x);
            free(y);
            free(j.scratch);
        }
        free((void *)w.data);
        free((void *)packed.data);
    }
}

/* One layer's products of the shipped model's shape at each V, as a ratio to V = 1: only the
 * row-split two have segments. */
static void bench_virtual_ranks(void) {
    static const struct {
        uint32_t n, k;
        bool split;
    } layer[] = {{512, 256, false}, {256, 256, true}, {1408, 256, false}, {256, 704, true}};
    static const uint32_t rows[] = {1, 8, 64, 512};
    enum { PRODUCTS = 4 };
    struct kit_rand r = {4, 0};
    struct krn_packed w[PRODUCTS];
    for (unsigned i = 0; i < PRODUCTS; i++) {
        struct krn_tensor t = kit_tensor(&r, KRN_BF16, layer[i].n, layer[i].k, KIT_TAME);
        w[i] = kit_pack(&t);
        free((void *)t.data);
    }
    float *x = kit_floats(512 * 704), *y = kit_floats(512 * 1408);
    kit_fill(&r, x, 512 * 704, KIT_TAME);
    struct job j = {.scratch = kit_alloc(KRN_SCRATCH_BYTES)};
    for (unsigned n = 0; n < sizeof rows / sizeof rows[0]; n++) {
        double one = 0.0;
        printf("products of a layer, rows %3u:", rows[n]);
        for (uint32_t v = 1; v <= KRN_V_MAX; v *= 2) {
            double sum = 0.0;
            for (unsigned i = 0; i < PRODUCTS; i++) {
                j.p = (struct krn_product){.x = x,
                                           .ldx = layer[i].k,
                                           .rows = rows[n],
                                           .w = &w[i],
                                           .segments = layer[i].split ? v : 1,
                                           .add = layer[i].split,
                                           .y = y,
                                           .ldy = layer[i].n};
                j.to = w[i].n_blocks;
                memset(y, 0, (size_t)512 * 1408 * sizeof(float));
                sum += median(run_product, &j);
            }
            one = v == 1 ? sum : one;
            printf("  V=%u %.3f", v, sum / one);
        }
        printf("\n");
    }
    for (unsigned i = 0; i < PRODUCTS; i++)
        free((void *)w[i].data);
    free(x);
    free(y);
    free(j.scratch);
}

/* Rows at the end of a context of keys; 4 query heads over 2 KV heads of 64. */
static void bench_attend(double fma_peak) {
    static const uint32_t contexts[] = {512, 2048, 4096};
    static const uint32_t rows[] = {1, 4, 16, 256};
    enum { HEADS = 4, KV = 2, D = 64, PAGE = 64 };
    struct kit_rand r = {2, 0};
    for (unsigned c = 0; c < 3; c++) {
        uint32_t context = contexts[c], n_pages = context / PAGE, pages[64];
        uint64_t bytes = (uint64_t)PAGE * KV * D * 2 * sizeof(float);
        struct krn_kv kv = {
            .page_bytes = bytes, .page_tokens = PAGE, .kv_heads = KV, .head_dim = D};
        float *pool = kit_floats(n_pages * bytes / sizeof(float));
        kit_fill(&r, pool, n_pages * bytes / sizeof(float), KIT_TAME);
        kv.pool = (unsigned char *)pool;
        for (uint32_t i = 0; i < n_pages; i++)
            pages[i] = i;
        double bw = bandwidth(n_pages * bytes);
        for (unsigned i = 0; i < 4; i++) {
            uint32_t n = rows[i], spans = (n + KRN_SPAN_ROWS - 1) / KRN_SPAN_ROWS;
            float *q = kit_floats(n * HEADS * D), *out = kit_floats(n * HEADS * D);
            struct krn_span span[16];
            double keys = 0;
            for (uint32_t u = 0; u < spans; u++)
                span[u] =
                    (struct krn_span){u * KRN_SPAN_ROWS, n < KRN_SPAN_ROWS ? n : KRN_SPAN_ROWS,
                                      context - n + u * KRN_SPAN_ROWS, pages};
            for (uint32_t u = 0; u < n; u++)
                keys += context - n + u + 1;
            kit_fill(&r, q, n * HEADS * D, KIT_TAME);
            struct job j = {.a = {.q = q,
                                  .ldq = HEADS * D,
                                  .out = out,
                                  .ldo = HEADS * D,
                                  .spans = span,
                                  .n_spans = spans,
                                  .kv = kv,
                                  .heads = HEADS,
                                  .scale = 0.125f,
                                  .segment = 1024},
                            .to = spans * KV,
                            .scratch = kit_alloc(KRN_SCRATCH_BYTES)};
            double t = median(run_attend, &j);
            printf("attend %4u keys, rows %3u: %8.1f us  %5.1f %% of peak  %5.1f %% of read "
                   "bandwidth\n",
                   context, n, t * 1e6, 100.0 * keys * HEADS * D * 2 / t / fma_peak,
                   100.0 * spans * (double)(n_pages * bytes) / t / bw);
            free(q);
            free(out);
            free(j.scratch);
        }
        free(pool);
    }
}

struct draw_job {
    struct krn_draw d;
    float *row;
};

static void run_draw(void *arg) {
    struct draw_job *j = arg;
    struct krn_drawn out;
    fn->draw(&j->d, &out);
    sink64 = out.token;
}

static void bench_draw(void) {
    static const struct {
        const char *name;
        struct krn_sampling s;
    } kinds[] = {
        {"greedy", {.top_p = 1, .repetition = 1}},
        {"temperature", {.temperature = 1, .top_p = 1, .repetition = 1}},
        {"top-p 0.9", {.temperature = 1, .top_p = 0.9f, .repetition = 1}},
        {"top-k 40", {.temperature = 1, .top_k = 40, .top_p = 1, .repetition = 1}},
        {"top-k 40, top-p 0.9, min-p",
         {.temperature = 1, .top_k = 40, .top_p = 0.9f, .min_p = 0.05f, .repetition = 1}},
        {"temperature, logprobs 5",
         {.temperature = 1, .top_p = 1, .repetition = 1, .n_top = 5, .flags = KRN_DRAW_LOGPROB}}};
    struct kit_rand r = {3, 0};
    for (uint32_t vocab = 4096; vocab <= 262144; vocab *= 8) {
        float *z = kit_floats(vocab);
        for (uint32_t i = 0; i < vocab; i++) /* about normal, spread 3 */
            z[i] = 3 * (kit_unit(&r) + kit_unit(&r) + kit_unit(&r));
        double base =
            median(read_all, &(struct buffer){(const uint64_t *)(const void *)z, vocab * 4});
        for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            struct krn_top top[KRN_TOP_MAX];
            struct draw_job j = {{.logits = z,
                                  .vocab = vocab,
                                  .pos = 9,
                                  .sampling = &kinds[i].s,
                                  .scratch = kit_alloc(krn_draw_scratch(vocab)),
                                  .top = top},
                                 z};
            double t = median(run_draw, &j);
            printf("draw %6u %-28s %8.1f us, %6.1f x reading the row\n", vocab, kinds[i].name,
                   t * 1e6, t / base);
            free(j.d.scratch);
        }
        free(z);
    }
}

static void *peak_thread(void *arg) {
    *(double *)arg = peak();
    return NULL;
}

int main(int argc, char **argv) {
    const char *only = argc > 1 ? argv[1] : "";
    fn = krn_rowfn_pick(NULL);
    double one = peak(), two[2];
    pthread_t other;
    pthread_create(&other, NULL, peak_thread, &two[1]);
    two[0] = peak();
    pthread_join(other, NULL);
    printf("table %s: peak of one thread %.1f G fused multiply-adds/s, of two %.1f\n", fn->isa,
           one * 1e-9, (two[0] + two[1]) * 1e-9);
    if (*only == '\0' || strstr(only, "product") != NULL) {
        bench_products(one, KRN_BF16, 1);
        bench_products(one, KRN_BF16, 8);
        bench_products(one, KRN_F32, 1);
    }
    if (*only == '\0' || strstr(only, "ranks") != NULL)
        bench_virtual_ranks();
    if (*only == '\0' || strstr(only, "attend") != NULL)
        bench_attend(one);
    if (*only == '\0' || strstr(only, "draw") != NULL)
        bench_draw();
    return 0;
}
