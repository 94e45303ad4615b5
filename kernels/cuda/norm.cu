/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 2, and 16.1 where a product's rows are asked for. Sixteen threads hold the sixteen
 * lanes; all others only carry what they read.
 */
#include "kernels/cuda/norm.h"

#include "kernels/cuda/device.h"

enum {
    NORM_THREADS = 512,
    NORM_EACH = 8, /* floats of a thread in a chunk */
    NORM_CHUNK = NORM_THREADS * NORM_EACH,
    NORM_AHEAD = 16 /* of a lane, read before they are added */
};

/* v[j] = from[j * NORM_THREADS + thread], all reads under way at one time; n floats are there. */
CUDA_FN void norm_read(const float *from, uint32_t n, float *v) {
    UNROLL for (uint32_t j = 0; j < NORM_EACH; j++) {
        uint32_t i = j * NORM_THREADS + threadIdx.x;
        v[j] = i < n ? from[i] : 0.0f;
    }
}

CUDA_FN void norm_put(const float *v, float *chunk) {
    UNROLL for (uint32_t j = 0; j < NORM_EACH; j++) chunk[j * NORM_THREADS + threadIdx.x] = v[j];
}

CUDA_FN void norm_carry(const float *x, uint32_t n, float *chunk) {
    float v[NORM_EACH];
    norm_read(x, n, v);
    norm_put(v, chunk);
}

CUDA_FN void norm_ahead(const float *chunk, uint32_t i, float *v) {
    UNROLL for (uint32_t j = 0; j < NORM_AHEAD; j++) v[j] = chunk[i + j * KRN_LANES];
}

/* A lane's squares of a chunk, ascending; chunks are whole numbers of lanes. Values are read while
 * those before them are added: one warp alone waits for every read otherwise. */
CUDA_FN float norm_lane(const float *chunk, uint32_t n, float acc) {
    const uint32_t step = NORM_AHEAD * KRN_LANES;
    uint32_t i = threadIdx.x, whole = n / step * step;
    float v[NORM_AHEAD], next[NORM_AHEAD];
    norm_ahead(chunk, i, v);
    for (; i < whole; i += step) {
        norm_ahead(chunk, i + step < whole ? i + step : i, next);
        UNROLL for (uint32_t j = 0; j < NORM_AHEAD; j++) acc = fmaf(v[j], v[j], acc);
        UNROLL for (uint32_t j = 0; j < NORM_AHEAD; j++) v[j] = next[j];
    }
    for (; i < n; i += KRN_LANES)
        acc = fmaf(chunk[i], chunk[i], acc);
    return acc;
}

/* 1 / sqrt(mean of squares + eps) of x[0..n), by all threads of the block; its first chunk is in
 * shared memory and stays there where it is the only one. */
CUDA_FN float norm_factor(const float *x, uint32_t n, float eps, float *chunk, float *lanes,
                          float *factor) {
    float acc = 0.0f;
    for (uint32_t from = 0; from < n; from += NORM_CHUNK) {
        uint32_t len = n - from < NORM_CHUNK ? n - from : NORM_CHUNK;
        if (from > 0) {
            __syncthreads();
            norm_carry(x + from, len, chunk);
        }
        __syncthreads();
        if (threadIdx.x < KRN_LANES)
            acc = norm_lane(chunk, len, acc);
    }
    if (threadIdx.x < KRN_LANES)
        lanes[threadIdx.x] = acc;
    __syncthreads();
    if (threadIdx.x == 0)
        *factor = 1.0f / sqrtf(krn_cuda_tree16(lanes) / (float)n + eps);
    __syncthreads();
    return *factor;
}

CUDA_FN void norm_write(const struct krn_cuda_norm *a, uint32_t row, uint32_t i, float v) {
    if (a->packed != 0) { /* one segment: its place without a division */
        uint64_t tile =
            (uint64_t)(row / KRN_BF16_SIDE) * krn_bf16_blocks(a->n, 1) + i / KRN_BF16_SIDE;
        unsigned char *to = KRN_CUDA_AT(unsigned char, a->packed) + tile * KRN_BF16_TILE_BYTES;
        *(uint16_t *)(void *)(to + krn_bf16_at(row % KRN_BF16_SIDE, i % KRN_BF16_SIDE)) =
            krn_cuda_bf16(v);
    }
    if (a->y != 0) {
        float *y = KRN_CUDA_AT(float, a->y) + (size_t)row * a->ldy + i;
        *y = a->add != 0 ? *y + v : v;
    }
}

/* The row that row i of the result is of. */
CUDA_FN const float *norm_row(const struct krn_cuda_norm *a, const struct krn_cuda_step *step,
                              uint32_t row) {
    if (a->drawn != 0)
        row = KRN_CUDA_OF(struct krn_cuda_drawing, step, off_draws)[row].row;
    return KRN_CUDA_AT(const float, a->x) + (size_t)row * a->ldx;
}

/* A block takes rows in strides; the next one is on its way while this one's lanes add. */
KRN_CUDA_KERNEL(krn_cuda_norm, NORM_THREADS)(const __grid_constant__ struct krn_cuda_norm a) {
    __shared__ float chunk[NORM_CHUNK], lanes[KRN_LANES], factor;
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    const float *w = KRN_CUDA_AT(const float, a.w);
    float weight[NORM_EACH], ahead[NORM_EACH];
    norm_read(w, a.n, weight); /* no step writes them, nor what its plan says */
    krn_cuda_next();
    uint32_t rows = a.drawn != 0 ? step->n_draws : step->n_rows;
    const float *first = blockIdx.x < rows ? norm_row(&a, step, blockIdx.x) : NULL;
    krn_cuda_before();
    if (blockIdx.x < rows)
        norm_read(first, a.n, ahead);
    for (uint32_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const float *x = norm_row(&a, step, row);
        norm_put(ahead, chunk);
        if (row + gridDim.x < rows)
            norm_read(norm_row(&a, step, row + gridDim.x), a.n, ahead);
        float r = norm_factor(x, a.n, a.eps, chunk, lanes, &factor);
        for (uint32_t at = 0; at < a.n; at += NORM_CHUNK) {
            uint32_t len = a.n - at < NORM_CHUNK ? a.n - at : NORM_CHUNK;
            if (a.n > NORM_CHUNK) { /* each thread reads back what it carries itself */
                norm_carry(x + at, len, chunk);
                norm_read(w + at, len, weight);
            }
            UNROLL for (uint32_t j = 0; j < NORM_EACH; j++) {
                uint32_t i = j * NORM_THREADS + threadIdx.x;
                if (i < len)
                    norm_write(&a, row, at + i, (chunk[i] * r) * weight[j]);
            }
        }
    }
}
