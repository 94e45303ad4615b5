/* SPDX-License-Identifier: Apache-2.0
 * One layer of the KV pages as kernels see it, and the two kernels that move pages' contents:
 * rotation with the write of keys and values (numerics.md 4, 5), and copies of partial pages.
 */
#ifndef KERNELS_CUDA_PAGES_H
#define KERNELS_CUDA_PAGES_H

#include "kernels/cuda/bf16_tile.h"
#include "kernels/cuda/step.h"

/* struct krn_kv with an address of the device. */
struct krn_cuda_kv {
    krn_cuda_ptr_t pool;
    uint64_t page_bytes, layer_off;
    uint32_t page_tokens, kv_heads, head_dim, reserved;
};

/* Norms each head of Q and K (where there is a weight), rotates it, and writes K and V to pages. */
struct krn_cuda_rope {
    krn_cuda_ptr_t step;
    krn_cuda_ptr_t q, k, v;        /* f32 rows; q is rotated in place */
    krn_cuda_ptr_t q_norm, k_norm; /* f32 [head_dim] or 0 */
    krn_cuda_ptr_t angles; /* f32 [context][head_dim]: cosines, then sines; 0: no rotation */
    struct krn_cuda_kv kv;
    uint32_t heads; /* query heads */
    uint32_t ldq, ldk, ldv;
    float eps;
    uint32_t bf16; /* K and V are rounded and lie in tiles of bf16_tile.h (numerics.md 16.4) */
};

void krn_cuda_rope_call(const struct krn_cuda_rope *args, uint32_t rows,
                        struct krn_cuda_call *call);

/* The step's copies: whole tiles of every layer and head, as many as the tokens reach into. */
struct krn_cuda_copy {
    krn_cuda_ptr_t step;
    struct krn_cuda_kv kv;
    uint32_t heads;      /* KV heads of all layers */
    uint32_t tile_words; /* 32-bit words of K and V of one head's tile */
};

void krn_cuda_copy_call(const struct krn_cuda_copy *args, uint32_t copies,
                        struct krn_cuda_call *call);

#endif
