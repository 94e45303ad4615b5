/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 13. What a row gets depends on its own logits and its experts' weights; tiles, slots
 * and the order of atomic counts are free.
 */
#include "kernels/cuda/experts.h"

#include "kernels/cuda/bf16_tile.h"
#include "kernels/cuda/chain.h"

enum { EXPERTS_THREADS = 128, EXPERTS_OUTPUTS = 64, EXPERTS_WARPS = 4, MIX_THREADS = 256 };

/* 13.2: an expert is chosen when fewer than `used` stand before it. */
KRN_CUDA_KERNEL(krn_cuda_route, EXPERTS_THREADS)(const __grid_constant__ struct krn_cuda_route a) {
    __shared__ float z[KRN_EXPERTS_MAX], e[KRN_EXPERTS_MAX], lanes[KRN_LANES], top;
    __shared__ uint32_t taken[KRN_EXPERTS_MAX], bad;
    uint32_t row = blockIdx.x, t = threadIdx.x;
    if (row >= KRN_CUDA_STEP(a)->n_rows)
        return;
    const float *from = KRN_CUDA_AT(const float, a.logits) + (size_t)row * a.ld;
    uint32_t *chosen = KRN_CUDA_AT(uint32_t, a.chosen) + (size_t)row * a.used;
    float *weight = KRN_CUDA_AT(float, a.weight) + (size_t)row * a.used;
    if (t == 0)
        bad = 0;
    __syncthreads();
    for (uint32_t i = t; i < a.n; i += EXPERTS_THREADS) {
        z[i] = from[i];
        if (!(z[i] - z[i] == 0.0f))
            atomicOr(&bad, 1u);
    }
    __syncthreads();
    for (uint32_t i = t; i < a.n; i += EXPERTS_THREADS) {
        uint32_t before = 0;
        for (uint32_t j = 0; j < a.n; j++)
            before += (z[j] > z[i] || (z[j] == z[i] && j < i)) ? 1u : 0u;
        taken[i] = before < a.used ? 1u : 0u;
        if (before == 0)
            top = z[i];
    }
    __syncthreads();
    for (uint32_t i = t; i < a.n; i += EXPERTS_THREADS)
        e[i] = krn_expf(z[i] - top);
    __syncthreads();
    if (t < KRN_LANES) {
        float acc = 0.0f;
        for (uint32_t i = t; i < a.n; i += KRN_LANES)
            acc = acc + e[i];
        lanes[t] = acc;
    }
    __syncthreads();
    if (t != 0)
        return;
    if (bad != 0) { /* the row's own end: everything that it adds is NaN */
        for (uint32_t j = 0; j < a.used; j++) {
            chosen[j] = j;
            weight[j] = krn_float(0x7fc00000u);
        }
        return;
    }
    uint32_t at = 0;
    float sum = 0.0f;
    for (uint32_t i = 0; i < a.n; i++)
        if (taken[i] != 0) {
            chosen[at] = i;
            weight[at] = e[i];
            sum = sum + e[i];
            at++;
        }
    if (a.norm == 0)
        sum = krn_cuda_tree16(lanes);
    for (uint32_t j = 0; j < a.used; j++)
        weight[j] = weight[j] / sum;
}

/* Rows of the chunk that exist. */
CUDA_FN uint32_t experts_live(const struct krn_cuda_step *step, uint32_t first_row, uint32_t rows) {
    uint32_t live = step->n_rows > first_row ? step->n_rows - first_row : 0;
    return live < rows ? live : rows;
}

