/* SPDX-License-Identifier: Apache-2.0
 * The products of `amx-bf16` in vectors (numerics.md 15): for each output two chains, of the even
 * and of the odd inputs of a K-step, side by side with other outputs and rows. Sixteen outputs are
 * sixteen lanes, so every vector width gives the bits of the tiles. Included once by isa_*.c.
 */
#ifndef KERNELS_CPU_PRODUCT_BF16_H
#define KERNELS_CPU_PRODUCT_BF16_H

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
    v16 r = v_add(a, b);
    return QUARTERS_1(v16, bf16_quarter, r);
}
#else
#define BF16_FN krn_bf16_scalar
VEC_FN v16 bf16_fma(v16 a, v16 b, v16 c) {
    EACH c.f[i_] = bf16_fma1(a.f[i_], b.f[i_], c.f[i_]);
    return c;
}
/* A sum of two fp32 that is tiny is exact. */
VEC_FN v16 bf16_add(v16 a, v16 b) {
    EACH {
        float r = a.f[i_] + b.f[i_];
        a.f[i_] = fabsf(r) < 0x1p-126f ? copysignf(0.0f, r) : r;
    }
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

/* acc[r][b][16] = K-steps [0, steps) of R rows x times NB blocks; xs: floats from row to row, wb:
 * elements from block to block. */
VEC_FN void bf16_body(const int R, const int NB, const float *x, size_t xs, const uint16_t *w,
                      size_t wb, uint32_t steps, float *acc) {
    v16 sum[16];
    UNROLL for (int i = 0; i < R * NB; i++) sum[i] = v_zero();
    for (uint32_t s = 0; s < steps; s++, x += BF16_STEP, w += BF16_STEP * KRN_BLOCK) {
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
    UNROLL for (int i = 0; i < R * NB; i++) v_store(acc + i * 16, sum[i]);
}

typedef void (*bf16_tile_fn)(const float *x, size_t xs, const uint16_t *w, size_t wb,
                             uint32_t steps, float *acc);
#define BF16_TILE(R, NB)                                                                           \
    static void bf16_tile_##R##_##NB(const float *x, size_t xs, const uint16_t *w, size_t wb,      \
                                     uint32_t steps, float *acc) {                                 \
        bf16_body(R, NB, x, xs, w, wb, steps, acc);                                                \
    }
BF16_TILES(BF16_TILE)
#define BF16_ENTRY(R, NB) [R][NB] = bf16_tile_##R##_##NB,
static const bf16_tile_fn bf16_tile[BF16_ROWS + 1][BF16_BLOCKS + 1] = {BF16_TILES(BF16_ENTRY)};

/* The segments' sums of nr rows and nb blocks. Never inlined: the mode of the thread must be set
 * before its first operation and reset after its last. */
static __attribute__((noinline)) void bf16_segments(const struct krn_product *p, const float *x,
                                                    size_t xs, const uint16_t *w, uint32_t nr,
                                                    uint32_t nb, float *acc) {
    uint32_t padded = krn_bf16_padded(p->w->k), steps = padded / BF16_STEP / p->segments;
    for (uint32_t s = 0; s < p->segments; s++)
        bf16_tile[nr][nb](x + (size_t)s * steps * BF16_STEP, xs,
                          w + (size_t)s * steps * BF16_STEP * KRN_BLOCK, (size_t)padded * KRN_BLOCK,
                          steps, acc + (size_t)s * nr * nb * 16);
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
            bf16_segments(p, t->x + first * padded, padded, w, n, nb, t->acc);
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
#if defined(KRN_ISA_AVX512) || defined(KRN_ISA_AVX2)
    for (; i + 16 <= k; i += 16)
        v_store_bf16(h + i, v_load(x + i));
#endif
    for (; i < k; i++)
        h[i] = krn_bf16_of(x[i]);
    for (; i < padded; i++)
        h[i] = 0;
}

const struct krn_bf16_fn BF16_FN = {.isa = VEC_ISA, .round = bf16_round, .product = bf16_product};

#endif
