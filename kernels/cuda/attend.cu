/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 6. A block holds one row and up to eight query heads of one KV head ("lines"), which
 * read each tile of keys and values together; sixteen threads a line are its sixteen lanes. All
 * lines of a block see the same keys.
 */
#include "kernels/cuda/attend.h"

#include "kernels/cuda/device.h"

enum { ATTEND_THREADS = 128, ATTEND_LINES = 8 };

struct attend_lines {
    float q[ATTEND_LINES][KRN_HEAD_MAX];
    float o[ATTEND_LINES][KRN_HEAD_MAX];   /* of the current segment */
    float out[ATTEND_LINES][KRN_HEAD_MAX]; /* merged segments */
    float p[ATTEND_LINES][KRN_TILE];       /* scores, then probabilities */
    float lanes[ATTEND_LINES][KRN_LANES];  /* maxima, then sums */
    float max[ATTEND_LINES], sum[ATTEND_LINES], alpha[ATTEND_LINES];
    float out_max[ATTEND_LINES], out_sum[ATTEND_LINES];
    float a[ATTEND_LINES], b[ATTEND_LINES]; /* of a merge */
};

/* Scores of visible keys [j0, j1) of the tile; the others are selected away. */
CUDA_FN void attend_scores(struct attend_lines *t, uint32_t lines, const float *k, uint32_t d,
                           uint32_t j0, uint32_t j1, float scale) {
    for (uint32_t i = threadIdx.x; i < lines * KRN_TILE; i += ATTEND_THREADS) {
        uint32_t line = i / KRN_TILE, j = i % KRN_TILE;
        float s = krn_float(0xff800000u);
        if (j >= j0 && j < j1) {
            float acc = 0.0f;
            for (uint32_t c = 0; c < d; c++)
                acc = fmaf(t->q[line][c], k[(size_t)c * KRN_TILE + j], acc);
            s = acc * scale;
        }
        t->p[line][j] = s;
    }
}

/* Scores become probabilities against the running maximum; leaves alpha and the new sum. */
CUDA_FN void attend_softmax(struct attend_lines *t, uint32_t lines, uint32_t j0, uint32_t j1) {
    uint32_t line = threadIdx.x / KRN_LANES, lane = threadIdx.x % KRN_LANES;
    float *p = t->p[line], max = krn_float(0xff800000u), sum = 0.0f;
    if (line < lines) {
        for (uint32_t j = lane; j < KRN_TILE; j += KRN_LANES)
            max = p[j] > max ? p[j] : max;
        t->lanes[line][lane] = max;
    }
    __syncthreads();
    if (line < lines) {
        max = t->max[line];
        for (uint32_t l = 0; l < KRN_LANES; l++)
            max = t->lanes[line][l] > max ? t->lanes[line][l] : max;
        for (uint32_t j = lane; j < KRN_TILE; j += KRN_LANES) {
            float e = j >= j0 && j < j1 ? krn_expf(p[j] - max) : 0.0f;
            p[j] = e;
            sum = sum + e;
        }
    }
    __syncthreads(); /* every lane has read the maxima */
    if (line < lines)
        t->lanes[line][lane] = sum;
    __syncthreads();
    if (line < lines && lane == 0) {
        float alpha = krn_expf(t->max[line] - max);
        t->alpha[line] = alpha;
        t->sum[line] = fmaf(t->sum[line], alpha, krn_cuda_tree16(t->lanes[line]));
        t->max[line] = max;
    }
    __syncthreads();
}

CUDA_FN void attend_values(struct attend_lines *t, uint32_t lines, const float *v, uint32_t d,
                           uint32_t j0, uint32_t j1) {
    for (uint32_t i = threadIdx.x; i < lines * d; i += ATTEND_THREADS) {
        uint32_t line = i / d, c = i % d;
        float o = t->o[line][c] * t->alpha[line];
        for (uint32_t j = j0; j < j1; j++)
            o = fmaf(t->p[line][j], v[(size_t)j * d + c], o);
        t->o[line][c] = o;
    }
}

