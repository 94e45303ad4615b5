/* SPDX-License-Identifier: Apache-2.0
 * What tests/kernels/gguf_make.h says: blocks, their codes by bit positions, their values in fp64.
 */
#include <math.h>
#include <string.h>

#include "actors/check.h"
#include "tests/kernels/gguf_make.h"

static const struct {
    uint32_t number, block, bytes;
    int top; /* the greatest code */
} kinds[KRN_TYPES] = {
    [KRN_F32] = {0, 1, 4, 0},        [KRN_F16] = {1, 1, 2, 0},
    [KRN_BF16] = {30, 1, 2, 0},      [KRN_Q8_0] = {8, 32, 34, 255},
    [KRN_Q4_0] = {2, 32, 18, 15},    [KRN_Q4_1] = {3, 32, 20, 15},
    [KRN_Q5_0] = {6, 32, 22, 31},    [KRN_Q5_1] = {7, 32, 24, 31},
    [KRN_Q4_K] = {12, 256, 144, 15}, [KRN_Q5_K] = {13, 256, 176, 31},
    [KRN_Q6_K] = {14, 256, 210, 63}, [KRN_IQ4_NL] = {20, 32, 18, 15},
};

uint32_t gguf_type_number(enum krn_dtype type) {
    return kinds[type].number;
}

uint32_t gguf_block(enum krn_dtype type) {
    return kinds[type].block;
}

uint32_t gguf_block_bytes(enum krn_dtype type) {
    return kinds[type].bytes;
}

static double half_of(unsigned h) {
    double sign = (h & 0x8000) != 0 ? -1.0 : 1.0;
    int exponent = (int)(h >> 10 & 31);
    if (exponent == 31)
        return (h & 1023) != 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? ldexp(h & 1023, -24) : ldexp(1024 + (h & 1023), exponent - 25));
}

/* Scales are read for every code that is tried: each half is worked out once. */
static double half_value(const unsigned char *p) {
    static double values[1 << 16];
    static bool known;
    for (unsigned h = 0; !known && h < 1 << 16; h++)
        values[h] = half_of(h);
    known = true;
    return values[p[0] | (unsigned)p[1] << 8];
}

/* Towards zero, also among the subnormal numbers; what is above the greatest becomes it. */
static void put_half(unsigned char *p, double x) {
    int exponent = 0;
    double mantissa = frexp(fabs(x), &exponent);
    unsigned h = 0;
    if (exponent > 16)
        h = 0x7bff;
    else if (x != 0 && exponent >= -13)
        h = (unsigned)(exponent + 14) << 10 | ((unsigned)(mantissa * 2048) & 1023);
    else
        h = (unsigned)ldexp(fabs(x), 24);
    h |= x < 0 ? 0x8000 : 0;
    p[0] = (unsigned char)h;
    p[1] = (unsigned char)(h >> 8);
}

/* Where the code of element i lies: low bits, then high bits, as bit numbers of the block. */
struct place {
    uint32_t low, n_low, high, n_high;
};

static struct place place_of(enum krn_dtype type, uint32_t i) {
    uint32_t pair = 8 * (i % 16) + 4 * (i / 16);
    uint32_t run = 8 * (i / 64 * 32 + i % 32) + 4 * (i / 32 % 2);
    switch (type) {
    case KRN_Q8_0:
        return (struct place){16 + 8 * i, 8, 0, 0};
    case KRN_Q4_0:
    case KRN_IQ4_NL:
        return (struct place){16 + pair, 4, 0, 0};
    case KRN_Q4_1:
        return (struct place){32 + pair, 4, 0, 0};
    case KRN_Q5_0:
        return (struct place){48 + pair, 4, 16 + i, 1};
    case KRN_Q5_1:
        return (struct place){64 + pair, 4, 32 + i, 1};
    case KRN_Q4_K:
        return (struct place){128 + run, 4, 0, 0};
    case KRN_Q5_K:
        return (struct place){384 + run, 4, 128 + 8 * (i % 32) + i / 32, 1};
    case KRN_Q6_K:
        return (struct place){8 * (64 * (i / 128) + i % 64) + 4 * (i % 128 / 64), 4,
                              8 * (128 + 32 * (i / 128) + i % 32) + 2 * (i % 128 / 32), 2};
    default:
        CHECK(!"a blocked type");
        return (struct place){0};
    }
}

