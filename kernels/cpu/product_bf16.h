/* SPDX-License-Identifier: Apache-2.0
 * The products of `amx-bf16` in vectors (numerics.md 15): for each output two chains, of the even
 * and of the odd inputs of a K-step, side by side with other outputs and rows. Sixteen outputs are
 * sixteen lanes, so every vector width gives the bits of the tiles. Included once by isa_*.c.
 */
#ifndef KERNELS_CPU_PRODUCT_BF16_H
#define KERNELS_CPU_PRODUCT_BF16_H

#include "kernels/cpu/attend.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/product_close.h"

/* Results below 2^-126 become zeros of their sign. The vector units do it by a mode of the thread,
 * which holds from bf16_flush to bf16_flush_end; nothing else is computed between them. */
#if defined(KRN_ISA_AVX512) || defined(KRN_ISA_AVX2)
#if defined(KRN_ISA_AVX512)
#define BF16_FN krn_bf16_avx512
#else
#define BF16_FN krn_bf16_avx2
#endif
VEC_FN uint32_t bf16_flush(void) {
    uint32_t mode = _mm_getcsr();
    _mm_setcsr(mode | _MM_FLUSH_ZERO_ON | 0x0040u /* denormals are zero */);
    return mode;
}
VEC_FN void bf16_flush_end(uint32_t mode) {
    _mm_setcsr(mode);
}
VEC_FN v16 bf16_fma(v16 a, v16 b, v16 c) {
    return v_fma(a, b, c);
}
VEC_FN v16 bf16_add(v16 a, v16 b) {
    return v_add(a, b);
}
#else
VEC_FN uint32_t bf16_flush(void) {
    return 0;
}
VEC_FN void bf16_flush_end(uint32_t mode) {
    (void)mode;
}
/* Whether a result is tiny is asked of the value rounded to 24 bits with a free exponent. That can
 * only matter where fp32 has rounded up to 2^-126; there fp64 decides rightly. */
static float bf16_fma1(float a, float b, float c) {
    float r = fmaf(a, b, c), size = fabsf(r);
    if (!(size <= 0x1p-126f))
        return r;
    if (size == 0x1p-126f && fabs(fma((double)a, (double)b, (double)c)) >= 0x1p-126 - 0x1p-151)
        return r;
    return copysignf(0.0f, r);
}
#if defined(KRN_ISA_NEON)
#define BF16_FN krn_bf16_neon
/* NEON's own mode asks before it rounds, so tiny lanes are selected instead. */
VEC_FN float32x4_t bf16_quarter(float32x4_t r) {
    uint32x4_t tiny = vcltq_f32(vabsq_f32(r), vdupq_n_f32(0x1p-126f));
    uint32x4_t sign = vandq_u32(vreinterpretq_u32_f32(r), vdupq_n_u32(0x80000000u));
    return vbslq_f32(tiny, vreinterpretq_f32_u32(sign), r);
}
VEC_FN uint32x4_t bf16_quarter_at(float32x4_t r) {
    return vbicq_u32(vcaleq_f32(r, vdupq_n_f32(0x1p-126f)), vceqzq_f32(r));
}
VEC_FN v16 bf16_fma(v16 a, v16 b, v16 c) {
    v16 r = v_fma(a, b, c);
    m16 at = QUARTERS_1(m16, bf16_quarter_at, r); /* lanes that may be too small */
    uint32x4_t any = vorrq_u32(vorrq_u32(at.a, at.b), vorrq_u32(at.c, at.d));
    if (__builtin_expect(vmaxvq_u32(any) == 0, 1))
        return r;
    float x[16], y[16], z[16];
    v_store(x, a);
    v_store(y, b);
    v_store(z, c);
    for (int i = 0; i < 16; i++)
        z[i] = bf16_fma1(x[i], y[i], z[i]);
    return v_load(z);
}
VEC_FN v16 bf16_add(v16 a, v16 b) {
    v16 r = v_add(QUARTERS_1(v16, bf16_quarter, a), QUARTERS_1(v16, bf16_quarter, b));
    return QUARTERS_1(v16, bf16_quarter, r);
}
#else
#define BF16_FN krn_bf16_scalar
VEC_FN v16 bf16_fma(v16 a, v16 b, v16 c) {
    EACH c.f[i_] = bf16_fma1(a.f[i_], b.f[i_], c.f[i_]);
    return c;
}
static float bf16_flushed(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}
/* A sum of two fp32 that is tiny is exact. */
VEC_FN v16 bf16_add(v16 a, v16 b) {
    EACH a.f[i_] = bf16_flushed(bf16_flushed(a.f[i_]) + bf16_flushed(b.f[i_]));
    return a;
}
#endif
#endif

