/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 2 (norms of heads), 4 and 5, one head of one row a block; and copies of pages.
 */
#include "kernels/cuda/pages.h"

#include "kernels/cuda/device.h"

enum { ROPE_THREADS = 64, COPY_THREADS = 256 };

/* x = (x * r) * w over one head; lanes as in every norm. */
CUDA_FN void head_norm(float *x, const float *w, uint32_t n, float eps, float *lanes,
                       float *factor) {
    if (threadIdx.x < KRN_LANES) {
        float acc = 0.0f;
        for (uint32_t i = threadIdx.x; i < n; i += KRN_LANES)
            acc = fmaf(x[i], x[i], acc);
        lanes[threadIdx.x] = acc;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        *factor = 1.0f / sqrtf(krn_cuda_tree16(lanes) / (float)n + eps);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n; i += ROPE_THREADS)
        x[i] = (x[i] * *factor) * w[i];
    __syncthreads();
}

CUDA_FN void kv_write(const struct krn_cuda_rope *a, const struct krn_cuda_step *step,
                      const struct krn_cuda_row *r, uint32_t row, uint32_t head, const float *k) {
    const uint32_t *pages = KRN_CUDA_OF(uint32_t, step, off_pages) + r->first_page;
    const float *v =
        KRN_CUDA_AT(const float, a->v) + (size_t)row * a->ldv + (size_t)head * a->kv.head_dim;
    uint32_t d = a->kv.head_dim, slot = r->pos % a->kv.page_tokens, j = slot % KRN_TILE;
    if (a->bf16 != 0) {
        uint32_t tiles = a->kv.page_tokens / KRN_TILE;
        unsigned char *to = KRN_CUDA_AT(unsigned char, a->kv.pool) +
                            pages[r->pos / a->kv.page_tokens] * a->kv.page_bytes + a->kv.layer_off +
                            (uint64_t)(head * tiles + slot / KRN_TILE) * krn_bf16_kv_bytes(d);
        for (uint32_t i = threadIdx.x; i < d; i += ROPE_THREADS) {
            *(uint16_t *)(void *)(to + krn_bf16_kv_at(d, 0, j, i)) = krn_cuda_bf16(k[i]);
            *(uint16_t *)(void *)(to + krn_bf16_kv_at(d, 1, j, i)) = krn_cuda_bf16(v[i]);
        }
        return;
    }
    float *tile = krn_cuda_kv_tile(KRN_CUDA_AT(unsigned char, a->kv.pool), a->kv.page_bytes,
                                   a->kv.layer_off, a->kv.page_tokens, d, head,
                                   pages[r->pos / a->kv.page_tokens], slot / KRN_TILE);
    for (uint32_t i = threadIdx.x; i < d; i += ROPE_THREADS) {
        tile[(size_t)i * KRN_TILE + j] = k[i];
        tile[(size_t)(KRN_TILE + j) * d + i] = v[i];
    }
}

KRN_CUDA_KERNEL(krn_cuda_rope, ROPE_THREADS)(const __grid_constant__ struct krn_cuda_rope a) {
    __shared__ float x[KRN_HEAD_MAX], lanes[KRN_LANES], factor;
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    uint32_t row = blockIdx.x, d = a.kv.head_dim, half = d / 2;
    if (row >= step->n_rows)
        return;
    const struct krn_cuda_row *r = KRN_CUDA_OF(struct krn_cuda_row, step, off_rows) + row;
    bool query = blockIdx.y < a.heads;
    uint32_t head = query ? blockIdx.y : blockIdx.y - a.heads;
    float *at = query ? KRN_CUDA_AT(float, a.q) + (size_t)row * a.ldq + (size_t)head * d
                      : KRN_CUDA_AT(float, a.k) + (size_t)row * a.ldk + (size_t)head * d;
    for (uint32_t i = threadIdx.x; i < d; i += ROPE_THREADS)
        x[i] = at[i];
    __syncthreads();
    krn_cuda_ptr_t norm = query ? a.q_norm : a.k_norm;
    if (norm != 0)
        head_norm(x, KRN_CUDA_AT(const float, norm), d, a.eps, lanes, &factor);
    if (a.angles != 0) {
        const float *cs = KRN_CUDA_AT(const float, a.angles) + (size_t)r->pos * d;
        for (uint32_t i = threadIdx.x; i < half; i += ROPE_THREADS) {
            float x0 = x[i], x1 = x[half + i], c = cs[i], s = cs[half + i];
            x[i] = fmaf(x0, c, -(x1 * s));
            x[half + i] = fmaf(x1, c, x0 * s);
        }
        __syncthreads();
    }
    if (query) {
        for (uint32_t i = threadIdx.x; i < d; i += ROPE_THREADS)
            at[i] = x[i];
        return;
    }
    kv_write(&a, step, r, row, head, x);
}

KRN_CUDA_KERNEL(krn_cuda_copy, COPY_THREADS)(const __grid_constant__ struct krn_cuda_copy a) {
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    if (blockIdx.x >= step->n_copies)
        return;
    const struct krn_cuda_page_copy *copy =
        KRN_CUDA_OF(struct krn_cuda_page_copy, step, off_copies) + blockIdx.x;
    unsigned char *pool = KRN_CUDA_AT(unsigned char, a.kv.pool);
    size_t head = (size_t)(a.kv.page_tokens / KRN_TILE) * a.tile_words;
    size_t n = (size_t)((copy->tokens + KRN_TILE - 1) / KRN_TILE) * a.tile_words;
    const uint32_t *src =
        (const uint32_t *)(void *)(pool + copy->src * a.kv.page_bytes) + blockIdx.y * head;
    uint32_t *dst = (uint32_t *)(void *)(pool + copy->dst * a.kv.page_bytes) + blockIdx.y * head;
    for (size_t i = threadIdx.x; i < n; i += COPY_THREADS)
        dst[i] = src[i];
}
