/* SPDX-License-Identifier: Apache-2.0
 * The oracle of cuda-bf16 (numerics.md 16): rows are M, outputs are N, operands come element by
 * element from device memory.
 */
#include "kernels/cuda/oracle_bf16.h"
#include "kernels/cuda/tensor.cuh"

enum { ORACLE_V_MAX = 8, ORACLE_TILE = 64, ORACLE_HEAD_MAX = 256 };

/* Elements i and i + 1 of a row, the first in the low half. */
static __device__ uint32_t oracle_pair(const float *x) {
    return tensor_bf16(x[0]) | tensor_bf16(x[1]) << 16;
}

KRN_CUDA_KERNEL(krn_oracle_product, 32)(const __grid_constant__ struct krn_cuda_oracle_product a) {
    uint32_t lane = threadIdx.x, q = lane % 4 * 2, row = blockIdx.y * 16 + lane / 4;
    uint32_t n = blockIdx.x * 8 + lane / 4, len = a.k / a.segments;
    const float *x[2];
    for (uint32_t i = 0; i < 2; i++) /* rows and outputs that are not there are the last one's */
        x[i] = KRN_CUDA_AT(const float, a.x) + (size_t)min(row + 8 * i, a.rows - 1) * a.k;
    const uint16_t *w = KRN_CUDA_AT(const uint16_t, a.w) + (size_t)min(n, a.n - 1) * a.k;
    float sum[ORACLE_V_MAX][4];
    for (uint32_t s = 0; s < a.segments; s++) {
        float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (uint32_t k = s * len + q; k < (s + 1) * len; k += 16) {
            uint32_t m[4] = {oracle_pair(x[0] + k), oracle_pair(x[1] + k),
                             oracle_pair(x[0] + k + 8), oracle_pair(x[1] + k + 8)};
            uint32_t b[2] = {w[k] | (uint32_t)w[k + 1] << 16, w[k + 8] | (uint32_t)w[k + 9] << 16};
            tensor_step(c, m, b);
        }
        for (uint32_t i = 0; i < 4; i++)
            sum[s][i] = c[i];
    }
    for (uint32_t left = a.segments; left > 1; left /= 2)
        for (uint32_t s = 0; s < left / 2; s++)
            for (uint32_t i = 0; i < 4; i++)
                sum[s][i] = __fadd_rn(sum[2 * s][i], sum[2 * s + 1][i]);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t r = row + i / 2 * 8, o = blockIdx.x * 8 + q + i % 2;
        if (r < a.rows && o < a.n)
            KRN_CUDA_AT(float, a.y)[(size_t)r * a.n + o] = sum[0][i];
    }
}

/* One row of m (as row 0) against eight rows of b. */
static __device__ float oracle_dot8(float c[4], const uint32_t m0, const uint32_t m1,
                                    const uint32_t b0, const uint32_t b1) {
    uint32_t m[4] = {m0, 0, m1, 0}, b[2] = {b0, b1};
    tensor_step(c, m, b);
    return c[0];
}

struct oracle_line {
    float max, sum;
};

/* The score of every key of a tile into s; the keys from `keys` on are read as the last one's. */
static __device__ void oracle_scores(const struct krn_cuda_oracle_attend &a, const float *q,
                                     uint32_t j0, uint32_t keys, uint32_t head, float *s) {
    uint32_t lane = threadIdx.x, t = lane % 4 * 2, stride = a.kv_heads * a.head_dim;
    for (uint32_t j8 = 0; j8 < ORACLE_TILE; j8 += 8) {
        uint32_t j = min(j0 + j8 + lane / 4, keys - 1);
        const uint16_t *k =
            KRN_CUDA_AT(const uint16_t, a.k) + (size_t)j * stride + head * a.head_dim + t;
        float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (uint32_t d = 0; d < a.head_dim; d += 16)
            oracle_dot8(c, lane < 4 ? oracle_pair(q + d + t) : 0,
                        lane < 4 ? oracle_pair(q + d + t + 8) : 0, k[d] | (uint32_t)k[d + 1] << 16,
                        k[d + 8] | (uint32_t)k[d + 9] << 16);
        if (lane < 4) {
            s[j8 + t] = c[0];
            s[j8 + t + 1] = c[1];
        }
    }
    __syncwarp();
}

