/* SPDX-License-Identifier: Apache-2.0
 * Products over blocked weights on a GPU (kernels/cuda/product_blocks.h): units packed there and
 * widened equal the tiles of the host's exact values word by word; every row count, segments, odd
 * shapes and ends equal the oracle or the products over bf16 tiles bit for bit. "time": how fast
 * beside bf16 on the shapes of an 8B model, and beside the bytes of the format at a copy's speed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/oracle_bf16.h"
#include "kernels/cuda/product_blocks.h"
#include "kernels/cuda/rows_bf16.h"
#include "kernels/quant/quant.h"
#include "tests/cuda/kit.h"

enum { ROWS_MAX = 512, POISON = 0x7fdecade, SETS_BYTES = 512 << 20 };

struct shape {
    uint32_t n, k, segments, step; /* step: of the sweep over row counts */
};

struct rig {
    struct kit kit;
    struct shape s;
    enum krn_dtype type;
    uint32_t blocks;
    krn_cuda_ptr_t x, units, tiles, truth, y, y2, poison, work, packed, packed2, bias;
    uint64_t unit_bytes, tile_bytes, packed_bytes;
};

static int failures;

/* Random bytes with scales of a size that sums bear. */
static void any_block(enum krn_dtype type, uint64_t *seed, unsigned char *b) {
    uint32_t bytes = krn_format_of(type)->bytes, second = 0;
    for (uint32_t i = 0; i < bytes; i++)
        b[i] = (unsigned char)kit_random(seed);
    uint32_t first = type == KRN_Q6_K ? 209 : 1;
    if (type == KRN_Q4_1 || type == KRN_Q5_1 || type == KRN_Q4_K || type == KRN_Q5_K)
        second = 3;
    b[first] = (b[first] & 0x83) | 0x20;
    if (second != 0)
        b[second] = (b[second] & 0x83) | 0x24;
    if (kit_random(seed) % 61 == 0)
        b[first] = (unsigned char)(kit_random(seed) % 5 == 0 ? 0x7e : b[first] & 0x83);
}

static void rig_pack(struct rig *r, const unsigned char *rows, uint64_t row_bytes) {
    krn_cuda_ptr_t stored = kit_alloc(&r->kit, r->s.n * row_bytes);
    struct krn_cuda_pack_blocks a = {.x = {stored, 0},
                                     .out = r->units,
                                     .row_bytes = row_bytes,
                                     .type = r->type,
                                     .rows = r->s.n,
                                     .units = krn_unit_rows(r->s.n),
                                     .blocks = r->blocks,
                                     .k = r->s.k,
                                     .segments = r->s.segments};
    struct krn_cuda_call call;
    kit_put(&r->kit, stored, rows, r->s.n * row_bytes);
    krn_cuda_pack_blocks_call(&a, &call);
    kit_launch(&r->kit, &call);
    kit_wait(&r->kit);
    kit_free(&r->kit, stored);
}

static void rig_tiles(struct rig *r, krn_cuda_ptr_t from, uint32_t type, uint32_t rows,
                      krn_cuda_ptr_t to) {
    struct krn_cuda_rows_bf16 a = {.x = from,
                                   .out = to,
                                   .type = type,
                                   .rows = rows,
                                   .ldx = r->s.k,
                                   .k = r->s.k,
                                   .segments = r->s.segments,
                                   .out_rows = krn_bf16_row_tiles(rows) * KRN_BF16_SIDE};
    struct krn_cuda_call call;
    krn_cuda_rows_bf16_call(&a, &call);
    kit_launch(&r->kit, &call);
}

static void report(struct rig *r, const char *what, uint64_t checked) {
    uint64_t first = 0, differ = kit_differing(&r->kit, &first);
    printf("%-7s %5u x %5u, %u segments, %-8s: %llu of %llu differ", krn_format_of(r->type)->word,
           r->s.n, r->s.k, r->s.segments, what, (unsigned long long)differ,
           (unsigned long long)checked);
    if (differ != 0)
        printf(", first %llu", (unsigned long long)first);
    printf("\n");
    fflush(stdout);
    failures += differ != 0 || checked == 0;
}

static void widen(struct rig *r, krn_cuda_ptr_t to) {
    struct krn_cuda_widen_blocks a = {.w = r->units,
                                      .out = to,
                                      .type = r->type,
                                      .units = krn_unit_rows(r->s.n),
                                      .blocks = r->blocks};
    struct krn_cuda_call call;
    krn_cuda_widen_blocks_call(&a, &call);
    kit_launch(&r->kit, &call);
}

