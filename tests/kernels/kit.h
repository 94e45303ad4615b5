/* SPDX-License-Identifier: Apache-2.0
 * What the kernel tests share: seeded values from tame to hostile, tables of this machine, and a
 * comparison of bits in which any NaN equals any NaN (numerics.md 0.6).
 */
#ifndef TESTS_KERNELS_KIT_H
#define TESTS_KERNELS_KIT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/approx.h"
#include "kernels/philox.h"
#include "kernels/rowfn.h"

struct kit_rand {
    uint64_t seed, n;
};

static inline uint32_t kit_u32(struct kit_rand *r) {
    return (uint32_t)krn_philox_u64(r->seed, r->n++);
}

static inline uint32_t kit_below(struct kit_rand *r, uint32_t n) {
    return kit_u32(r) % n;
}

/* In [-1, 1), 24 bits. */
static inline float kit_unit(struct kit_rand *r) {
    return (float)((int32_t)(kit_u32(r) >> 7) - (1 << 24)) * 0x1p-24f;
}

enum kit_values {
    KIT_TAME,    /* about 1 */
    KIT_SPREAD,  /* over 2^-40 ... 2^40: every addition rounds */
    KIT_CANCEL,  /* huge pairs that cancel, small rest */
    KIT_TINY,    /* subnormals and zeros of both signs */
    KIT_HUGE,    /* overflows to infinity */
    KIT_HOSTILE, /* NaN and infinities among all of the above */
    KIT_VALUES
};

static inline float kit_value(struct kit_rand *r, enum kit_values kind) {
    float u = kit_unit(r);
    switch (kind) {
    case KIT_SPREAD:
        return ldexpf(u, (int)kit_below(r, 81) - 40);
    case KIT_CANCEL: {
        float big = kit_below(r, 2) != 0 ? 0x1p30f : 1.0f;
        return kit_below(r, 2) != 0 ? -big + u : big + u;
    }
    case KIT_TINY:
        if (kit_below(r, 4) == 0)
            return kit_below(r, 2) != 0 ? -0.0f : 0.0f;
        return u * 0x1p-126f;
    case KIT_HUGE:
        return u * 0x1p127f;
    case KIT_HOSTILE:
        if (kit_below(r, 16) == 0)
            return kit_below(r, 2) != 0 ? NAN : -NAN;
        if (kit_below(r, 8) == 0)
            return kit_below(r, 2) != 0 ? INFINITY : -INFINITY;
        return kit_value(r, (enum kit_values)kit_below(r, KIT_HOSTILE));
    default:
        return u;
    }
}

static inline void kit_fill(struct kit_rand *r, float *x, size_t n, enum kit_values kind) {
    for (size_t i = 0; i < n; i++)
        x[i] = kit_value(r, kind);
}

static inline void *kit_alloc(size_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes != 0 ? bytes : 1) != 0)
        abort();
    return p;
}

static inline float *kit_floats(size_t n) {
    return kit_alloc(n * sizeof(float));
}

/* Cuts a float to a stored element; the bits of half types are taken from the value where possible
 * and at random else, so that subnormals of the type appear. */
static inline uint16_t kit_half(struct kit_rand *r, enum krn_dtype dtype, float x) {
    if (dtype == KRN_BF16)
        return (uint16_t)(krn_bits(x) >> 16);
    uint16_t h = (uint16_t)kit_u32(r);
    if (isfinite(x) && (h & 0x7c00u) == 0x7c00u)
        h &= 0xbfffu;
    return h;
}

/* A matrix of random elements that owns its data. */
static inline struct krn_tensor kit_tensor(struct kit_rand *r, enum krn_dtype dtype, uint32_t n,
                                           uint32_t k, enum kit_values kind) {
    size_t e = dtype == KRN_F32 ? 4 : 2;
    void *data = kit_alloc((size_t)n * k * e);
    for (size_t i = 0; i < (size_t)n * k; i++) {
        float x = kit_value(r, kind);
        if (dtype == KRN_F32)
            ((float *)data)[i] = x;
        else
            ((uint16_t *)data)[i] = kit_half(r, dtype, x);
    }
    return (struct krn_tensor){.name = "test",
                               .dtype = dtype,
                               .n_dims = 2,
                               .dims = {n, k},
                               .data = data,
                               .bytes = (uint64_t)n * k * e};
}

static inline struct krn_packed kit_pack(const struct krn_tensor *w) {
    struct krn_packed p;
    void *out = kit_alloc(krn_packed_bytes(w->dtype, (uint32_t)w->dims[0], (uint32_t)w->dims[1]));
    krn_pack(w, 0, (uint32_t)w->dims[0], 0, (uint32_t)w->dims[1], out, &p);
    return p;
}

/* Index of the first element whose bits differ, or n. */
static inline size_t kit_differ(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (krn_bits(a[i]) != krn_bits(b[i]) && !(a[i] != a[i] && b[i] != b[i]))
            return i;
    return n;
}

/* The tables that this machine runs; returns how many. */
static inline unsigned kit_tables(const struct krn_rowfn *out[4]) {
    static const char *const names[] = {"scalar", "avx2", "avx512", "neon"};
    unsigned n = 0;
    for (unsigned i = 0; i < 4; i++)
        if (krn_rowfn_pick(names[i]) != NULL)
            out[n++] = krn_rowfn_pick(names[i]);
    return n;
}

#define kit_equal(a, b, n, ...)                                                                    \
    do {                                                                                           \
        size_t at_ = kit_differ((a), (b), (n));                                                    \
        if (at_ != (size_t)(n)) {                                                                  \
            char what_[160];                                                                       \
            snprintf(what_, sizeof what_, __VA_ARGS__);                                            \
            ck_abort_msg("%s: element %zu: %a, expected %a", what_, at_, (double)(a)[at_],         \
                         (double)(b)[at_]);                                                        \
        }                                                                                          \
    } while (0)

#endif
