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
#elif defined(__aarch64__)
/* FZ, FZ16, AHP and DN: subnormals flushed, another half format, NaN made one value */
#define FPCR_MOVES_BITS (1u << 24 | 1u << 19 | 1u << 26 | 1u << 25)
#endif

#include "actors/check.h"
#include "kernels/cpu/tables.h"
#include "kernels/quant/cell.h"

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
#elif defined(__aarch64__)
    {&krn_rowfn_neon, runs_always},
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

/* Of the packed form, where it is not one of cells. */
static size_t element(enum krn_dtype dtype) {
    return dtype == KRN_F16 || dtype == KRN_BF16 ? 2 : 4;
}

uint64_t krn_packed_bytes(enum krn_dtype dtype, uint32_t n, uint32_t k) {
    uint64_t blocks = ((uint64_t)n + KRN_BLOCK - 1) / KRN_BLOCK;
    if (krn_cell_fits(dtype, k))
        return blocks * (k / KRN_CELL) * krn_cell_bytes(krn_cell(dtype));
    return blocks * KRN_BLOCK * k * element(dtype);
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

/* Rows of a blocked format as one block of f32; columns may begin and end inside the format's
 * blocks. */
static void pack_block_unpacked(const struct krn_tensor *w, uint64_t row0, uint32_t n,
                                uint32_t col0, uint32_t k, float *out) {
    enum { PIECE = KRN_QUANT_BLOCK_MAX };
    float piece[PIECE];
    uint64_t ld = w->dims[1];
    memset(out, 0, (size_t)k * KRN_BLOCK * sizeof *out);
    for (uint32_t r = 0; r < n; r++) {
        for (uint64_t at = col0 / PIECE * PIECE; at < (uint64_t)col0 + k; at += PIECE) {
            uint64_t width = ld - at < PIECE ? ld - at : PIECE;
            krn_unpack(w->dtype, w->data, (row0 + r) * ld + at, width, piece);
            for (uint64_t i = at < col0 ? col0 - at : 0; i < width && at + i < (uint64_t)col0 + k;
                 i++)
                out[(at + i - col0) * KRN_BLOCK + r] = piece[i];
        }
    }
}

static void pack_blocked(const struct krn_tensor *w, uint32_t row0, uint32_t col0,
                         unsigned char *out, struct krn_packed *p) {
    CHECK(w->dims[1] % krn_format_of(w->dtype)->block == 0);
    bool cells = krn_cell_fits(w->dtype, p->k);
    uint64_t block_bytes = p->n_blocks > 0 ? p->bytes / p->n_blocks : 0;
    p->dtype = cells ? w->dtype : KRN_F32;
    for (uint32_t b = 0; b < p->n_blocks; b++) {
        uint32_t first = b * KRN_BLOCK, rows = p->n - first < KRN_BLOCK ? p->n - first : KRN_BLOCK;
        unsigned char *to = out + b * block_bytes;
        if (cells)
            krn_cell_pack(w, (uint64_t)row0 + first, rows, col0, p->k, to);
        else
            pack_block_unpacked(w, (uint64_t)row0 + first, rows, col0, p->k, (void *)to);
    }
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
    if (w->dtype >= KRN_DTYPES) {
        pack_blocked(w, row0, col0, out, p);
        return;
    }
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
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(fpcr));
    CHECK((fpcr & FPCR_MOVES_BITS) == 0);
#endif
}