/* No part of a code crosses a byte. */
static int get_bits(const unsigned char *block, uint32_t bit, uint32_t n) {
    return block[bit / 8] >> bit % 8 & ((1 << n) - 1);
}

static void put_bits(unsigned char *block, uint32_t bit, uint32_t n, int value) {
    int mask = ((1 << n) - 1) << bit % 8, byte = block[bit / 8];
    CHECK(bit % 8 + n <= 8);
    block[bit / 8] = (unsigned char)((byte & ~mask) | (value << bit % 8 & mask));
}

static int get_code(enum krn_dtype type, const unsigned char *block, uint32_t i) {
    struct place p = place_of(type, i);
    return get_bits(block, p.low, p.n_low) | get_bits(block, p.high, p.n_high) << p.n_low;
}

static void put_code(enum krn_dtype type, unsigned char *block, uint32_t i, int code) {
    struct place p = place_of(type, i);
    put_bits(block, p.low, p.n_low, code);
    put_bits(block, p.high, p.n_high, code >> p.n_low);
}

/* Six bits of scale (which 0) or minimum (which 1) of run r: low part, then the top two bits. */
static struct place scale_place(uint32_t r, uint32_t which) {
    if (r < 4)
        return (struct place){8 * (4 + 4 * which + r), 6, 0, 0};
    return (struct place){8 * (8 + r) + 4 * which, 4, 8 * (r + 4 * which) + 6, 2};
}

static double run_value(const unsigned char *block, uint32_t r, uint32_t which) {
    struct place p = scale_place(r, which);
    return get_bits(block, p.low, p.n_low) | get_bits(block, p.high, p.n_high) << p.n_low;
}

static void put_run(unsigned char *block, uint32_t r, uint32_t which, int value) {
    struct place p = scale_place(r, which);
    put_bits(block, p.low, p.n_low, value);
    put_bits(block, p.high, p.n_high, value >> p.n_low);
}

/* What element i of a blocked type is worth when this is its code. */
static double value_of(enum krn_dtype type, const unsigned char *block, uint32_t i, int code) {
    static const int uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};
    switch (type) {
    case KRN_Q8_0:
        return half_value(block) * (code < 128 ? code : code - 256);
    case KRN_Q4_0:
        return half_value(block) * (code - 8);
    case KRN_Q5_0:
        return half_value(block) * (code - 16);
    case KRN_IQ4_NL:
        return half_value(block) * uneven[code];
    case KRN_Q4_1:
    case KRN_Q5_1:
        return half_value(block) * code + half_value(block + 2);
    case KRN_Q4_K:
    case KRN_Q5_K:
        return half_value(block) * run_value(block, i / 32, 0) * code -
               half_value(block + 2) * run_value(block, i / 32, 1);
    case KRN_Q6_K: {
        int scale = block[192 + i / 16];
        return half_value(block + 208) * (scale < 128 ? scale : scale - 256) * (code - 32);
    }
    default:
        break;
    }
    CHECK(!"a blocked type");
    return 0;
}

double gguf_value(enum krn_dtype type, const unsigned char *block, uint32_t i) {
    uint32_t bits;
    float plain;
    switch (type) {
    case KRN_F32:
        memcpy(&plain, block, sizeof plain);
        return (double)plain;
    case KRN_F16:
        return half_value(block);
    case KRN_BF16:
        bits = (uint32_t)block[0] << 16 | (uint32_t)block[1] << 24;
        memcpy(&plain, &bits, sizeof plain);
        return (double)plain;
    default:
        return value_of(type, block, i, get_code(type, block, i));
    }
}

static void bounds(const float *x, uint32_t n, double *low, double *high) {
    *low = *high = 0;
    for (uint32_t i = 0; i < n; i++) {
        double v = (double)x[i];
        /* no fmin and fmax: a compiler for aarch64 stumbles on them */
        *low = v < *low ? v : *low;
        *high = v > *high ? v : *high;
    }
}

