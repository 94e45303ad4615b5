/* SPDX-License-Identifier: Apache-2.0
 * Products of cuda-bf16 on a GPU, every kernel and every row count from 1 to 512 against the
 * oracle, bit for bit: odd shapes, segments, rows that are not finite beside others, what must not
 * be written; bias, residual, gate and packed results against the host's arithmetic.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/approx.h"
#include "kernels/cuda/oracle_bf16.h"
#include "kernels/cuda/rows_bf16.h"
#include "tests/cuda/kit.h"

enum { ROWS_MAX = 512, POISON = 0x7fdecade };

static const char *const path_names[] = {"auto",    "generic",  "few",      "stream",
                                         "many 64", "many 128", "many 192", "many 256"};

struct shape {
    uint32_t n, k, segments, step; /* step: of the sweep over row counts */
};

struct rig {
    struct kit kit;
    struct shape s;
    uint32_t k_blocks;
    float *x;    /* host, [ROWS_MAX][k] */
    uint16_t *w; /* host, [n][k] */
    krn_cuda_ptr_t x_plain, w_plain, x_tiles, w_tiles, y, truth, poison, work;
};

static int failures;

static void rig_fill(struct rig *r, uint64_t seed) {
    struct shape s = r->s;
    static const uint32_t hostile[] = {0x7fc00000, 0x7f800000, 0xff800000,
                                       0x7f7fffff, 0x00000001, 0x80000000};
    for (size_t i = 0; i < (size_t)ROWS_MAX * s.k; i++) {
        uint32_t row = (uint32_t)(i / s.k);
        r->x[i] = kit_float(&seed, row % 5 == 0 ? 10 : row % 5 == 1 ? 0 : 3);
        if (row % 37 == 11 && kit_random(&seed) % 97 == 0)
            memcpy(&r->x[i], &hostile[kit_random(&seed) % 6], 4);
    }
    for (size_t i = 0; i < (size_t)s.n * s.k; i++)
        r->w[i] = kit_bf16(kit_float(&seed, i / s.k % 3 == 0 ? 10 : 1));
}

static void rig_pack(struct rig *r, krn_cuda_ptr_t from, uint32_t type, uint32_t rows,
                     uint32_t spread, uint32_t out_row, krn_cuda_ptr_t to) {
    struct krn_cuda_rows_bf16 a = {.x = from,
                                   .out = to,
                                   .type = type,
                                   .rows = rows,
                                   .ldx = r->s.k,
                                   .k = r->s.k,
                                   .segments = r->s.segments,
                                   .out_row = out_row,
                                   .spread = spread};
    struct krn_cuda_call call;
    krn_cuda_rows_bf16_call(&a, &call);
    kit_launch(&r->kit, &call);
}

static void rig_open(struct rig *r, struct shape s, uint64_t seed) {
    struct kit *k = &r->kit;
    uint64_t x_bytes = krn_bf16_bytes(ROWS_MAX, s.k, s.segments),
             w_bytes = krn_bf16_bytes(s.n, s.k, s.segments);
    r->s = s;
    r->k_blocks = krn_bf16_blocks(s.k, s.segments);
    r->x = malloc((size_t)ROWS_MAX * s.k * sizeof *r->x);
    r->w = malloc((size_t)s.n * s.k * sizeof *r->w);
    rig_fill(r, seed);
    r->x_plain = kit_alloc(k, (uint64_t)ROWS_MAX * s.k * 4);
    r->w_plain = kit_alloc(k, (uint64_t)s.n * s.k * 2);
    r->x_tiles = kit_alloc(k, x_bytes);
    r->w_tiles = kit_alloc(k, w_bytes);
    r->y = kit_alloc(k, (uint64_t)ROWS_MAX * s.n * 4);
    r->truth = kit_alloc(k, (uint64_t)ROWS_MAX * s.n * 4);
    r->poison = kit_alloc(k, (uint64_t)ROWS_MAX * s.n * 4);
    r->work = kit_alloc(k, krn_cuda_product_bf16_work(&k->machine));
    kit_put(k, r->x_plain, r->x, (uint64_t)ROWS_MAX * s.k * 4);
    kit_put(k, r->w_plain, r->w, (uint64_t)s.n * s.k * 2);
    kit_fill(k, r->x_tiles, POISON, x_bytes / 4);
    kit_fill(k, r->w_tiles, POISON, w_bytes / 4);
    kit_fill(k, r->poison, POISON, (uint64_t)ROWS_MAX * s.n);
    kit_fill(k, r->work, POISON, krn_cuda_product_bf16_work(&k->machine) / 4);
    rig_pack(r, r->x_plain, KRN_ROWS_F32, ROWS_MAX, 0, 0, r->x_tiles);
    rig_pack(r, r->w_plain, KRN_ROWS_BF16, s.n, 0, 0, r->w_tiles);
    struct krn_cuda_oracle_product o = {.x = r->x_plain,
                                        .w = r->w_plain,
                                        .y = r->truth,
                                        .rows = ROWS_MAX,
                                        .n = s.n,
                                        .k = s.k,
                                        .segments = s.segments};
    struct krn_cuda_call call;
    krn_cuda_oracle_product_call(&o, &call);
    kit_launch(k, &call);
    kit_wait(k);
}

