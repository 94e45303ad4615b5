/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 2 (norms of heads), 4 and 5, a few heads of one row a block; and copies of pages.
 */
#include "kernels/cuda/pages.h"

#include "kernels/cuda/device.h"

enum {
    ROPE_HEADS = 4, /* of a block, each by 32 threads */
    ROPE_WIDTH = 32,
    ROPE_PAIRS = KRN_HEAD_MAX / 2 / ROPE_WIDTH, /* of a thread at most */
    ROPE_THREADS = ROPE_HEADS * ROPE_WIDTH,
    COPY_THREADS = 256
};

/* What the threads of a block share of its heads. */
struct rope_shared {
    float x[ROPE_HEADS][KRN_HEAD_MAX], lanes[ROPE_HEADS][KRN_LANES], factor[ROPE_HEADS];
};

/* x = (x * r) * w over each head that has a weight; lanes as in every norm. All threads come. */
CUDA_FN void head_norm(struct rope_shared *s, uint32_t h, uint32_t t, const float *w, uint32_t n,
                       float eps) {
    if (t < KRN_LANES) {
        float acc = 0.0f;
        for (uint32_t i = t; i < n; i += KRN_LANES)
            acc = fmaf(s->x[h][i], s->x[h][i], acc);
        s->lanes[h][t] = acc;
    }
    __syncthreads();
    if (t == 0)
        s->factor[h] = 1.0f / sqrtf(krn_cuda_tree16(s->lanes[h]) / (float)n + eps);
    __syncthreads();
    for (uint32_t i = t; i < n && w != NULL; i += ROPE_WIDTH)
        s->x[h][i] = (s->x[h][i] * s->factor[h]) * w[i];
    __syncthreads();
}

/* What the plan alone says of a row: no kernel of the step writes it, so it is read while the
 * kernel before ends. */
struct rope_plan {
    uint32_t slot; /* in the page */
    uint64_t page; /* bytes into the pool; of keys and values */
    float cosine[ROPE_PAIRS], sine[ROPE_PAIRS];
};

CUDA_FN void rope_begin(struct rope_plan *p, const struct krn_cuda_rope *a,
                        const struct krn_cuda_step *step, uint32_t row, const bool keys,
                        uint32_t t) {
    const struct krn_cuda_row *r = KRN_CUDA_OF(struct krn_cuda_row, step, off_rows) + row;
    uint32_t half = a->kv.head_dim / 2, pos = r->pos;
    const float *cs = KRN_CUDA_AT(const float, a->angles) + (size_t)pos * a->kv.head_dim;
    UNROLL for (uint32_t j = 0; j < ROPE_PAIRS; j++) {
        uint32_t i = t + j * ROPE_WIDTH;
        bool turns = i < half && a->angles != 0;
        p->cosine[j] = turns ? cs[i] : 0.0f;
        p->sine[j] = turns ? cs[half + i] : 0.0f;
    }
    if (!keys)
        return;
    p->slot = pos % a->kv.page_tokens;
    p->page = KRN_CUDA_OF(uint32_t, step, off_pages)[r->first_page + pos / a->kv.page_tokens] *
              a->kv.page_bytes;
}

CUDA_FN void kv_write(const struct krn_cuda_rope *a, const struct rope_plan *p, uint32_t row,
                      uint32_t head, uint32_t t, const float *k) {
    const float *v =
        KRN_CUDA_AT(const float, a->v) + (size_t)row * a->ldv + (size_t)head * a->kv.head_dim;
    uint32_t d = a->kv.head_dim, slot = p->slot, j = slot % KRN_TILE;
    if (a->bf16 != 0) {
        uint32_t tiles = a->kv.page_tokens / KRN_TILE;
        unsigned char *to = KRN_CUDA_AT(unsigned char, a->kv.pool) + p->page + a->kv.layer_off +
                            (uint64_t)(head * tiles + slot / KRN_TILE) * krn_bf16_kv_bytes(d);
        for (uint32_t i = t; i < d; i += ROPE_WIDTH) {
            *(uint16_t *)(void *)(to + krn_bf16_kv_at(d, 0, j, i)) = krn_cuda_bf16(k[i]);
            *(uint16_t *)(void *)(to + krn_bf16_kv_at(d, 1, j, i)) = krn_cuda_bf16(v[i]);
        }
        return;
    }
    float *tile = krn_cuda_kv_tile(KRN_CUDA_AT(unsigned char, a->kv.pool) + p->page, 0,
                                   a->kv.layer_off, a->kv.page_tokens, d, head, 0, slot / KRN_TILE);
    for (uint32_t i = t; i < d; i += ROPE_WIDTH) {
        tile[(size_t)i * KRN_TILE + j] = k[i];
        tile[(size_t)(KRN_TILE + j) * d + i] = v[i];
    }
}

KRN_CUDA_KERNEL(krn_cuda_rope, ROPE_THREADS)(const __grid_constant__ struct krn_cuda_rope a) {
    __shared__ struct rope_shared s;
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    uint32_t row = blockIdx.x, d = a.kv.head_dim, half = d / 2;
    uint32_t h = threadIdx.x / ROPE_WIDTH, t = threadIdx.x % ROPE_WIDTH;
    uint32_t head = blockIdx.y * ROPE_HEADS + h;
    bool query = head < a.heads, there = head < a.heads + a.kv.kv_heads, counts;
    struct rope_plan p = {0};
    krn_cuda_next();
    counts = row < step->n_rows;
    if (counts && there)
        rope_begin(&p, &a, step, row, !query, t);
    krn_cuda_before();
    if (!counts)
        return;
    head = query ? head : head - a.heads;
    float *at = query ? KRN_CUDA_AT(float, a.q) + (size_t)row * a.ldq + (size_t)head * d
                      : KRN_CUDA_AT(float, a.k) + (size_t)row * a.ldk + (size_t)head * d;
    for (uint32_t i = t; i < d && there; i += ROPE_WIDTH)
        s.x[h][i] = at[i];
    __syncthreads();
    if (a.q_norm != 0 || a.k_norm != 0)
        head_norm(&s, h, t, KRN_CUDA_AT(const float, query ? a.q_norm : a.k_norm), d, a.eps);
    UNROLL for (uint32_t j = 0; j < ROPE_PAIRS; j++) {
        uint32_t i = t + j * ROPE_WIDTH;
        if (i >= half || a.angles == 0 || !there)
            continue;
        float x0 = s.x[h][i], x1 = s.x[h][half + i];
        s.x[h][i] = fmaf(x0, p.cosine[j], -(x1 * p.sine[j]));
        s.x[h][half + i] = fmaf(x1, p.cosine[j], x0 * p.sine[j]);
    }
    __syncthreads();
    if (!there)
        return;
    if (!query)
        kv_write(&a, &p, row, head, t, s.x[h]);
    for (uint32_t i = t; i < d && query; i += ROPE_WIDTH)
        at[i] = s.x[h][i];
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
