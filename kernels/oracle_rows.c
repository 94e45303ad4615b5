/* SPDX-License-Identifier: Apache-2.0
 * Straight loops for every rule of numerics.md.
 */
#include "kernels/oracle_rows.h"

#include <math.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/approx.h"

static inline float element(const struct krn_tensor *w, uint64_t i) {
    if (w->dtype == KRN_F32)
        return ((const float *)w->data)[i];
    if (w->dtype >= KRN_DTYPES)
        return krn_oracle_blocked(w->dtype, w->data, i);
    uint16_t h = ((const uint16_t *)w->data)[i];
    return w->dtype == KRN_BF16 ? krn_widen_bf16(h) : krn_widen_f16(h);
}

float krn_oracle_element(const struct krn_tensor *w, uint64_t i) {
    return element(w, i);
}

void krn_oracle_embed(const struct krn_tensor *w, uint32_t row, float *y) {
    for (uint64_t i = 0; i < w->dims[1]; i++)
        y[i] = element(w, row * w->dims[1] + i);
}

/* Adds sixteen lanes by halves: 8, 4, 2, 1. */
static float tree16(const float *lane) {
    float t[16];
    memcpy(t, lane, sizeof t);
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            t[i] = t[i] + t[i + half];
    return t[0];
}

static void norm(const float *x, const struct krn_tensor *w, bool more, float *y, uint32_t n,
                 float eps) {
    float lane[16] = {0};
    for (uint32_t i = 0; i < n; i++)
        lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    float mean = tree16(lane) / (float)n;
    float r = 1.0f / sqrtf(mean + eps);
    for (uint32_t i = 0; i < n; i++)
        y[i] = (x[i] * r) * (more ? 1.0f + element(w, i) : element(w, i));
}

void krn_oracle_norm(const float *x, const struct krn_tensor *w, float *y, uint32_t n, float eps) {
    norm(x, w, false, y, n, eps);
}

void krn_oracle_norm_more(const float *x, const struct krn_tensor *w, float *y, uint32_t n,
                          float eps) {
    norm(x, w, true, y, n, eps);
}

/* fmaf is one instruction where the CPU has it and a library call elsewhere; the same bits, since
 * both round once. A function written with ALIKE is compiled in both ways. */
#define ALIKE static inline __attribute__((always_inline))

enum { SIDE = 8, CHUNK = 256 }; /* rows whose chains run side by side, inputs widened at a time */

/* Elements [first, first + n) into a column; plain types without a question an element. */
static inline void widen(const struct krn_tensor *w, uint64_t first, uint32_t n, float (*to)[SIDE],
                         uint32_t r) {
    if (w->dtype == KRN_F32) {
        const float *from = (const float *)w->data + first;
        for (uint32_t i = 0; i < n; i++)
            to[i][r] = from[i];
    } else if (w->dtype == KRN_BF16) {
        const uint16_t *from = (const uint16_t *)w->data + first;
        for (uint32_t i = 0; i < n; i++)
            to[i][r] = krn_widen_bf16(from[i]);
    } else {
        for (uint32_t i = 0; i < n; i++)
            to[i][r] = element(w, first + i);
    }
}

ALIKE void chains(const float *x, float w[CHUNK][SIDE], uint32_t n, float *acc) {
    float a[SIDE];
    memcpy(a, acc, sizeof a);
    for (uint32_t i = 0; i < n; i++)
        for (int r = 0; r < SIDE; r++)
            a[r] = fmaf(x[i], w[i][r], a[r]);
    memcpy(acc, a, sizeof a);
}

/* Rows [row, row + rows) of w over inputs [begin, end): a chain each, from +0. */
ALIKE void segment(const float *x, const struct krn_tensor *w, uint64_t row, uint32_t rows,
                   uint32_t begin, uint32_t end, float *acc) {
    float wide[CHUNK][SIDE];
    memset(acc, 0, SIDE * sizeof *acc);
    if (rows < SIDE)
        memset(wide, 0, sizeof wide);
    for (uint32_t at = begin; at < end; at += CHUNK) {
        uint32_t n = end - at < CHUNK ? end - at : CHUNK;
        for (uint32_t r = 0; r < rows; r++)
            widen(w, (row + r) * w->dims[1] + at, n, wide, r);
        chains(x + at, wide, n, acc);
    }
}

