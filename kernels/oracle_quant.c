/* SPDX-License-Identifier: Apache-2.0
 * The oracle's own reading of blocked formats: one element by one formula, from numerics.md 12
 * alone, sharing no code with kernels/quant/ but the exact widening of f16.
 */
#include <math.h>

#include "actors/check.h"
#include "kernels/approx.h"
#include "kernels/oracle_rows.h"

static float half_at(const unsigned char *p) {
    return krn_widen_f16((uint16_t)(p[0] + 256 * p[1]));
}

/* Bits [bit, bit + n) of the bytes at p, lowest bit of the first byte first. */
static int bits_at(const unsigned char *p, uint32_t bit, uint32_t n) {
    return p[bit / 8] >> bit % 8 & ((1 << n) - 1);
}

/* Nibble of element e of 32: the first sixteen lie low in their bytes. */
static int nibble(const unsigned char *q, uint32_t e) {
    return bits_at(q, 8 * (e % 16) + 4 * (e / 16), 4);
}

/* Scale and minimum of run r of a Q4_K or Q5_K block. */
static float run_scale(const unsigned char *s, uint32_t r) {
    if (r < 4)
        return (float)bits_at(s, 8 * r, 6);
    return (float)(bits_at(s, 8 * (r + 4), 4) + 16 * bits_at(s, 8 * (r - 4) + 6, 2));
}

static float run_min(const unsigned char *s, uint32_t r) {
    if (r < 4)
        return (float)bits_at(s, 8 * (r + 4), 6);
    return (float)(bits_at(s, 8 * (r + 4) + 4, 4) + 16 * bits_at(s, 8 * r + 6, 2));
}

static float k_element(const unsigned char *b, int q, uint32_t run) {
    float step = half_at(b) * run_scale(b + 4, run);
    return fmaf(step, (float)q, -(half_at(b + 2) * run_min(b + 4, run)));
}

static float q6_k_element(const unsigned char *b, uint32_t e) {
    uint32_t part = e / 128, in = e % 128, run = in / 32, i = in % 32;
    int q = bits_at(b + 64 * part, 8 * (32 * (run % 2) + i) + 4 * (run / 2), 4) +
            16 * bits_at(b + 128 + 32 * part, 8 * i + 2 * run, 2);
    float scale = (float)((const signed char *)b)[192 + e / 16];
    return half_at(b + 208) * scale * (float)(q - 32); /* in this order: the sign of a zero */
}

float krn_oracle_blocked(enum krn_dtype type, const void *data, uint64_t i) {
    static const int uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
    const unsigned char *small = data, *large = data;
    uint32_t e = (uint32_t)(i % 32), k = (uint32_t)(i % 256), run = k / 32;
    uint64_t s = i / 32, l = i / 256;
    switch (type) {
    case KRN_Q8_0:
        small += 34 * s;
        return half_at(small) * (float)((const signed char *)small)[2 + e];
    case KRN_Q4_0:
        small += 18 * s;
        return half_at(small) * (float)(nibble(small + 2, e) - 8);
    case KRN_Q4_1:
        small += 20 * s;
        return fmaf(half_at(small), (float)nibble(small + 4, e), half_at(small + 2));
    case KRN_Q5_0:
        small += 22 * s;
        return half_at(small) * (float)(nibble(small + 6, e) + 16 * bits_at(small + 2, e, 1) - 16);
    case KRN_Q5_1:
        small += 24 * s;
        return fmaf(half_at(small), (float)(nibble(small + 8, e) + 16 * bits_at(small + 4, e, 1)),
                    half_at(small + 2));
    case KRN_IQ4_NL:
        small += 18 * s;
        return half_at(small) * (float)uneven[nibble(small + 2, e)];
    case KRN_Q4_K:
        large += 144 * l;
        return k_element(large, bits_at(large + 16, 8 * (run / 2 * 32 + e) + 4 * (run % 2), 4),
                         run);
    case KRN_Q5_K:
        large += 176 * l;
        return k_element(large,
                         bits_at(large + 48, 8 * (run / 2 * 32 + e) + 4 * (run % 2), 4) +
                             16 * bits_at(large + 16, 8 * e + run, 1),
                         run);
    case KRN_Q6_K:
        return q6_k_element(large + 210 * l, k);
    default:
        break;
    }
    CHECK(!"a blocked format");
    return 0.0F;
}