/* A block an expert: all blocks count all experts, so none waits for another. */
KRN_CUDA_KERNEL(krn_cuda_place, EXPERTS_THREADS)(const __grid_constant__ struct krn_cuda_place a) {
    __shared__ uint32_t count[KRN_EXPERTS_MAX], mine[EXPERTS_THREADS], first_tile;
    uint32_t t = threadIdx.x, expert = blockIdx.x;
    uint32_t slots = experts_live(KRN_CUDA_STEP(a), a.first_row, a.rows) * a.used;
    const uint32_t *chosen = KRN_CUDA_AT(const uint32_t, a.chosen) + (size_t)a.first_row * a.used;
    uint32_t each = (slots + EXPERTS_THREADS - 1) / EXPERTS_THREADS;
    uint32_t from = t * each < slots ? t * each : slots;
    uint32_t to = from + each < slots ? from + each : slots;
    for (uint32_t i = t; i < a.n; i += EXPERTS_THREADS)
        count[i] = 0;
    __syncthreads();
    uint32_t own = 0;
    for (uint32_t i = from; i < to; i++) {
        atomicAdd(&count[chosen[i]], 1u);
        own += chosen[i] == expert ? 1u : 0u;
    }
    mine[t] = own;
    __syncthreads();
    if (t == 0) {
        uint32_t at = 0, tile = 0;
        for (uint32_t i = 0; i < expert; i++) {
            at += count[i];
            tile += (count[i] + a.tile - 1) / a.tile;
        }
        first_tile = tile;
        for (uint32_t i = 0; i < EXPERTS_THREADS; i++) {
            uint32_t n = mine[i];
            mine[i] = at;
            at += n;
        }
    }
    __syncthreads();
    uint32_t base = mine[0], n = count[expert], n_tiles = (n + a.tile - 1) / a.tile;
    uint32_t at = mine[t];
    for (uint32_t i = from; i < to; i++)
        if (chosen[i] == expert) {
            KRN_CUDA_AT(uint32_t, a.slot_row)[at] = a.first_row + i / a.used;
            KRN_CUDA_AT(uint32_t, a.slot_of)[i] = at;
            at++;
        }
    struct krn_cuda_tile *tiles = KRN_CUDA_AT(struct krn_cuda_tile, a.tiles) + first_tile;
    for (uint32_t i = t; i < n_tiles; i += EXPERTS_THREADS) {
        uint32_t left = n - i * a.tile;
        tiles[i].expert = expert;
        tiles[i].first = base + i * a.tile;
        tiles[i].slots = left < a.tile ? left : a.tile;
    }
    if (t == 0 && expert == a.n - 1)
        *KRN_CUDA_AT(uint32_t, a.n_tiles) = first_tile + n_tiles;
}

CUDA_FN float experts_gate(float g, float u) {
    return (g / (1.0f + krn_expf(-g))) * u;
}

CUDA_FN void experts_body(const struct krn_cuda_experts *a, const int R, const int dtype) {
    if (blockIdx.y >= *KRN_CUDA_AT(const uint32_t, a->n_tiles))
        return;
    const struct krn_cuda_tile *tile =
        KRN_CUDA_AT(const struct krn_cuda_tile, a->tiles) + blockIdx.y;
    uint32_t n = (blockIdx.x * EXPERTS_WARPS + threadIdx.y) * EXPERTS_OUTPUTS + 2 * threadIdx.x;
    uint32_t last = (a->n + KRN_BLOCK - 1) / KRN_BLOCK - 1, segment = blockIdx.z;
    uint32_t block = n / KRN_BLOCK < last ? n / KRN_BLOCK : last; /* past the end: any, not kept */
    size_t at = ((size_t)block * a->k * KRN_BLOCK + n % KRN_BLOCK) * (dtype == KRN_F32 ? 4 : 2) +
                tile->expert * a->w_stride;
    const uint32_t *slot_row = KRN_CUDA_AT(const uint32_t, a->slot_row);
    const float *x[KRN_EXPERTS_TILE];
    float acc0[KRN_EXPERTS_TILE], acc1[KRN_EXPERTS_TILE];
    float up0[KRN_EXPERTS_TILE], up1[KRN_EXPERTS_TILE];
    UNROLL for (int r = 0; r < R; r++) {
        uint32_t slot = tile->first + ((uint32_t)r < tile->slots ? (uint32_t)r : tile->slots - 1);
        x[r] = KRN_CUDA_AT(const float, a->x) +
               (size_t)(a->slot_row != 0 ? slot_row[slot] : slot) * a->ldx;
        acc0[r] = acc1[r] = up0[r] = up1[r] = 0.0f;
    }
    uint32_t len = a->k / a->segments;
    int four = (a->ldx % 4 == 0 && len % 4 == 0 && a->x % 16 == 0);
    krn_cuda_chain(R, dtype, x, KRN_CUDA_AT(const unsigned char, a->w) + at, segment * len,
                   (segment + 1) * len, four, acc0, acc1);
    if (a->w2 != 0)
        krn_cuda_chain(R, dtype, x, KRN_CUDA_AT(const unsigned char, a->w2) + at, 0, len, four, up0,
                       up1);
    UNROLL for (int r = 0; r < R; r++) {
        if ((uint32_t)r >= tile->slots)
            continue;
        float *y = KRN_CUDA_AT(float, a->y) +
                   ((size_t)(tile->first + (uint32_t)r) * a->segments + segment) * a->ldy;
        if (n < a->n)
            y[n] = a->w2 != 0 ? experts_gate(acc0[r], up0[r]) : acc0[r];
        if (n + 1 < a->n)
            y[n + 1] = a->w2 != 0 ? experts_gate(acc1[r], up1[r]) : acc1[r];
    }
}

#define EXPERTS(name, dtype, R)                                                                    \
    KRN_CUDA_KERNEL(name, 128)(const __grid_constant__ struct krn_cuda_experts a) {                \
        experts_body(&a, R, dtype);                                                                \
    }