/* Weights in units and as the host's values in tiles, rows of x, and the oracle's sums. */
static void rig_open(struct rig *r, enum krn_dtype type, struct shape s, uint64_t seed) {
    const struct krn_format *f = krn_format_of(type);
    uint64_t row_bytes = (uint64_t)s.k / f->block * f->bytes, all = (uint64_t)ROWS_MAX * s.n;
    unsigned char *stored = malloc(s.n * row_bytes);
    float *w = malloc((size_t)s.n * s.k * 4), *x = malloc((size_t)ROWS_MAX * s.k * 4);
    uint16_t *rounded = malloc((size_t)s.n * s.k * 2);
    struct kit *k = &r->kit;
    r->s = s;
    r->type = type;
    r->blocks = krn_bf16_blocks(s.k, s.segments);
    r->unit_bytes = krn_unit_matrix_bytes(type, s.n, s.k, s.segments);
    r->tile_bytes = krn_bf16_bytes(s.n, s.k, s.segments);
    r->packed_bytes = krn_bf16_bytes(ROWS_MAX, s.n, 1);
    for (uint64_t b = 0; b < s.n * row_bytes / f->bytes; b++)
        any_block(type, &seed, stored + b * f->bytes);
    krn_unpack(type, stored, 0, (uint64_t)s.n * s.k, w);
    for (size_t i = 0; i < (size_t)s.n * s.k; i++)
        rounded[i] = kit_bf16(w[i]);
    for (size_t i = 0; i < (size_t)ROWS_MAX * s.k; i++)
        x[i] = kit_float(&seed, i / s.k % 5 == 0 ? 10 : 2);
    krn_cuda_ptr_t x_plain = kit_alloc(k, (uint64_t)ROWS_MAX * s.k * 4),
                   w_plain = kit_alloc(k, (uint64_t)s.n * s.k * 4),
                   w_bits = kit_alloc(k, (uint64_t)s.n * s.k * 2);
    r->x = kit_alloc(k, krn_bf16_bytes(ROWS_MAX, s.k, s.segments));
    r->units = kit_alloc(k, r->unit_bytes);
    r->tiles = kit_alloc(k, r->tile_bytes);
    r->truth = kit_alloc(k, all * 4);
    r->y = kit_alloc(k, all * 4);
    r->y2 = kit_alloc(k, all * 4);
    r->poison = kit_alloc(k, all * 4);
    r->packed = kit_alloc(k, r->packed_bytes);
    r->packed2 = kit_alloc(k, r->packed_bytes);
    r->bias = kit_alloc(k, s.n * 4);
    r->work = kit_alloc(k, krn_cuda_product_bf16_work(&k->machine));
    kit_put(k, x_plain, x, (uint64_t)ROWS_MAX * s.k * 4);
    kit_put(k, w_plain, w, (uint64_t)s.n * s.k * 4);
    kit_put(k, w_bits, rounded, (uint64_t)s.n * s.k * 2);
    kit_put(k, r->bias, x, s.n * 4 < ROWS_MAX * s.k * 4 ? s.n * 4 : ROWS_MAX * s.k * 4);
    kit_fill(k, r->units, POISON, r->unit_bytes / 4);
    kit_fill(k, r->poison, POISON, all);
    rig_tiles(r, x_plain, KRN_ROWS_F32, ROWS_MAX, r->x);
    rig_tiles(r, w_plain, KRN_ROWS_F32, s.n, r->tiles);
    rig_pack(r, stored, row_bytes);
    struct krn_cuda_oracle_product o = {.x = x_plain,
                                        .w = w_bits,
                                        .y = r->truth,
                                        .rows = ROWS_MAX,
                                        .n = s.n,
                                        .k = s.k,
                                        .segments = s.segments};
    struct krn_cuda_call call;
    krn_cuda_oracle_product_call(&o, &call);
    kit_launch(k, &call);
    kit_wait(k);
    kit_free(k, x_plain);
    kit_free(k, w_plain);
    kit_free(k, w_bits);
    free(stored);
    free(rounded);
    free(w);
    free(x);
}

static void rig_close(struct rig *r) {
    const krn_cuda_ptr_t all[] = {r->x,      r->units,  r->tiles,   r->truth, r->y,   r->y2,
                                  r->poison, r->packed, r->packed2, r->bias,  r->work};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        kit_free(&r->kit, all[i]);
}

static struct krn_cuda_product_bf16 rig_product(const struct rig *r, uint32_t rows) {
    return (struct krn_cuda_product_bf16){.x = r->x,
                                          .w = r->tiles,
                                          .y = r->y,
                                          .work = r->work,
                                          .rows = rows,
                                          .n = r->s.n,
                                          .ldy = r->s.n,
                                          .k_blocks = r->blocks,
                                          .segments = r->s.segments};
}

static bool run_blocks(struct rig *r, struct krn_cuda_product_bf16 p) {
    struct krn_cuda_product_blocks a = {.p = p, .type = r->type};
    struct krn_cuda_call call;
    a.p.w = r->units;
    if (!krn_cuda_product_blocks_call(&a, &r->kit.machine, &call))
        return false;
    kit_launch(&r->kit, &call);
    return true;
}

