/* SPDX-License-Identifier: Apache-2.0
 * Rows and weights for step16 (numerics.md 16.2), of kinds that reach every branch of it: ordinary,
 * spread over many exponents, zeros beside greater terms, subnormals, sums below and beyond fp32,
 * infinite and NaN, sums that cancel.
 */
#ifndef TESTS_KERNELS_STEP16_INPUTS_H
#define TESTS_KERNELS_STEP16_INPUTS_H

#include <stdint.h>

enum { STEP16_ROWS = 256, STEP16_OUTPUTS = 1024, STEP16_K_MAX = 256, STEP16_KINDS = 13 };

struct step16_kind {
    const char *name;
    uint32_t k, row_low, row_spread, low, spread; /* exponents from low on, with bias */
    uint32_t zeros, hostile;                      /* one element in so many; 0: none */
};

static const struct step16_kind step16_kinds[STEP16_KINDS] = {
    {"one step", 16, 120, 12, 120, 12, 0, 0},
    {"four steps", 64, 120, 12, 120, 12, 0, 0},
    {"sixteen steps", 256, 124, 4, 124, 4, 0, 0},
    {"spread", 16, 100, 50, 100, 50, 0, 0},
    {"spread, zeros", 64, 90, 70, 90, 70, 8, 0},
    {"around the least", 64, 0, 90, 0, 90, 0, 0},
    {"at the least", 32, 60, 12, 60, 12, 3, 0},
    {"subnormals", 64, 0, 3, 110, 30, 2, 0},
    {"beyond the greatest", 48, 180, 30, 170, 20, 0, 0},
    {"anything", 32, 1, 254, 1, 254, 4, 0},
    {"infinite and NaN", 64, 120, 12, 120, 12, 9, 2000},
    {"zeros above", 32, 0, 40, 127, 127, 2, 0},
    {"below fp32", 32, 44, 16, 44, 16, 4, 0}};

static uint64_t step16_next(uint64_t *seed) {
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint16_t step16_element(uint64_t *seed, uint32_t low, uint32_t spread, uint32_t zeros,
                               uint32_t hostile) {
    static const uint16_t odd[] = {0x7f80, 0xff80, 0x7fc0, 0x7f7f, 0xff7f, 1, 0x8001};
    uint64_t r = step16_next(seed);
    if (zeros != 0 && r % zeros == 0)
        return (uint16_t)((r >> 40 & 1) << 15);
    if (hostile != 0 && (r >> 8) % hostile == 0)
        return odd[(r >> 40) % 7];
    return (uint16_t)((r >> 60 & 1) << 15 | (low + (uint32_t)(r >> 20) % spread) << 7 |
                      (r >> 44 & 127));
}

/* x: [rows][k], w: [outputs][k]. Returns k. */
static uint32_t step16_inputs(uint32_t kind, uint16_t *x, uint16_t *w) {
    const struct step16_kind *s = &step16_kinds[kind];
    uint64_t seed = 1000 + kind;
    for (uint32_t i = 0; i < STEP16_ROWS * s->k; i++)
        x[i] = step16_element(&seed, s->row_low, s->row_spread, s->zeros, s->hostile);
    for (uint32_t i = 0; i < STEP16_OUTPUTS * s->k; i++)
        w[i] = step16_element(&seed, s->low, s->spread, s->zeros, s->hostile);
    for (uint32_t n = 0; n < STEP16_OUTPUTS; n += 7)
        for (uint32_t i = 1; i < s->k; i += 2)
            w[n * s->k + i] = w[n * s->k + i - 1] ^ 0x8000;
    for (uint32_t r = 0; r < STEP16_ROWS; r += 5)
        for (uint32_t i = 1; i < s->k; i += 2)
            x[r * s->k + i] = (uint16_t)(x[r * s->k + i - 1] ^ (i % 8 == 3));
    return s->k;
}

#endif