EXPERTS(krn_cuda_experts_f32_1, KRN_F32, 1)
EXPERTS(krn_cuda_experts_f32_2, KRN_F32, 2)
EXPERTS(krn_cuda_experts_f32_4, KRN_F32, 4)
EXPERTS(krn_cuda_experts_f32_8, KRN_F32, 8)
EXPERTS(krn_cuda_experts_f32_16, KRN_F32, 16)
EXPERTS(krn_cuda_experts_f16_1, KRN_F16, 1)
EXPERTS(krn_cuda_experts_f16_2, KRN_F16, 2)
EXPERTS(krn_cuda_experts_f16_4, KRN_F16, 4)
EXPERTS(krn_cuda_experts_f16_8, KRN_F16, 8)
EXPERTS(krn_cuda_experts_f16_16, KRN_F16, 16)
EXPERTS(krn_cuda_experts_bf16_1, KRN_BF16, 1)
EXPERTS(krn_cuda_experts_bf16_2, KRN_BF16, 2)
EXPERTS(krn_cuda_experts_bf16_4, KRN_BF16, 4)
EXPERTS(krn_cuda_experts_bf16_8, KRN_BF16, 8)
EXPERTS(krn_cuda_experts_bf16_16, KRN_BF16, 16)

/* One block of 64 columns of a tile: a thread an element after the other. */
KRN_CUDA_KERNEL(krn_cuda_experts_rows, EXPERTS_THREADS)
(const __grid_constant__ struct krn_cuda_experts_rows a) {
    if (blockIdx.y >= *KRN_CUDA_AT(const uint32_t, a.n_tiles))
        return;
    const struct krn_cuda_tile *tile =
        KRN_CUDA_AT(const struct krn_cuda_tile, a.tiles) + blockIdx.y;
    const uint32_t *slot_row = KRN_CUDA_AT(const uint32_t, a.slot_row);
    uint32_t part = a.k / a.segments, blocks = krn_bf16_blocks(a.k, a.segments);
    uint32_t a_segment = blocks / a.segments, segment = blockIdx.x / a_segment;
    uint32_t in = blockIdx.x % a_segment * KRN_BF16_SIDE, column = segment * part + in;
    unsigned char *out = KRN_CUDA_AT(unsigned char, a.out) +
                         ((size_t)blockIdx.y * blocks + blockIdx.x) * KRN_BF16_TILE_BYTES;
    for (uint32_t i = threadIdx.x; i < tile->slots * KRN_BF16_SIDE; i += EXPERTS_THREADS) {
        uint32_t r = i / KRN_BF16_SIDE, c = i % KRN_BF16_SIDE, slot = tile->first + r;
        size_t at = (size_t)(a.slot_row != 0 ? slot_row[slot] : slot) * a.ldx + column + c;
        float v = 0.0f; /* what fills the segment */
        if (in + c < part) {
            v = KRN_CUDA_AT(const float, a.x)[at];
            if (a.up != 0)
                v = experts_gate(v, KRN_CUDA_AT(const float, a.up)[at]);
        }
        *(uint16_t *)(void *)(out + krn_bf16_at(r, c)) = krn_cuda_bf16(v);
    }
}

/* 13.4: experts inside a segment, then the tree. */
KRN_CUDA_KERNEL(krn_cuda_mix, MIX_THREADS)(const __grid_constant__ struct krn_cuda_mix a) {
    uint32_t row = blockIdx.x;
    if (row >= experts_live(KRN_CUDA_STEP(a), a.first_row, a.rows))
        return;
    const uint32_t *slot = KRN_CUDA_AT(const uint32_t, a.slot_of) + (size_t)row * a.used;
    const float *weight = KRN_CUDA_AT(const float, a.weight) + (size_t)(a.first_row + row) * a.used;
    const float *one = KRN_CUDA_AT(const float, a.one);
    float *y = KRN_CUDA_AT(float, a.y) + (size_t)(a.first_row + row) * a.ldy;
    uint32_t stride = gridDim.y * MIX_THREADS;
    for (uint32_t n = blockIdx.y * MIX_THREADS + threadIdx.x; n < a.n; n += stride) {
        float part[KRN_V_MAX];
        for (uint32_t s = 0; s < a.segments; s++) {
            float acc = 0.0f;
            for (uint32_t j = 0; j < a.used; j++)
                acc = fmaf(weight[j], one[((size_t)slot[j] * a.segments + s) * a.ld_one + n], acc);
            part[s] = acc;
        }
        for (uint32_t left = a.segments; left > 1; left /= 2)
            for (uint32_t s = 0; s < left / 2; s++)
                part[s] = part[2 * s] + part[2 * s + 1];
        y[n] = a.add != 0 ? y[n] + part[0] : part[0];
    }
}