/* Rows and blocks side by side: as many chains as the registers hold. */
#if defined(KRN_ISA_AVX512)
#define BF16_TILES(M)                                                                              \
    M(1, 1) M(1, 2) M(1, 4) M(2, 1) M(2, 2) M(2, 4) M(3, 1) M(3, 2) M(4, 1) M(4, 2)
enum { BF16_ROWS = 4, BF16_BLOCKS = 4 };
#define BF16_WIDE(R) ((R) <= 2 ? 4 : 2)
#elif defined(KRN_ISA_AVX2) || defined(KRN_ISA_NEON)
#define BF16_TILES(M) M(1, 1) M(1, 2) M(2, 1)
enum { BF16_ROWS = 2, BF16_BLOCKS = 2 };
#define BF16_WIDE(R)  ((R) == 1 ? 2 : 1)
#else
#define BF16_TILES(M) M(1, 1)
enum { BF16_ROWS = 1, BF16_BLOCKS = 1 };
#define BF16_WIDE(R)  1
#endif
enum {
    BF16_AHEAD = 4 * BF16_STEP_BYTES, /* weights are asked for so long before they are used */
    BF16_GROUP = 16,                  /* rows whose floats lie in scratch at a time */
    BF16_SUMS = KRN_V_MAX * BF16_ROWS * BF16_BLOCKS * 16,
    BF16_FLOATS = KRN_SCRATCH_BYTES / 4 - BF16_SUMS
};

struct bf16_scratch {
    float acc[BF16_SUMS]; /* sums of each segment: [s][r][b][16] */
    float x[BF16_FLOATS]; /* rows widened: [row][k / 2][2] */
};

/* Rows by blocks; `as` floats from row to row of acc, xs of x; wb elements from block to block. */
struct bf16_tile {
    const float *x;
    size_t xs;
    const uint16_t *w;
    size_t wb;
    uint32_t steps;
    float *acc;
    size_t as;
    bool fresh;
};

/* acc[r][b][16] continues (or, when fresh, starts at +0) with the K-steps of R rows and NB
 * blocks. */
VEC_FN void bf16_body(const int R, const int NB, const struct bf16_tile *t) {
    v16 sum[16];
    const float *x = t->x;
    const uint16_t *w = t->w;
    const size_t xs = t->xs, wb = t->wb;
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int b = 0; b < NB; b++) sum[r * NB + b] =
            t->fresh ? v_zero() : v_load(t->acc + r * t->as + b * 16);
    }
    for (uint32_t s = 0; s < t->steps; s++, x += BF16_STEP, w += BF16_STEP * KRN_BLOCK) {
        v16 even[16], odd[16];
        UNROLL for (int i = 0; i < R * NB; i++) even[i] = odd[i] = v_zero();
        UNROLL for (int k = 0; k < BF16_STEP / 2; k++) {
            UNROLL for (int b = 0; b < NB; b++) {
                const uint16_t *at = w + (size_t)b * wb + (size_t)k * 2 * KRN_BLOCK;
                __builtin_prefetch((const char *)at + BF16_AHEAD);
                v16 we = v_load_even(at), wo = v_load_odd(at);
                UNROLL for (int r = 0; r < R; r++) {
                    const float *pair = x + (size_t)r * xs + 2 * k;
                    even[r * NB + b] = bf16_fma(v_set1(pair[0]), we, even[r * NB + b]);
                    odd[r * NB + b] = bf16_fma(v_set1(pair[1]), wo, odd[r * NB + b]);
                }
            }
        }
        UNROLL for (int i = 0; i < R * NB; i++) sum[i] =
            bf16_add(sum[i], bf16_add(even[i], odd[i]));
    }
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int b = 0; b < NB; b++) v_store(t->acc + r * t->as + b * 16, sum[r * NB + b]);
    }
}

typedef void (*bf16_tile_fn)(const struct bf16_tile *t);
#define BF16_TILE(R, NB)                                                                           \
    static void bf16_tile_##R##_##NB(const struct bf16_tile *t) {                                  \
        bf16_body(R, NB, t);                                                                       \
    }