static void rig_close(struct rig *r) {
    const krn_cuda_ptr_t all[] = {r->x_plain, r->w_plain, r->x_tiles, r->w_tiles,
                                  r->y,       r->truth,   r->poison,  r->work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        kit_free(&r->kit, all[i]);
    free(r->x);
    free(r->w);
}

static struct krn_cuda_product_bf16 rig_product(const struct rig *r, uint32_t rows) {
    return (struct krn_cuda_product_bf16){.x = r->x_tiles,
                                          .w = r->w_tiles,
                                          .y = r->y,
                                          .work = r->work,
                                          .rows = rows,
                                          .n = r->s.n,
                                          .ldy = r->s.n,
                                          .k_blocks = r->k_blocks,
                                          .segments = r->s.segments};
}

/* Whether the path runs here at all; then y is its result. */
static bool rig_run(struct rig *r, struct krn_cuda_product_bf16 a,
                    enum krn_cuda_product_path path) {
    struct krn_cuda_call call;
    if (!krn_cuda_product_bf16_call(&a, &r->kit.machine, path, &call))
        return false;
    kit_launch(&r->kit, &call);
    return true;
}

static void report(struct rig *r, const char *what, const char *path, uint64_t checked) {
    uint64_t first = 0, differ = kit_differing(&r->kit, &first);
    printf("%-22s %5u x %5u, %u segments, %-8s: %llu of %llu differ", what, r->s.n, r->s.k,
           r->s.segments, path, (unsigned long long)differ, (unsigned long long)checked);
    if (differ != 0)
        printf(", first at row %u output %u", (unsigned)(first / r->s.n),
               (unsigned)(first % r->s.n));
    printf("\n");
    fflush(stdout);
    failures += differ != 0 || checked == 0;
}

/* Every row count: the first rows are the oracle's, the others are not touched. */
static void test_rows(struct rig *r, enum krn_cuda_product_path path) {
    uint64_t checked = 0, n = r->s.n;
    for (uint32_t rows = 1; rows <= ROWS_MAX; rows += r->s.step == 0 ? 1 + rows / 8 : r->s.step) {
        kit_fill(&r->kit, r->y, POISON, ROWS_MAX * n);
        if (!rig_run(r, rig_product(r, rows), path))
            break;
        kit_compare(&r->kit, r->y, r->truth, rows * n);
        kit_compare(&r->kit, r->y + rows * n * 4, r->poison, (ROWS_MAX - rows) * n);
        checked += ROWS_MAX * n;
    }
    if (checked != 0)
        report(r, "rows", path_names[path], checked);
}

static float gate(float g, float u, bool gelu) {
    float t = gelu ? g * fmaf(g * g, KRN_GELU_3, KRN_GELU_1) : g;
    return g / (1.0f + krn_expf(-t)) * u;
}

static bool same(float a, float b) {
    return (a != a && b != b) || krn_bits(a) == krn_bits(b);
}

/* Bias, residual, fp32 and packed results at once, against the host over the oracle's sums. bare:
 * no bias, and fp32 results alone or, with a gate, packed ones alone. */
static void test_finish(struct rig *r, enum krn_cuda_product_path path, uint32_t rows,
                        uint32_t flags, bool bare) {
    bool gated = (flags & KRN_BF16_GATE) != 0;
    uint32_t n = r->s.n, outputs = gated ? n / 2 : n;
    uint64_t seed = 7, wrong = 0, packed_bytes = krn_bf16_bytes(ROWS_MAX, outputs, 1);
    float *truth = malloc((size_t)ROWS_MAX * n * 4), *y0 = malloc((size_t)ROWS_MAX * n * 4);
    float *y = malloc((size_t)ROWS_MAX * n * 4), *bias = malloc(n * 4);
    unsigned char *packed = malloc(packed_bytes);
    krn_cuda_ptr_t dev_bias = kit_alloc(&r->kit, n * 4),
                   dev_packed = kit_alloc(&r->kit, packed_bytes);
    for (uint32_t i = 0; i < n; i++)
        bias[i] = kit_float(&seed, 4);
    for (size_t i = 0; i < (size_t)ROWS_MAX * n; i++)
        y0[i] = kit_float(&seed, 4);
    kit_put(&r->kit, dev_bias, bias, n * 4);
    kit_put(&r->kit, r->y, y0, (uint64_t)ROWS_MAX * n * 4);
    kit_get(&r->kit, truth, r->truth, (uint64_t)ROWS_MAX * n * 4);
    struct krn_cuda_product_bf16 a = rig_product(r, rows);
    a.bias = bare ? 0 : dev_bias;
    a.flags = flags;
    a.packed = bare && !gated ? 0 : dev_packed;
    a.y = bare && gated ? 0 : a.y;
    a.packed_segment = outputs;
    a.packed_blocks = krn_bf16_blocks(outputs, 1);
    if (rig_run(r, a, path)) {
        kit_get(&r->kit, y, r->y, (uint64_t)ROWS_MAX * n * 4);
        kit_get(&r->kit, packed, dev_packed, packed_bytes);
        for (uint32_t row = 0; row < rows; row++) {
            float *biased = truth + (size_t)row * n;
            for (uint32_t o = 0; o < n && !bare; o++)
                biased[o] += bias[o];
            for (uint32_t o = 0; o < outputs; o++) {
                float v;
                if (gated) {
                    uint32_t g = o / 8 * 16 + o % 8;
                    v = gate(biased[g], biased[g + 8], flags & KRN_BF16_GATE_GELU);
                } else
                    v = biased[o];
                if (flags & KRN_BF16_ADD)
                    v = y0[(size_t)row * n + o] + v;
                uint16_t h, want = kit_bf16(v);
                memcpy(&h, packed + krn_bf16_place(row, o, outputs, a.packed_blocks), 2);
                wrong += (a.y != 0 && !same(y[(size_t)row * n + o], v)) ||
                         (a.packed != 0 && h != want && v == v);
            }
        }
        printf("finish %u rows flags %u%s  %5u x %5u, %u segments, %-8s: %llu wrong\n", rows, flags,
               bare ? " bare" : "", n, r->s.k, r->s.segments, path_names[path],
               (unsigned long long)wrong);
        failures += wrong != 0;
    }
    kit_free(&r->kit, dev_bias);
    kit_free(&r->kit, dev_packed);
    free(truth);
    free(y0);
    free(y);
    free(bias);
    free(packed);
}

/* quick: small shapes and few row counts, for compute-sanitizer. */
int main(int argc, char **argv) {
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    static const struct shape shapes[] = {
        {64, 64, 1, 1},     {40, 48, 1, 1},      {200, 352, 2, 3},   {320, 512, 4, 1},
        {1344, 704, 1, 5},  {256, 1024, 8, 1},   {4096, 4096, 1, 0}, {2064, 192, 1, 7},
        {28688, 64, 1, 29}, {4096, 14336, 8, 0}, {6144, 4096, 1, 0}};
    static struct rig r;
    kit_open(&r.kit);
    printf("%s, sm_%u%u, %u multiprocessors\n", r.kit.name, r.kit.machine.major,
           r.kit.machine.minor, r.kit.machine.sms);
    for (size_t i = 0; i < (quick ? 4 : sizeof shapes / sizeof *shapes); i++) {
        struct shape s = shapes[i];
        s.step = quick ? 61 : s.step;
        rig_open(&r, s, 100 + i);
        for (enum krn_cuda_product_path p = KRN_BF16_AUTO; p < KRN_BF16_PATHS; p++) {
            test_rows(&r, p);
            if (shapes[i].n % 16 == 0 && shapes[i].step != 0 && shapes[i].n < 2000)
                for (uint32_t rows = 1; rows <= 333; rows += rows < 40 ? 13 : 137) {
                    for (uint32_t bare = 0; bare < 2; bare++) {
                        test_finish(&r, p, rows, 0, bare);
                        test_finish(&r, p, rows, KRN_BF16_ADD, bare);
                        test_finish(&r, p, rows, KRN_BF16_GATE, bare);
                        test_finish(&r, p, rows, KRN_BF16_GATE | KRN_BF16_GATE_GELU, bare);
                    }
                }
        }
        rig_close(&r);
    }
    printf(failures == 0 ? "all equal\n" : "%d failures\n", failures);
    return failures != 0;
}