ALIKE void product(const float *x, const struct krn_tensor *w, uint32_t segments,
                   const struct krn_tensor *bias, bool add, float *y) {
    uint32_t len = (uint32_t)w->dims[1] / segments;
    for (uint64_t n = 0; n < w->dims[0]; n += SIDE) {
        uint32_t rows = w->dims[0] - n < SIDE ? (uint32_t)(w->dims[0] - n) : SIDE;
        float part[KRN_V_MAX][SIDE];
        for (uint32_t s = 0; s < segments; s++)
            segment(x, w, n, rows, s * len, (s + 1) * len, part[s]);
        for (uint32_t left = segments; left > 1; left /= 2)
            for (uint32_t s = 0; s < left / 2; s++)
                for (int r = 0; r < SIDE; r++)
                    part[s][r] = part[2 * s][r] + part[2 * s + 1][r];
        for (uint32_t r = 0; r < rows; r++) {
            float v = part[0][r];
            if (bias != NULL)
                v = v + element(bias, n + r);
            y[n + r] = add ? y[n + r] + v : v;
        }
    }
}

void krn_oracle_rope(float *x, const float *cs, uint32_t head_dim) {
    uint32_t half = head_dim / 2;
    for (uint32_t i = 0; i < half; i++) {
        float x0 = x[i], x1 = x[half + i], c = cs[i], s = cs[half + i];
        x[i] = fmaf(x0, c, -(x1 * s));
        x[half + i] = fmaf(x1, c, x0 * s);
    }
}

void krn_oracle_gate(float *g, const float *u, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        g[i] = g[i] / (1.0f + krn_expf(-g[i])) * u[i];
}

void krn_oracle_gate_gelu(float *g, const float *u, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        float t = g[i] * fmaf(g[i] * g[i], KRN_GELU_3, KRN_GELU_1);
        g[i] = g[i] / (1.0f + krn_expf(-t)) * u[i];
    }
}

void krn_oracle_scale(float *x, float s, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        x[i] = x[i] * s;
}

bool krn_oracle_finite(const float *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* Rank of expert i: how many come before it, by logit and then by number. */
static uint32_t rank_of(const float *logits, uint32_t n, uint32_t i) {
    uint32_t before = 0;
    for (uint32_t j = 0; j < n; j++)
        before += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
    return before;
}

void krn_oracle_route(const float *logits, uint32_t n, uint32_t used, bool norm, uint32_t *chosen,
                      float *weights) {
    bool finite = krn_oracle_finite(logits, n);
    float lane[16] = {0}, max = logits[0], all, some = 0.0f;
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++)
        max = logits[i] > max ? logits[i] : max;
    for (uint32_t i = 0; i < n; i++) {
        float e = krn_expf(logits[i] - max);
        lane[i % 16] = lane[i % 16] + e;
        if (finite ? rank_of(logits, n, i) < used : i < used) {
            some = some + e;
            chosen[at] = i;
            weights[at++] = e;
        }
    }
    all = tree16(lane);
    for (uint32_t j = 0; j < used; j++)
        weights[j] = finite ? weights[j] / (norm ? some : all) : NAN;
}

/* What a segment, or several merged ones, leave. */
struct soft {
    bool any;
    float max, sum, out[KRN_HEAD_MAX];
};

ALIKE float score(const struct krn_oracle_attend *a, uint32_t h, uint32_t key) {
    uint32_t d = a->head_dim, kh = h / (a->heads / a->kv_heads);
    const float *q = a->q + (size_t)h * d;
    const float *k = a->keys + ((size_t)key * a->kv_heads + kh) * d;
    float acc = 0.0f;
    for (uint32_t i = 0; i < d; i++)
        acc = fmaf(q[i], k[i], acc);
    return a->scale * acc;
}

/* Keys [j0, j1), all of one tile of 64 and visible. */
ALIKE void tile(const struct krn_oracle_attend *a, uint32_t h, uint32_t j0, uint32_t j1,
                struct soft *t) {
    uint32_t d = a->head_dim, kh = h / (a->heads / a->kv_heads);
    float s[KRN_TILE], lane[16] = {0}, max = t->max;
    for (uint32_t j = j0; j < j1; j++) {
        s[j - j0] = score(a, h, j);
        max = s[j - j0] > max ? s[j - j0] : max;
    }
    float alpha = krn_expf(t->max - max);
    for (uint32_t i = 0; i < d; i++)
        t->out[i] = t->out[i] * alpha;
    for (uint32_t j = j0; j < j1; j++) {
        float p = krn_expf(s[j - j0] - max);
        const float *v = a->values + ((size_t)j * a->kv_heads + kh) * d;
        lane[j % 16] = lane[j % 16] + p;
        for (uint32_t i = 0; i < d; i++)
            t->out[i] = fmaf(p, v[i], t->out[i]);
    }
    t->sum = fmaf(t->sum, alpha, tree16(lane));
    t->max = max;
    t->any = true;
}