static void run_tiles(struct rig *r, struct krn_cuda_product_bf16 p) {
    struct krn_cuda_call call;
    if (krn_cuda_product_bf16_call(&p, &r->kit.machine, KRN_BF16_AUTO, &call))
        kit_launch(&r->kit, &call);
}

static void test_widen(struct rig *r) {
    krn_cuda_ptr_t out = kit_alloc(&r->kit, r->tile_bytes);
    kit_fill(&r->kit, out, POISON, r->tile_bytes / 4);
    widen(r, out);
    kit_compare(&r->kit, out, r->tiles, r->tile_bytes / 4);
    report(r, "widen", r->tile_bytes / 4);
    kit_free(&r->kit, out);
}

static void test_rows(struct rig *r) {
    uint64_t checked = 0, n = r->s.n;
    for (uint32_t rows = 1; rows <= KRN_BLOCKS_ROWS; rows += r->s.step) {
        kit_fill(&r->kit, r->y, POISON, ROWS_MAX * n);
        if (!run_blocks(r, rig_product(r, rows)))
            break;
        kit_compare(&r->kit, r->y, r->truth, rows * n);
        kit_compare(&r->kit, r->y + rows * n * 4, r->poison, (ROWS_MAX - rows) * n);
        checked += ROWS_MAX * n;
    }
    report(r, "rows", checked);
}

/* Bias, residual, gates and packed results: as the products over tiles leave them. */
static void test_finish(struct rig *r) {
    uint64_t n = r->s.n, checked = 0;
    for (uint32_t flags = 0; flags < 8; flags++)
        for (uint32_t rows = 1; rows <= KRN_BLOCKS_ROWS; rows += 21) {
            struct krn_cuda_product_bf16 a = rig_product(r, rows);
            bool gated = (flags & KRN_BF16_GATE) != 0;
            if (gated && n % 16 != 0)
                continue;
            a.flags = flags;
            a.bias = r->bias;
            a.packed = r->packed;
            a.packed_segment = gated ? r->s.n / 2 : r->s.n;
            a.packed_blocks = krn_bf16_blocks(a.packed_segment, 1);
            kit_copy(&r->kit, r->y, r->truth, ROWS_MAX * n * 4);
            kit_copy(&r->kit, r->y2, r->truth, ROWS_MAX * n * 4);
            kit_fill(&r->kit, r->packed, 0, r->packed_bytes / 4);
            kit_fill(&r->kit, r->packed2, 0, r->packed_bytes / 4);
            run_blocks(r, a);
            a.y = r->y2;
            a.packed = r->packed2;
            run_tiles(r, a);
            kit_compare(&r->kit, r->y, r->y2, ROWS_MAX * n);
            kit_compare(&r->kit, r->packed, r->packed2, r->packed_bytes / 4);
            checked += ROWS_MAX * n;
        }
    report(r, "finish", checked);
}

struct bench {
    struct rig r;
    struct krn_cuda_product_bf16 p;
    krn_cuda_ptr_t sets;
    uint64_t set;
    int what; /* 0 units, 1 tiles, 2 widening */
};

static void enqueue(void *self, struct kit *k, uint32_t i) {
    struct bench *b = self;
    struct krn_cuda_call call;
    krn_cuda_ptr_t w = b->sets + i % (SETS_BYTES / b->set) * b->set;
    if (b->what == 0) {
        struct krn_cuda_product_blocks a = {.p = b->p, .type = b->r.type};
        a.p.w = w;
        if (krn_cuda_product_blocks_call(&a, &k->machine, &call))
            kit_launch(k, &call);
        return;
    }
    if (b->what == 2) {
        struct krn_cuda_widen_blocks a = {.w = w,
                                          .out = b->r.tiles,
                                          .type = b->r.type,
                                          .units = krn_unit_rows(b->p.n),
                                          .blocks = b->p.k_blocks};
        krn_cuda_widen_blocks_call(&a, &call);
    } else {
        struct krn_cuda_product_bf16 a = b->p;
        a.w = w;
        krn_cuda_product_bf16_call(&a, &k->machine, KRN_BF16_AUTO, &call);
    }
    kit_launch(k, &call);
}

static double timed(struct bench *b, int what, uint64_t set) {
    b->what = what;
    b->set = set;
    double a = kit_time(&b->r.kit, enqueue, b, 24, 5), c = kit_time(&b->r.kit, enqueue, b, 24, 5);
    return a < c ? a : c;
}

static void copy(void *self, struct kit *k, uint32_t i) {
    struct bench *b = self;
    (void)i;
    kit_copy(k, b->sets, b->sets + SETS_BYTES / 2, SETS_BYTES / 2);
}