/* Scales of the runs first, then the common ones that they are multiples of. */
static void put_k_scales(enum krn_dtype type, const float *x, unsigned char *block) {
    double step[8], under[8], d = 0, dmin = 0;
    for (uint32_t r = 0; r < 8; r++) {
        double low, high;
        bounds(x + 32 * (size_t)r, 32, &low, &high);
        step[r] = (high - low) / kinds[type].top;
        under[r] = -low;
        d = fmax(d, step[r] / 63);
        dmin = fmax(dmin, under[r] / 63);
    }
    put_half(block, d);
    put_half(block + 2, dmin);
    for (uint32_t r = 0; r < 8; r++) {
        put_run(block, r, 0, d > 0 ? (int)lround(step[r] / d) : 0);
        put_run(block, r, 1, dmin > 0 ? (int)lround(under[r] / dmin) : 0);
    }
}

static void put_q6_scales(const float *x, unsigned char *block) {
    double reach[16], d = 0;
    for (uint32_t r = 0; r < 16; r++) {
        double low, high;
        bounds(x + 16 * (size_t)r, 16, &low, &high);
        reach[r] = fmax(-low, high) / 31;
        d = fmax(d, reach[r] / 127);
    }
    put_half(block + 208, d);
    for (uint32_t r = 0; r < 16; r++)
        block[192 + r] = (unsigned char)(d > 0 ? lround(reach[r] / d) : 0);
}

static void put_scales(enum krn_dtype type, const float *x, unsigned char *block) {
    double low, high;
    bounds(x, kinds[type].block, &low, &high);
    double most = fmax(-low, high);
    switch (type) {
    case KRN_Q8_0:
    case KRN_IQ4_NL:
        put_half(block, most / (type == KRN_Q8_0 ? 127 : 113));
        break;
    case KRN_Q4_0:
    case KRN_Q5_0:
        put_half(block, most / (type == KRN_Q4_0 ? 7 : 15));
        break;
    case KRN_Q4_1:
    case KRN_Q5_1:
        put_half(block, (high - low) / kinds[type].top);
        put_half(block + 2, low);
        break;
    case KRN_Q6_K:
        put_q6_scales(x, block);
        break;
    default:
        put_k_scales(type, x, block);
    }
}

/* Codes [*first, *last] among which the nearest is: all, or a few around where a straight line
 * through two of them passes. */
static void candidates(enum krn_dtype type, const unsigned char *block, uint32_t i, double x,
                       int *first, int *last) {
    const int top = kinds[type].top;
    *first = 0;
    *last = top;
    if (type == KRN_IQ4_NL)
        return;
    if (type == KRN_Q8_0) { /* signed codes */
        if (half_value(block) != 0)
            *first = *last = (int)lround(fmax(-127, fmin(127, x / half_value(block)))) & 255;
        return;
    }
    double at_0 = value_of(type, block, i, 0);
    double step = (value_of(type, block, i, top) - at_0) / top;
    if (step == 0)
        return;
    double guess = fmax(0, fmin(top, (x - at_0) / step));
    *first = (int)fmax(0, floor(guess) - 1);
    *last = (int)fmin(top, ceil(guess) + 1);
}

void gguf_quantise(enum krn_dtype type, const float *x, unsigned char *block) {
    memset(block, 0, kinds[type].bytes);
    if (type == KRN_F32) {
        memcpy(block, x, sizeof *x);
        return;
    }
    CHECK(type >= KRN_DTYPES);
    put_scales(type, x, block);
    for (uint32_t i = 0; i < kinds[type].block; i++) {
        int best = 0, first, last;
        double error = INFINITY;
        candidates(type, block, i, (double)x[i], &first, &last);
        for (int code = first; code <= last; code++) {
            double off = fabs(value_of(type, block, i, code) - (double)x[i]);
            if (off < error) {
                error = off;
                best = code;
            }
        }
        put_code(type, block, i, best);
    }
}
