/* SPDX-License-Identifier: Apache-2.0
 * Packing for the products of `amx-bf16`, and the choice of their form.
 */
#include "kernels/cpu/bf16.h"

#include <string.h>

#include "actors/check.h"
#include "kernels/approx.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/tables.h"
#include "kernels/quant/quant.h"

size_t krn_bf16_tile_bytes(uint32_t head_dim) {
    return krn_bf16_keys_bytes(head_dim) + (size_t)head_dim * KRN_TILE * 2;
}

size_t krn_bf16_row_bytes(uint32_t k) {
    size_t lines = (size_t)krn_bf16_padded(k) * 2 / 64;
    return (lines | 1) * 64;
}

uint64_t krn_bf16_packed_bytes(enum krn_dtype dtype, uint32_t n, uint32_t k) {
    (void)dtype; /* whatever the file stores becomes bf16 */
    return ((uint64_t)n + KRN_BLOCK - 1) / KRN_BLOCK * KRN_BLOCK * krn_bf16_padded(k) * 2;
}

/* Two stored bf16, of which only subnormals change. */
static inline uint32_t flushed(uint32_t pair) {
    if ((pair & 0x7f800000u) == 0)
        pair &= 0x8000ffffu;
    if ((pair & 0x00007f80u) == 0)
        pair &= 0xffff8000u;
    return pair;
}

/* A whole block of stored bf16, pair by pair. ld: elements from row to row. */
static void pack_block_bf16(const uint16_t *w, uint64_t ld, uint32_t k, uint16_t *out) {
    for (uint32_t i = 0; i + 2 <= k; i += 2, out += 2 * KRN_BLOCK)
        for (uint32_t r = 0; r < KRN_BLOCK; r++) {
            uint32_t pair;
            memcpy(&pair, w + r * ld + i, sizeof pair);
            pair = flushed(pair);
            memcpy(out + (size_t)r * 2, &pair, sizeof pair);
        }
    for (uint32_t r = 0; k % 2 != 0 && r < KRN_BLOCK; r++)
        out[(size_t)r * 2] = (uint16_t)flushed(w[r * ld + k - 1]);
}

/* Columns [col0, col0 + k) of one row go to one lane of a block. */
static void pack_row_wide(const struct krn_tensor *w, uint64_t row, uint32_t col0, uint32_t k,
                          uint16_t *out) {
    enum { PIECE = KRN_QUANT_BLOCK_MAX };
    float piece[PIECE];
    uint64_t ld = w->dims[1];
    for (uint64_t at = col0 / PIECE * PIECE; at < (uint64_t)col0 + k; at += PIECE) {
        uint64_t width = ld - at < PIECE ? ld - at : PIECE;
        if (w->dtype >= KRN_DTYPES)
            krn_unpack(w->dtype, w->data, row * ld + at, width, piece);
        else if (w->dtype == KRN_F32)
            memcpy(piece, (const float *)w->data + row * ld + at, width * sizeof *piece);
        for (uint64_t i = 0; i < width && (w->dtype == KRN_F16 || w->dtype == KRN_BF16); i++) {
            uint16_t h = ((const uint16_t *)w->data)[row * ld + at + i];
            piece[i] = w->dtype == KRN_F16 ? krn_widen_f16(h) : krn_widen_bf16(h);
        }
        for (uint64_t i = at < col0 ? col0 - at : 0; i < width && at + i < (uint64_t)col0 + k;
             i++) {
            uint64_t c = at + i - col0;
            out[c / 2 * 2 * KRN_BLOCK + c % 2] = krn_round_bf16(piece[i]);
        }
    }
}

void krn_bf16_pack(const struct krn_tensor *w, uint32_t row0, uint32_t n, uint32_t col0, uint32_t k,
                   void *out, struct krn_packed *p) {
    CHECK(w->n_dims == 2);
    CHECK((uint64_t)row0 + n <= w->dims[0] && (uint64_t)col0 + k <= w->dims[1]);
    CHECK(w->dtype < KRN_DTYPES || w->dims[1] % krn_format_of(w->dtype)->block == 0);
    size_t block = (size_t)krn_bf16_padded(k) * KRN_BLOCK;
    *p = (struct krn_packed){.dtype = KRN_BF16,
                             .n = n,
                             .k = k,
                             .n_blocks = (n + KRN_BLOCK - 1) / KRN_BLOCK,
                             .data = out,
                             .bytes = krn_bf16_packed_bytes(w->dtype, n, k)};
    for (uint32_t b = 0; b < p->n_blocks; b++) {
        uint16_t *to = (uint16_t *)out + b * block;
        uint32_t first = b * KRN_BLOCK, rows = n - first < KRN_BLOCK ? n - first : KRN_BLOCK;
        if (rows < KRN_BLOCK || k % BF16_STEP != 0)
            memset(to, 0, block * sizeof *to);
        uint64_t row = (uint64_t)row0 + first, ld = w->dims[1];
        if (w->dtype == KRN_BF16 && rows == KRN_BLOCK)
            pack_block_bf16((const uint16_t *)w->data + row * ld + col0, ld, k, to);
        else
            for (uint32_t r = 0; r < rows; r++)
                pack_row_wide(w, row + r, col0, k, to + (size_t)r * 2);
    }
}

void krn_bf16_embed(const struct krn_packed *w, uint32_t token, float *y) {
    const uint16_t *from = (const uint16_t *)w->data +
                           (size_t)(token / KRN_BLOCK) * krn_bf16_padded(w->k) * KRN_BLOCK +
                           (size_t)(token % KRN_BLOCK) * 2;
    for (uint32_t i = 0; i < w->k; i++)
        y[i] = krn_widen_bf16(from[(size_t)(i / 2) * 2 * KRN_BLOCK + i % 2]);
}

const struct krn_bf16_fn *krn_bf16_named(const char *isa) {
    if (strcmp(isa, "scalar") == 0)
        return &krn_bf16_scalar;
#if defined(__x86_64__)
    if (strcmp(isa, "amx") == 0)
        return krn_rowfn_pick("avx512") != NULL && krn_amx_bf16() ? &krn_bf16_amx : NULL;
    if (strcmp(isa, "avx2") == 0 && krn_rowfn_pick(isa) != NULL)
        return &krn_bf16_avx2;
    if (strcmp(isa, "avx512") == 0 && krn_rowfn_pick(isa) != NULL)
        return &krn_bf16_avx512;
#elif defined(__aarch64__)
    if (strcmp(isa, "neon") == 0)
        return &krn_bf16_neon;
#endif
    return NULL;
}

const struct krn_bf16_fn *krn_bf16_pick(const struct krn_rowfn *fn) {
    const struct krn_bf16_fn *tiles = NULL, *own = krn_bf16_named(fn->isa);
    if (strcmp(fn->isa, "avx512") == 0)
        tiles = krn_bf16_named("amx");
    return tiles != NULL ? tiles : own != NULL ? own : &krn_bf16_scalar;
}