static void times(struct bench *b, const char *types) {
    static const struct {
        uint32_t n, k, segments, flags;
    } shapes[] = {{6144, 4096, 1, 0}, {4096, 4096, 4, 1}, {28672, 4096, 1, 2}, {4096, 14336, 4, 1}};
    static const uint32_t rows[] = {1, 8, 16, 32, 64, 128, 512, 2048};
    struct rig *r = &b->r;
    b->sets = kit_alloc(&r->kit, SETS_BYTES);
    kit_fill(&r->kit, b->sets, 0x2c352d31, SETS_BYTES / 4);
    double rate = SETS_BYTES / kit_time(&r->kit, copy, b, 8, 5); /* read and written */
    printf("copy: %.2f TB/s\n", rate / 1e6);
    r->x = kit_alloc(&r->kit, krn_bf16_bytes(2048, 14336, 8));
    r->y = kit_alloc(&r->kit, (uint64_t)2048 * 28672 * 4);
    r->packed = kit_alloc(&r->kit, krn_bf16_bytes(2048, 28672, 1));
    r->work = kit_alloc(&r->kit, krn_cuda_product_bf16_work(&r->kit.machine));
    r->tiles = kit_alloc(&r->kit, (uint64_t)28672 * 4096 * 2);
    kit_fill(&r->kit, r->x, 0x3c003b80, krn_bf16_bytes(2048, 14336, 8) / 4);
    for (uint32_t t = KRN_DTYPES; t < KRN_TYPES; t++)
        for (size_t i = 0; i < 4 && strchr(types, (int)('0' + t)) != NULL; i++)
            for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
                r->type = (enum krn_dtype)t;
                b->p = (struct krn_cuda_product_bf16){
                    .x = r->x,
                    .y = shapes[i].flags == 2 ? 0 : r->y,
                    .work = r->work,
                    .rows = rows[j],
                    .n = shapes[i].n,
                    .ldy = shapes[i].n,
                    .k_blocks = krn_bf16_blocks(shapes[i].k, shapes[i].segments),
                    .segments = shapes[i].segments,
                    .flags = shapes[i].flags};
                if (shapes[i].flags == 2) {
                    b->p.packed = r->packed;
                    b->p.packed_segment = shapes[i].n / 2 / 4;
                    b->p.packed_blocks = krn_bf16_blocks(shapes[i].n / 2, 4);
                }
                uint64_t units = krn_unit_matrix_bytes(t, b->p.n, shapes[i].k, shapes[i].segments);
                uint64_t tiles = krn_bf16_bytes(b->p.n, shapes[i].k, shapes[i].segments);
                double bf16 = timed(b, 1, tiles), ours = 0.0, wide = 0.0;
                if (rows[j] <= KRN_BLOCKS_ROWS)
                    ours = timed(b, 0, units);
                if (rows[j] >= 32)
                    wide = timed(b, 2, units);
                printf("%-7s %5u x %5u %4u rows: blocks %8.2f us (floor %6.2f), bf16 %8.2f, x%.2f; "
                       "widen %7.2f\n",
                       krn_format_of(r->type)->word, b->p.n, shapes[i].k, rows[j], ours,
                       (double)units / rate, bf16, ours == 0.0 ? bf16 / (bf16 + wide) : bf16 / ours,
                       wide);
                fflush(stdout);
            }
}

/* quick: small shapes and few row counts, for compute-sanitizer. */
int main(int argc, char **argv) {
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    static const struct shape shapes[] = {
        {64, 256, 1, 1},  {40, 512, 2, 1},    {256, 2048, 8, 3},   {1344, 1024, 1, 5},
        {320, 512, 4, 1}, {4096, 4096, 4, 9}, {28672, 256, 1, 13}, {6144, 1024, 2, 17}};
    static struct bench b;
    struct rig *r = &b.r;
    kit_open(&r->kit);
    printf("%s, sm_%u%u, %u multiprocessors\n", r->kit.name, r->kit.machine.major,
           r->kit.machine.minor, r->kit.machine.sms);
    if (r->kit.machine.major != 9) {
        printf("no kernels for this GPU\n");
        return KIT_SKIP;
    }
    if (argc > 1 && strcmp(argv[1], "time") == 0) {
        times(&b, argc > 2 ? argv[2] : "3456789:;");
        return 0;
    }
    for (uint32_t t = KRN_DTYPES; t < KRN_TYPES; t++)
        for (size_t i = 0; i < (quick ? 3 : sizeof shapes / sizeof *shapes); i++) {
            struct shape s = shapes[i];
            s.step = quick ? 25 : s.step;
            rig_open(r, (enum krn_dtype)t, s, 100 * t + i);
            test_widen(r);
            test_rows(r);
            test_finish(r);
            rig_close(r);
        }
    printf(failures == 0 ? "all equal\n" : "%d failures\n", failures);
    return failures != 0;
}
