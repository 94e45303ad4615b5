/* SPDX-License-Identifier: Apache-2.0
 * Choice of the table, packing of weights, and the floating-point environment that all tables
 * assume.
 */
#include "kernels/rowfn.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "actors/check.h"
#include "kernels/cpu/tables.h"

static bool runs_always(void) {
    return true;
}

#if defined(__x86_64__)
static bool runs_avx2(void) {
    unsigned a, b, c, d; /* not every compiler knows f16c by name */
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
}

static bool runs_avx512(void) {
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

/* Best first. */
static const struct {
    const struct krn_rowfn *fn;
    bool (*runs)(void);
} tables[] = {
#if defined(__x86_64__)
    {&krn_rowfn_avx512, runs_avx512},
    {&krn_rowfn_avx2, runs_avx2},
#endif
    {&krn_rowfn_scalar, runs_always},
};

const struct krn_rowfn *krn_rowfn_pick(const char *isa) {
    if (isa == NULL) {
        isa = getenv("ROUNDHOUSE_ISA");
        if (isa != NULL && *isa == '\0')
            isa = NULL;
    }
    for (unsigned i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if ((isa == NULL || strcmp(isa, tables[i].fn->isa) == 0) && tables[i].runs())
            return tables[i].fn;
    return NULL;
}

static size_t element(enum krn_dtype dtype) {
    return dtype == KRN_F32 ? 4 : 2;
}

uint64_t krn_packed_bytes(enum krn_dtype dtype, uint32_t n, uint32_t k) {
    return ((uint64_t)n + KRN_BLOCK - 1) / KRN_BLOCK * KRN_BLOCK * k * element(dtype);
}

/* Sixteen rows of the matrix become one block: out[k][16]. Short blocks are padded with zeros. */
static void pack_block_2(const uint16_t *w, size_t ld, uint32_t n, uint32_t k, uint16_t *out) {
    for (uint32_t i = 0; i < k; i++)
        for (uint32_t r = 0; r < KRN_BLOCK; r++)
            out[(size_t)i * KRN_BLOCK + r] = r < n ? w[r * ld + i] : 0;
}

static void pack_block_4(const uint32_t *w, size_t ld, uint32_t n, uint32_t k, uint32_t *out) {
    for (uint32_t i = 0; i < k; i++)
        for (uint32_t r = 0; r < KRN_BLOCK; r++)
            out[(size_t)i * KRN_BLOCK + r] = r < n ? w[r * ld + i] : 0;
}

void krn_pack(const struct krn_tensor *w, uint32_t row0, uint32_t n, uint32_t col0, uint32_t k,
              void *out, struct krn_packed *p) {
    CHECK(w->n_dims == 2);
    CHECK((uint64_t)row0 + n <= w->dims[0] && (uint64_t)col0 + k <= w->dims[1]);
    size_t ld = w->dims[1], e = element(w->dtype);
    *p = (struct krn_packed){.dtype = w->dtype,
                             .n = n,
                             .k = k,
                             .n_blocks = (n + KRN_BLOCK - 1) / KRN_BLOCK,
                             .data = out,
                             .bytes = krn_packed_bytes(w->dtype, n, k)};
    for (uint32_t b = 0; b < p->n_blocks; b++) {
        uint32_t first = b * KRN_BLOCK, rows = n - first < KRN_BLOCK ? n - first : KRN_BLOCK;
        const char *from = (const char *)w->data + ((row0 + first) * ld + col0) * e;
        char *to = (char *)out + (size_t)b * k * KRN_BLOCK * e;
        if (e == 4)
            pack_block_4((const void *)from, ld, rows, k, (void *)to);
        else
            pack_block_2((const void *)from, ld, rows, k, (void *)to);
    }
}

float krn_attend_scale(uint32_t head_dim) {
    return 1.0f / sqrtf((float)head_dim);
}

void krn_fpenv_check(void) {
    CHECK(fegetround() == FE_TONEAREST);
#if defined(__x86_64__)
    CHECK((_mm_getcsr() & (_MM_FLUSH_ZERO_MASK | 0x0040u /* denormals are zero */)) == 0);
#endif
}