CUDA_FN void attend_segment_begin(struct attend_lines *t, uint32_t lines, uint32_t d) {
    for (uint32_t i = threadIdx.x; i < lines * d; i += ATTEND_THREADS)
        t->o[i / d][i % d] = 0.0f;
    if (threadIdx.x < lines) {
        t->max[threadIdx.x] = krn_float(0xff800000u);
        t->sum[threadIdx.x] = 0.0f;
    }
    __syncthreads();
}

/* Merges the segment into what earlier ones left. */
CUDA_FN void attend_segment_end(struct attend_lines *t, uint32_t lines, uint32_t d, bool first) {
    uint32_t line = threadIdx.x;
    if (line < lines) {
        float max = t->max[line];
        if (first) {
            t->out_sum[line] = t->sum[line];
        } else {
            max = max > t->out_max[line] ? max : t->out_max[line];
            float a = krn_expf(t->out_max[line] - max), b = krn_expf(t->max[line] - max);
            t->out_sum[line] = fmaf(t->sum[line], b, t->out_sum[line] * a);
            t->a[line] = a;
            t->b[line] = b;
        }
        t->out_max[line] = max;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < lines * d; i += ATTEND_THREADS) {
        uint32_t l = i / d, c = i % d;
        float o = t->o[l][c];
        t->out[l][c] = first ? o : fmaf(o, t->b[l], t->out[l][c] * t->a[l]);
    }
    __syncthreads();
}

KRN_CUDA_KERNEL(krn_cuda_attend, ATTEND_THREADS)(const __grid_constant__ struct krn_cuda_attend a) {
    __shared__ struct attend_lines t;
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    uint32_t row = blockIdx.x, head = blockIdx.y, d = a.kv.head_dim;
    if (row >= step->n_rows)
        return;
    const struct krn_cuda_row *r = KRN_CUDA_OF(struct krn_cuda_row, step, off_rows) + row;
    const uint32_t *pages = KRN_CUDA_OF(uint32_t, step, off_pages) + r->first_page;
    uint32_t group = a.heads / a.kv.kv_heads, line0 = blockIdx.z * ATTEND_LINES;
    uint32_t lines = group - line0 < ATTEND_LINES ? group - line0 : ATTEND_LINES;
    size_t at = (size_t)(head * group + line0) * d;
    const float *q = KRN_CUDA_AT(const float, a.q) + (size_t)row * a.ldq + at;
    for (uint32_t i = threadIdx.x; i < lines * d; i += ATTEND_THREADS)
        t.q[i / d][i % d] = q[i];
    uint32_t hi = r->pos + 1, lo = a.window != 0 && hi > a.window ? hi - a.window : 0;
    uint32_t tile0 = lo / KRN_TILE, tile1 = (hi - 1) / KRN_TILE + 1;
    uint32_t tiles = a.kv.page_tokens / KRN_TILE;
    bool first = true;
    for (uint32_t n = tile0; n < tile1; n++) {
        uint32_t base = n * KRN_TILE;
        if (n == tile0 || base % a.segment == 0)
            attend_segment_begin(&t, lines, d);
        const float *k =
            krn_cuda_kv_tile(KRN_CUDA_AT(unsigned char, a.kv.pool), a.kv.page_bytes, a.kv.layer_off,
                             a.kv.page_tokens, d, head, pages[n / tiles], n % tiles);
        uint32_t j0 = lo > base ? lo - base : 0, j1 = hi - base < KRN_TILE ? hi - base : KRN_TILE;
        attend_scores(&t, lines, k, d, j0, j1, a.scale);
        __syncthreads();
        attend_softmax(&t, lines, j0, j1);
        attend_values(&t, lines, k + (size_t)d * KRN_TILE, d, j0, j1);
        __syncthreads();
        if (n + 1 == tile1 || (base + KRN_TILE) % a.segment == 0) {
            attend_segment_end(&t, lines, d, first);
            first = false;
        }
    }
    float *out = KRN_CUDA_AT(float, a.out) + (size_t)row * a.ldo + at;
    for (uint32_t i = threadIdx.x; i < lines * d; i += ATTEND_THREADS)
        out[i] = t.out[i / d][i % d] / t.out_sum[i / d];
}