BF16_TILES(BF16_TILE)
#define BF16_ENTRY(R, NB) [R][NB] = bf16_tile_##R##_##NB,
static const bf16_tile_fn bf16_tile[BF16_ROWS + 1][BF16_BLOCKS + 1] = {BF16_TILES(BF16_ENTRY)};

/* The segments' sums of nr rows and nb blocks; t is the first segment's tile. Never inlined: the
 * mode of the thread must be set before its first operation and reset after its last. */
static __attribute__((noinline)) void bf16_segments(struct bf16_tile t, uint32_t segments,
                                                    uint32_t nr, uint32_t nb) {
    for (uint32_t s = 0; s < segments; s++) {
        bf16_tile[nr][nb](&t);
        t.x += (size_t)t.steps * BF16_STEP;
        t.w += (size_t)t.steps * BF16_STEP * KRN_BLOCK;
        t.acc += nr * t.as;
    }
}

static void bf16_widen_rows(const struct krn_product *p, uint32_t r0, uint32_t nr, size_t xs,
                            float *x) {
    for (uint32_t r = 0; r < nr; r++) {
        const uint16_t *q =
            (const uint16_t *)(const void *)((const char *)p->q + (r0 + r) * p->ldq);
        for (uint32_t i = 0; i < xs; i += 16)
            v_store(x + r * xs + i, v_load_bf16(q + i));
    }
}

/* Blocks [block0, block1) of rows [r0, r0 + nr), whose floats lie in scratch: a weight is read once
 * for all of them. */
static void bf16_rows(const struct krn_product *p, uint32_t block0, uint32_t block1, uint32_t r0,
                      uint32_t nr, struct bf16_scratch *t) {
    size_t padded = krn_bf16_padded(p->w->k);
    uint32_t tiles = (nr + BF16_ROWS - 1) / BF16_ROWS, widest = (nr + tiles - 1) / tiles;
    bf16_widen_rows(p, r0, nr, padded, t->x);
    for (uint32_t b = block0, nb; b < block1; b += nb) {
        nb = BF16_WIDE(widest);
        (void)widest;
        while (nb > block1 - b)
            nb /= 2;
        const uint16_t *w = (const uint16_t *)p->w->data + b * padded * KRN_BLOCK;
        for (uint32_t i = 0; i < tiles; i++) {
            uint32_t first = nr * i / tiles, n = nr * (i + 1) / tiles - first;
            uint32_t mode = bf16_flush();
            bf16_segments((struct bf16_tile){.x = t->x + first * padded,
                                             .xs = padded,
                                             .w = w,
                                             .wb = padded * KRN_BLOCK,
                                             .steps = (uint32_t)padded / BF16_STEP / p->segments,
                                             .acc = t->acc,
                                             .as = nb * 16,
                                             .fresh = true},
                          p->segments, n, nb);
            bf16_flush_end(mode);
            product_finish(p, t->acc, r0 + first, n, b, nb);
        }
    }
}

static void bf16_product(const struct krn_product *p, uint32_t block0, uint32_t block1,
                         void *scratch) {
    const struct krn_packed *w = p->w;
    uint32_t padded = krn_bf16_padded(w->k), group = BF16_FLOATS / padded;
    CHECK(block1 <= w->n_blocks && w->dtype == KRN_BF16);
    CHECK(p->segments >= 1 && p->segments <= KRN_V_MAX && group > 0);
    CHECK((p->segments & (p->segments - 1)) == 0);
    CHECK(p->segments == 1 || w->k % (p->segments * BF16_STEP) == 0);
    CHECK(p->ldq >= (size_t)padded * 2 || p->rows <= 1);
    group = group < BF16_GROUP ? group : BF16_GROUP;
    for (uint32_t r = 0; r < p->rows; r += group)
        bf16_rows(p, block0, block1, r, p->rows - r < group ? p->rows - r : group, scratch);
}

static void bf16_round(const float *x, uint32_t k, void *out) {
    uint16_t *h = out;
    uint32_t padded = krn_bf16_padded(k), i = 0;
    for (; i + 16 <= k; i += 16)
        v_store_bf16(h + i, v_load(x + i));
    for (; i < k; i++)
        h[i] = krn_round_bf16(x[i]);
    for (; i < padded; i++)
        h[i] = 0;
}