static void merge(struct soft *all, const struct soft *t, uint32_t d) {
    if (!all->any) {
        *all = *t;
        return;
    }
    float max = t->max > all->max ? t->max : all->max;
    float a = krn_expf(all->max - max), b = krn_expf(t->max - max);
    for (uint32_t i = 0; i < d; i++)
        all->out[i] = fmaf(t->out[i], b, all->out[i] * a);
    all->sum = fmaf(t->sum, b, all->sum * a);
    all->max = max;
}

ALIKE void attend(const struct krn_oracle_attend *a) {
    uint32_t end = a->pos + 1;
    uint32_t begin = a->window != 0 && end > a->window ? end - a->window : 0;
    for (uint32_t h = 0; h < a->heads; h++) {
        struct soft all = {0};
        for (uint32_t seg = begin / a->segment; seg * a->segment < end; seg++) {
            struct soft t = {.max = -INFINITY};
            uint32_t s0 = seg * a->segment, s1 = s0 + a->segment;
            for (uint32_t base = s0; base < s1 && base < end; base += KRN_TILE) {
                uint32_t j0 = base > begin ? base : begin;
                uint32_t j1 = base + KRN_TILE < end ? base + KRN_TILE : end;
                if (j0 < j1)
                    tile(a, h, j0, j1, &t);
            }
            if (t.any)
                merge(&all, &t, a->head_dim);
        }
        for (uint32_t i = 0; i < a->head_dim; i++)
            a->out[(size_t)h * a->head_dim + i] = all.out[i] / all.sum;
    }
}

static void product_plain(const float *x, const struct krn_tensor *w, uint32_t segments,
                          const struct krn_tensor *bias, bool add, float *y) {
    product(x, w, segments, bias, add, y);
}

ALIKE void one_segment(const float *x, const struct krn_tensor *w, uint32_t begin, uint32_t end,
                       float *y) {
    for (uint64_t n = 0; n < w->dims[0]; n += SIDE) {
        uint32_t rows = w->dims[0] - n < SIDE ? (uint32_t)(w->dims[0] - n) : SIDE;
        float acc[SIDE];
        segment(x, w, n, rows, begin, end, acc);
        memcpy(y + n, acc, rows * sizeof *y);
    }
}

static void one_segment_plain(const float *x, const struct krn_tensor *w, uint32_t begin,
                              uint32_t end, float *y) {
    one_segment(x, w, begin, end, y);
}

static void attend_plain(const struct krn_oracle_attend *a) {
    attend(a);
}

#if defined(__x86_64__)
__attribute__((target("fma"))) static void product_fma(const float *x, const struct krn_tensor *w,
                                                       uint32_t segments,
                                                       const struct krn_tensor *bias, bool add,
                                                       float *y) {
    product(x, w, segments, bias, add, y);
}

__attribute__((target("fma"))) static void one_segment_fma(const float *x,
                                                           const struct krn_tensor *w,
                                                           uint32_t begin, uint32_t end, float *y) {
    one_segment(x, w, begin, end, y);
}

__attribute__((target("fma"))) static void attend_fma(const struct krn_oracle_attend *a) {
    attend(a);
}

static bool has_fma(void) {
    return __builtin_cpu_supports("fma");
}
#else
#define product_fma     product_plain
#define attend_fma      attend_plain
#define one_segment_fma one_segment_plain
static bool has_fma(void) {
    return false;
}
#endif

void krn_oracle_product(const float *x, const struct krn_tensor *w, uint32_t segments,
                        const struct krn_tensor *bias, bool add, float *y) {
    CHECK(segments >= 1 && segments <= KRN_V_MAX && w->dims[1] % segments == 0);
    (has_fma() ? product_fma : product_plain)(x, w, segments, bias, add, y);
}

void krn_oracle_segment(const float *x, const struct krn_tensor *w, uint32_t begin, uint32_t end,
                        float *y) {
    CHECK(begin <= end && end <= w->dims[1]);
    (has_fma() ? one_segment_fma : one_segment_plain)(x, w, begin, end, y);
}

void krn_oracle_attend(const struct krn_oracle_attend *a) {
    (has_fma() ? attend_fma : attend_plain)(a);
}