/* o = step16(o; p, v) over the tile, masked values taken as +0. */
static __device__ void oracle_values(const struct krn_cuda_oracle_attend &a, const float *p,
                                     uint32_t j0, uint32_t lo, uint32_t hi, uint32_t head,
                                     float *o) {
    uint32_t lane = threadIdx.x, t = lane % 4 * 2, stride = a.kv_heads * a.head_dim;
    const uint16_t *v = KRN_CUDA_AT(const uint16_t, a.v) + head * a.head_dim;
    for (uint32_t d = 0; d < a.head_dim; d += 8) {
        float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (lane < 4) {
            c[0] = o[d + t];
            c[1] = o[d + t + 1];
        }
        for (uint32_t k = 0; k < ORACLE_TILE; k += 16) {
            uint32_t e[4];
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t j = j0 + k + t + i % 2 + i / 2 * 8;
                e[i] = j >= lo && j < hi ? v[(size_t)j * stride + d + lane / 4] : 0;
            }
            oracle_dot8(c, lane < 4 ? oracle_pair(p + k + t) : 0,
                        lane < 4 ? oracle_pair(p + k + t + 8) : 0, e[0] | e[1] << 16,
                        e[2] | e[3] << 16);
        }
        if (lane < 4) {
            o[d + t] = c[0];
            o[d + t + 1] = c[1];
        }
    }
    __syncwarp();
}

/* Lane 0: the tile's probabilities in place of its scores; returns alpha. */
static __device__ float oracle_softmax(float *s, uint32_t j0, uint32_t lo, uint32_t hi, float c2,
                                       float *max, float sum[4]) {
    float m = *max;
    for (uint32_t i = 0; i < ORACLE_TILE; i++)
        if (j0 + i >= lo && j0 + i < hi)
            m = fmaxf(m, s[i]);
    float b = __fmul_rn(m, c2), alpha = tensor_exp2(__fsub_rn(__fmul_rn(*max, c2), b));
    for (uint32_t i = 0; i < ORACLE_TILE; i++)
        s[i] = j0 + i >= lo && j0 + i < hi ? tensor_exp2(__fmaf_rn(s[i], c2, -b)) : 0.0f;
    for (uint32_t t = 0; t < 4; t++) {
        sum[t] = __fmul_rn(sum[t], alpha);
        for (uint32_t i = 0; i < ORACLE_TILE; i++)
            if (i % 8 / 2 == t)
                sum[t] = __fadd_rn(sum[t], s[i]);
    }
    *max = m;
    return alpha;
}

KRN_CUDA_KERNEL(krn_oracle_attend, 32)(const __grid_constant__ struct krn_cuda_oracle_attend a) {
    __shared__ float s[ORACLE_TILE], o[ORACLE_HEAD_MAX], out[ORACLE_HEAD_MAX], alpha, beta;
    uint32_t lane = threadIdx.x, pos = a.first_pos + blockIdx.y, hi = pos + 1;
    uint32_t lo = a.window != 0 && hi > a.window ? hi - a.window : 0;
    uint32_t head = blockIdx.x / (a.heads / a.kv_heads);
    size_t at = ((size_t)blockIdx.y * a.heads + blockIdx.x) * a.head_dim;
    const float *q = KRN_CUDA_AT(const float, a.q) + at;
    float c2 = __fmul_rn(a.scale, KRN_LOG2E), all_max = -INFINITY, all_sum = 0.0f;
    bool first = true;
    for (uint32_t s0 = lo / a.segment * a.segment; s0 < hi; s0 += a.segment) {
        float max = -INFINITY, sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (uint32_t d = lane; d < a.head_dim; d += 32)
            o[d] = 0.0f;
        for (uint32_t j0 = s0; j0 < s0 + a.segment && j0 < hi; j0 += ORACLE_TILE) {
            if (j0 + ORACLE_TILE <= lo)
                continue;
            oracle_scores(a, q, j0, hi, head, s);
            if (lane == 0)
                alpha = oracle_softmax(s, j0, lo, hi, c2, &max, sum);
            __syncwarp();
            for (uint32_t d = lane; d < a.head_dim; d += 32)
                o[d] = __fmul_rn(o[d], alpha);
            __syncwarp();
            oracle_values(a, s, j0, lo, hi, head, o);
        }
        if (lane == 0) {
            float l = __fadd_rn(__fadd_rn(sum[0], sum[1]), __fadd_rn(sum[2], sum[3]));
            float m = first ? max : fmaxf(all_max, max), b = __fmul_rn(m, c2);
            alpha = tensor_exp2(__fsub_rn(__fmul_rn(all_max, c2), b));
            beta = tensor_exp2(__fsub_rn(__fmul_rn(max, c2), b));
            all_sum = first ? l : __fmaf_rn(l, beta, __fmul_rn(all_sum, alpha));
            all_max = m;
        }
        __syncwarp();
        for (uint32_t d = lane; d < a.head_dim; d += 32)
            out[d] = first ? o[d] : __fmaf_rn(o[d], beta, __fmul_rn(out[d], alpha));
        __syncwarp();
        first = false;
    }
    if (lane == 0)
        alpha = all_sum;
    __syncwarp();
    for (uint32_t d = lane; d < a.head_dim; d += 32)
        KRN_CUDA_AT(float, a.out)[at + d] = __fdiv_rn(out[d], alpha);
}