/* Rows by blocks of any size, of one segment. */
static __attribute__((noinline)) void bf16_lines(struct bf16_tile t, uint32_t rows,
                                                 uint32_t blocks) {
    uint32_t tiles = (rows + BF16_ROWS - 1) / BF16_ROWS;
    const struct bf16_tile whole = t;
    for (uint32_t i = 0; i < tiles; i++) {
        uint32_t r = rows * i / tiles, nr = rows * (i + 1) / tiles - r;
        for (uint32_t b = 0, nb; b < blocks; b += nb) {
            nb = BF16_WIDE(nr);
            while (nb > blocks - b)
                nb /= 2;
            t.x = whole.x + r * t.xs;
            t.w = whole.w + b * t.wb;
            t.acc = whole.acc + r * t.as + b * 16;
            bf16_tile[nr][nb](&t);
        }
    }
}

static void bf16_scores(struct attend_scratch *t, const void *k, uint32_t d, uint32_t i0,
                        uint32_t i1) {
    uint32_t padded = krn_bf16_padded(d), mode = bf16_flush();
    bf16_lines((struct bf16_tile){.x = t->q + i0 * ATTEND_DS,
                                  .xs = ATTEND_DS,
                                  .w = k,
                                  .wb = (size_t)padded * 16,
                                  .steps = padded / BF16_STEP,
                                  .acc = t->s + i0 * ATTEND_SS,
                                  .as = ATTEND_SS,
                                  .fresh = true},
               i1 - i0, KRN_TILE / 16);
    bf16_flush_end(mode);
}

static void bf16_values(struct attend_scratch *t, const void *v, uint32_t d, uint32_t i0,
                        uint32_t i1) {
    uint32_t mode = bf16_flush();
    bf16_lines((struct bf16_tile){.x = t->s + i0 * ATTEND_SS,
                                  .xs = ATTEND_SS,
                                  .w = v,
                                  .wb = KRN_TILE * 16,
                                  .steps = KRN_TILE / BF16_STEP,
                                  .acc = t->o + i0 * ATTEND_DS,
                                  .as = ATTEND_DS,
                                  .fresh = false},
               i1 - i0, d / 16);
    bf16_flush_end(mode);
}

#include "kernels/cpu/attend_bf16.h"

/* Keys of position j: for each pair of dimensions 16 keys side by side; values: for each dimension
 * pairs of keys. */
static void bf16_kv_write(const struct krn_kv *kv, const uint32_t *pages, uint32_t pos,
                          uint32_t head, const float *k, const float *v) {
    uint32_t slot = pos % kv->page_tokens, tiles = kv->page_tokens / KRN_TILE, d = kv->head_dim;
    uint32_t j = slot % KRN_TILE, padded = krn_bf16_padded(d);
    unsigned char *tile = kv->pool + pages[pos / kv->page_tokens] * kv->page_bytes + kv->layer_off +
                          (head * tiles + slot / KRN_TILE) * krn_bf16_tile_bytes(d);
    uint16_t *keys = (uint16_t *)(void *)tile + (size_t)(j / 16) * padded * 16 + j % 16 * 2;
    uint16_t *values =
        (uint16_t *)(void *)(tile + krn_bf16_keys_bytes(d)) + (size_t)(j / 2) * 32 + j % 2;
    uint16_t half[KRN_HEAD_MAX];
    for (uint32_t i = 0; i < padded; i += 16)
        v_store_bf16(half + i, i < d ? v_load(k + i) : v_zero());
    for (uint32_t i = 0; i < padded; i += 2)
        memcpy(keys + (size_t)i * 16, half + i, 2 * sizeof *half);
    for (uint32_t i = 0; i < d; i += 16)
        v_store_bf16(half + i, v_load(v + i));
    for (uint32_t i = 0; i < d; i++)
        values[(size_t)(i / 16) * (KRN_TILE / 2) * 32 + i % 16 * 2] = half[i];
}

static void bf16_attend(const struct krn_attend *a, uint32_t unit0, uint32_t unit1, void *scratch) {
    attend_units_bf16(a, unit0, unit1, scratch);
}

const struct krn_bf16_fn BF16_FN = {.isa = VEC_ISA,
                                    .round = bf16_round,
                                    .product = bf16_product,
                                    .kv_write = bf16_kv_write,
                                    .attend = bf16_attend};

#endif