static void nibbles(const unsigned char *q, int less, int *whole) {
    for (uint32_t e = 0; e < 32; e++)
        whole[e] = nibble(q, e) - less;
}

static void fives(const unsigned char *high, const unsigned char *q, int less, int *whole) {
    for (uint32_t e = 0; e < 32; e++)
        whole[e] = nibble(q, e) + 16 * bits_at(high, e, 1) - less;
}

/* Run r of a Q4_K (high NULL) or Q5_K block. */
static void k_run(const unsigned char *b, const unsigned char *high, const unsigned char *q,
                  uint32_t r, struct krn_oracle_block *out) {
    for (uint32_t e = 0; e < 32; e++)
        out->whole[e] = bits_at(q, 8 * (r / 2 * 32 + e) + 4 * (r % 2), 4) +
                        (high != NULL ? 16 * bits_at(high, 8 * e + r, 1) : 0);
    out->factor[0] = out->factor[1] = half_at(b) * run_scale(b + 4, r);
    out->added = -(half_at(b + 2) * run_min(b + 4, r));
    out->adds = true;
}

static void k6_run(const unsigned char *b, uint32_t r, struct krn_oracle_block *out) {
    for (uint32_t e = 0; e < 32; e++)
        out->whole[e] = bits_at(b + 64 * (r / 4), 8 * (32 * (r % 2) + e) + 4 * (r % 4 / 2), 4) +
                        16 * bits_at(b + 128 + 32 * (r / 4), 8 * e + 2 * (r % 4), 2) - 32;
    for (uint32_t h = 0; h < 2; h++)
        out->factor[h] = half_at(b + 208) * (float)((const signed char *)b)[192 + 2 * r + h];
}

void krn_oracle_block(enum krn_dtype type, const void *data, uint64_t i,
                      struct krn_oracle_block *out) {
    static const int uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
    const unsigned char *all = data, *b = all;
    uint32_t r = (uint32_t)(i % 256 / 32);
    CHECK(i % 32 == 0);
    *out = (struct krn_oracle_block){0};
    switch (type) {
    case KRN_Q8_0:
        b = all + 34 * (i / 32);
        for (uint32_t e = 0; e < 32; e++)
            out->whole[e] = (int)b[2 + e] - 256 * (b[2 + e] >> 7);
        break;
    case KRN_Q4_0:
        b = all + 18 * (i / 32);
        nibbles(b + 2, 8, out->whole);
        break;
    case KRN_Q4_1:
        b = all + 20 * (i / 32);
        nibbles(b + 4, 0, out->whole);
        break;
    case KRN_Q5_0:
        b = all + 22 * (i / 32);
        fives(b + 2, b + 6, 16, out->whole);
        break;
    case KRN_Q5_1:
        b = all + 24 * (i / 32);
        fives(b + 4, b + 8, 0, out->whole);
        break;
    case KRN_IQ4_NL:
        b = all + 18 * (i / 32);
        nibbles(b + 2, 0, out->whole);
        for (uint32_t e = 0; e < 32; e++)
            out->whole[e] = uneven[out->whole[e]];
        break;
    case KRN_Q4_K:
        b = all + 144 * (i / 256);
        k_run(b, NULL, b + 16, r, out);
        return;
    case KRN_Q5_K:
        b = all + 176 * (i / 256);
        k_run(b, b + 16, b + 48, r, out);
        return;
    case KRN_Q6_K:
        k6_run(all + 210 * (i / 256), r, out);
        return;
    default:
        CHECK(!"a blocked format");
    }
    out->factor[0] = out->factor[1] = half_at(b);
    out->adds = type == KRN_Q4_1 || type == KRN_Q5_1;
    out->added = out->adds ? half_at(b + 2) : 0.0f;
}
