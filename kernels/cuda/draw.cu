/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 9, one draw a block. Sums are 64-bit integers and choices are by (value, id), so
 * neither the number of threads nor their order can matter. Nothing is sorted: a cut is found by
 * halving the range of keys, and what is kept is "greater than a key, or equal with an id up to a
 * bound".
 */
#include "kernels/cuda/draw.h"

#include "kernels/cuda/hash_device.h"

enum {
    DRAW_THREADS = 512,
    DRAW_EXTRA = 32, /* tokens of a window at most */
    DRAW_AHEAD = 16  /* logits of a thread, read before they are used */
};

#define DRAW_NONE (-krn_float(0x7f800000u))

struct draw_shared {
    uint64_t part[DRAW_THREADS];
    uint64_t result;            /* of the last reduction or search */
    uint64_t left;              /* of a search: what is still to be passed */
    uint32_t found;             /* thread or id */
    uint32_t known[DRAW_EXTRA]; /* which extra tokens the counts hold */
    struct hash_shared hash;
};

/* What is kept of the candidates, and how they weigh. */
struct draw_set {
    const float *z; /* edited logits */
    const float *e; /* exponentials */
    uint32_t n;
    uint32_t key, id; /* kept: a greater key, or this one with an id up to id */
    uint64_t floor;   /* and at least this weight */
};

enum draw_measure { DRAW_HEADS, DRAW_WEIGHTS, DRAW_TIES };

CUDA_FN uint64_t draw_weight(float e) {
    return (uint64_t)(e * 0x1p40f);
}

/* What id i counts for among keys from `key` on; ties: 1 for a kept candidate of exactly this
 * key. */
CUDA_FN uint64_t draw_value(const struct draw_set *s, uint32_t i, const int measure, uint32_t key) {
    uint32_t k = krn_draw_key(s->z[i]);
    if (measure == DRAW_TIES ? k != key : k < key)
        return 0;
    if (k < s->key || (k == s->key && i > s->id))
        return 0;
    uint64_t w = draw_weight(s->e[i]);
    if (w == 0 || w < s->floor)
        return 0;
    return measure == DRAW_WEIGHTS ? w : 1;
}

/* Sum or maximum of the threads' values, known to all. */
CUDA_FN uint64_t draw_reduce(struct draw_shared *t, uint64_t mine, const bool largest) {
    t->part[threadIdx.x] = mine;
    __syncthreads();
    for (uint32_t half = DRAW_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            uint64_t a = t->part[threadIdx.x], b = t->part[threadIdx.x + half];
            t->part[threadIdx.x] = largest ? (a > b ? a : b) : a + b;
        }
        __syncthreads();
    }
    uint64_t all = t->part[0];
    __syncthreads();
    return all;
}

CUDA_FN uint64_t draw_total(struct draw_shared *t, const struct draw_set *s, const int measure,
                            uint32_t key) {
    uint64_t sum = 0;
    for (uint32_t i = threadIdx.x; i < s->n; i += DRAW_THREADS)
        sum += draw_value(s, i, measure, key);
    return draw_reduce(t, sum, false);
}

/* The first id, ascending, at which the running sum exceeds target, which is below the total. Each
 * thread sums its own stretch of ids; one thread finds the stretch, its owner the id. */
CUDA_FN uint32_t draw_find(struct draw_shared *t, const struct draw_set *s, const int measure,
                           uint32_t key, uint64_t target) {
    uint32_t len = (s->n + DRAW_THREADS - 1) / DRAW_THREADS;
    uint32_t from = threadIdx.x * len, to = from + len < s->n ? from + len : s->n;
    uint64_t sum = 0;
    for (uint32_t i = from; i < to; i++)
        sum += draw_value(s, i, measure, key);
    t->part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t at = 0;
        while (at + 1 < DRAW_THREADS && t->part[at] <= target)
            target -= t->part[at++];
        t->found = at;
        t->left = target;
    }
    __syncthreads();
    bool mine = threadIdx.x == t->found;
    uint64_t left = t->left;
    __syncthreads();
    if (mine) {
        uint32_t i = from;
        for (; i < to; i++) {
            uint64_t v = draw_value(s, i, measure, key);
            if (v > left)
                break;
            left -= v;
        }
        t->found = i;
    }
    __syncthreads();
    uint32_t id = t->found;
    __syncthreads();
    return id;
}

/* Keeps the candidates before which less than limit lies: greater keys first, then lower ids. */
CUDA_FN void draw_cut(struct draw_shared *t, struct draw_set *s, const int measure,
                      uint64_t limit) {
    if (draw_total(t, s, measure, 0) < limit)
        return;
    uint32_t key = 0;
    for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1)
        if (draw_total(t, s, measure, key | bit) >= limit)
            key |= bit;
    uint64_t with = draw_total(t, s, measure, key);
    uint64_t before = key == 0xffffffffu ? 0 : draw_total(t, s, measure, key + 1);
    uint64_t ties = draw_total(t, s, DRAW_TIES, key);
    uint64_t each = (with - before) / ties; /* equal values have equal weights */
    uint64_t kept = (limit - before + each - 1) / each;
    uint32_t id = draw_find(t, s, DRAW_TIES, key, kept - 1);
    s->key = key;
    s->id = id;
}

/* The lowest id among the greatest values behind (key, id) `behind`; packed as key, then the id's
 * complement. 0: none. */
CUDA_FN uint64_t draw_best(struct draw_shared *t, const float *z, uint32_t n, uint64_t behind) {
    uint64_t best = 0;
    for (uint32_t i = threadIdx.x; i < n; i += DRAW_THREADS) {
        uint64_t at = (uint64_t)krn_draw_key(z[i]) << 32 | (uint32_t)~i;
        if (at < behind && at > best)
            best = at;
    }
    return draw_reduce(t, best, true);
}

/* The same over ids [from, n) of the raw row, or UINT64_MAX where a value is not finite; kept: a
 * copy, or NULL. */
CUDA_FN uint64_t draw_first(struct draw_shared *t, const float *z, uint32_t from, uint32_t n,
                            float *kept) {
    uint64_t best = 0;
    for (from += threadIdx.x; from < n; from += DRAW_AHEAD * DRAW_THREADS) {
        float v[DRAW_AHEAD];
        UNROLL for (uint32_t j = 0; j < DRAW_AHEAD; j++) {
            uint32_t i = from + j * DRAW_THREADS;
            v[j] = i < n ? z[i] : 0.0f;
        }
        UNROLL for (uint32_t j = 0; j < DRAW_AHEAD; j++) {
            uint32_t i = from + j * DRAW_THREADS;
            if (i >= n)
                continue;
            uint64_t at = (uint64_t)krn_draw_key(v[j]) << 32 | (uint32_t)~i;
            if ((krn_bits(v[j]) & 0x7fffffffu) >= 0x7f800000u)
                at = UINT64_MAX;
            best = at > best ? at : best;
            if (kept != NULL)
                kept[i] = v[j];
        }
    }
    return draw_reduce(t, best, true);
}

CUDA_FN uint32_t draw_id(uint64_t best) {
    return ~(uint32_t)best;
}

/* e = exp((z - max) / temperature); returns the sum of the weights. */
CUDA_FN uint64_t draw_scale(struct draw_shared *t, const float *z, float *e, uint32_t n, float max,
                            float temperature) {
    uint64_t sum = 0;
    for (uint32_t i = threadIdx.x; i < n; i += DRAW_THREADS) {
        float x = krn_expf((z[i] - max) / temperature);
        e[i] = x;
        sum += draw_weight(x);
    }
    return draw_reduce(t, sum, false);
}

/* How often an id stands among the extra rows' tokens. */
CUDA_FN uint32_t draw_extra(const uint32_t *extra, uint32_t n_extra, uint32_t id) {
    uint32_t n = 0;
    for (uint32_t e = 0; e < n_extra; e++)
        n += extra[e] == id;
    return n;
}

/* Penalties over counts[] with the extra tokens on top, each id once. */
CUDA_FN void draw_penalise(struct draw_shared *t, const struct krn_cuda_drawing *d,
                           const struct krn_count *counts, const uint32_t *extra, uint32_t n_extra,
                           float *z, uint32_t n) {
    if (threadIdx.x < DRAW_EXTRA)
        t->known[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < d->n_counts; i += DRAW_THREADS) {
        const struct krn_count c = counts[i];
        for (uint32_t e = 0; e < n_extra; e++)
            if (extra[e] == c.id)
                t->known[e] = 1;
        if (c.id < n)
            z[c.id] = krn_draw_penalise(z[c.id], &d->sampling, c.in_prompt,
                                        c.in_reply + draw_extra(extra, n_extra, c.id));
    }
    __syncthreads();
    uint32_t e = threadIdx.x;
    if (e < n_extra && t->known[e] == 0 && draw_extra(extra, e, extra[e]) == 0 && extra[e] < n)
        z[extra[e]] =
            krn_draw_penalise(z[extra[e]], &d->sampling, 0, draw_extra(extra, n_extra, extra[e]));
    __syncthreads();
}

/* Biases in their order: the first of an id applies all of it. */
CUDA_FN void draw_bias(const struct krn_bias *bias, uint32_t n_bias, float *z, uint32_t n) {
    for (uint32_t i = threadIdx.x; i < n_bias; i += DRAW_THREADS) {
        uint32_t j = 0, id = bias[i].id;
        while (bias[j].id != id)
            j++;
        if (j != i || id >= n)
            continue;
        for (; j < n_bias; j++)
            if (bias[j].id == id)
                z[id] = krn_draw_bias(z[id], bias[j].bias);
    }
    __syncthreads();
}

CUDA_FN bool draw_penalises(const struct krn_sampling *s) {
    return s->repetition != 1.0f || s->presence != 0.0f || s->frequency != 0.0f;
}

/* The logits that the draw is from: the raw row or its edited copy. */
CUDA_FN const float *draw_edit(struct draw_shared *t, const struct krn_cuda_step *step,
                               const struct krn_cuda_drawing *d, const uint32_t *tokens,
                               const float *raw, float *z, uint32_t n) {
    uint32_t n_extra = d->row + 1 - d->extra_row;
    bool penalises = draw_penalises(&d->sampling) && d->n_counts + n_extra != 0;
    if (!penalises && d->n_bias == 0 && d->mask == KRN_CUDA_NONE)
        return raw;
    for (uint32_t i = threadIdx.x; i < n; i += DRAW_THREADS)
        z[i] = raw[i];
    __syncthreads();
    if (penalises)
        draw_penalise(t, d, KRN_CUDA_OF(struct krn_count, step, off_counts) + d->first_count,
                      tokens + d->extra_row, n_extra, z, n);
    draw_bias(KRN_CUDA_OF(struct krn_bias, step, off_bias) + d->first_bias, d->n_bias, z, n);
    if (d->mask != KRN_CUDA_NONE) {
        const uint32_t *mask = KRN_CUDA_OF(uint32_t, step, off_masks) + d->mask;
        for (uint32_t i = threadIdx.x; i < n; i += DRAW_THREADS)
            if ((mask[i / 32] >> (i % 32) & 1) == 0)
                z[i] = DRAW_NONE;
        __syncthreads();
    }
    return z;
}

/* Filters, then the random number. */
CUDA_FN uint32_t draw_sample(struct draw_shared *t, const struct krn_sampling *s,
                             const struct draw_set *all, uint64_t sum, uint64_t pos) {
    struct draw_set set = *all;
    if (s->top_k != 0 || s->top_p < 1.0f || s->min_p > 0.0f) {
        if (s->top_k != 0 && s->top_k < draw_total(t, &set, DRAW_HEADS, 0))
            draw_cut(t, &set, DRAW_HEADS, s->top_k);
        if (s->top_p < 1.0f) {
            sum = draw_total(t, &set, DRAW_WEIGHTS, 0);
            draw_cut(t, &set, DRAW_WEIGHTS, krn_draw_top_p_limit(s->top_p, sum));
        }
        set.floor = krn_draw_min_p_limit(s->min_p);
        sum = draw_total(t, &set, DRAW_WEIGHTS, 0);
    }
    return draw_find(t, &set, DRAW_WEIGHTS, 0, krn_draw_target(s->seed, pos, sum));
}

/* Log-probabilities of the raw row: of the drawn id and of the n best. */
CUDA_FN void draw_logprobs(struct draw_shared *t, const struct krn_sampling *s, const float *raw,
                           float *e, uint32_t n, float max, struct krn_drawn *out,
                           struct krn_top *top) {
    uint64_t sum = draw_scale(t, raw, e, n, max, 1.0f), behind = UINT64_MAX;
    uint32_t best = s->n_top < n ? s->n_top : n;
    for (uint32_t i = 0; i < best; i++) {
        behind = draw_best(t, raw, n, behind);
        if (threadIdx.x == 0) {
            top[i].id = draw_id(behind);
            top[i].logprob = krn_draw_logprob(raw[draw_id(behind)], max, sum);
        }
    }
    if (threadIdx.x == 0) {
        out->n_top = best;
        if (out->finite != 0)
            out->logprob = krn_draw_logprob(raw[out->token], max, sum);
    }
}

/* A part of a draw's row: its best, and what is kept of it. */
KRN_CUDA_KERNEL(krn_cuda_draw_first, DRAW_THREADS)(const __grid_constant__ struct krn_cuda_draw a) {
    __shared__ struct draw_shared t;
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    uint32_t draw = a.first_draw + blockIdx.x, n = a.vocab;
    krn_cuda_next();
    bool counts = draw < step->n_draws;
    float *kept = NULL;
    if (counts) {
        uint32_t at = KRN_CUDA_OF(struct krn_cuda_drawing, step, off_draws)[draw].kept;
        if (at != KRN_CUDA_NONE)
            kept = KRN_CUDA_AT(float, a.kept) + (size_t)at * n;
    }
    krn_cuda_before();
    if (!counts)
        return;
    uint32_t len = (n + KRN_CUDA_DRAW_PARTS - 1) / KRN_CUDA_DRAW_PARTS, from = blockIdx.y * len;
    const float *raw = KRN_CUDA_AT(const float, a.logits) + (size_t)blockIdx.x * a.ld;
    uint64_t best = draw_first(&t, raw, from, from + len < n ? from + len : n, kept);
    if (threadIdx.x == 0)
        KRN_CUDA_AT(uint64_t, a.best)[blockIdx.x * KRN_CUDA_DRAW_PARTS + blockIdx.y] = best;
}

KRN_CUDA_KERNEL(krn_cuda_draw, DRAW_THREADS)(const __grid_constant__ struct krn_cuda_draw a) {
    __shared__ struct draw_shared t;
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    uint32_t draw = a.first_draw + blockIdx.x, n = a.vocab;
    krn_cuda_next();
    krn_cuda_before();
    if (draw >= step->n_draws)
        return;
    const struct krn_cuda_drawing *d = KRN_CUDA_OF(struct krn_cuda_drawing, step, off_draws) + draw;
    const struct krn_sampling *s = &d->sampling;
    const float *raw = KRN_CUDA_AT(const float, a.logits) + (size_t)blockIdx.x * a.ld;
    float *e = KRN_CUDA_AT(float, a.scaled) + (size_t)blockIdx.x * a.ld;
    struct krn_drawn out;
    memset(&out, 0, sizeof out);
    if ((s->flags & KRN_DRAW_HASH_LOGITS) != 0)
        out.logits_hash = krn_hash_row(&t.hash, raw, n, KRN_CUDA_AT(const unsigned char, a.secret));
    const uint64_t *parts = KRN_CUDA_AT(const uint64_t, a.best) + blockIdx.x * KRN_CUDA_DRAW_PARTS;
    uint64_t first = 0;
    UNROLL for (uint32_t i = 0; i < KRN_CUDA_DRAW_PARTS; i++) first =
        parts[i] > first ? parts[i] : first;
    if (first != UINT64_MAX) {
        uint32_t best = draw_id(first), id = best;
        const float *z = draw_edit(&t, step, d, KRN_CUDA_AT(const uint32_t, a.tokens), raw,
                                   KRN_CUDA_AT(float, a.edited) + (size_t)blockIdx.x * a.ld, n);
        if (z != raw)
            id = draw_id(draw_best(&t, z, n, UINT64_MAX));
        if (z[id] > DRAW_NONE) { /* else nothing is allowed */
            if (s->temperature > 0.0f && s->top_k != 1) {
                uint64_t sum = draw_scale(&t, z, e, n, z[id], s->temperature);
                struct draw_set all = {z, e, n, 0, 0xffffffffu, 0};
                uint32_t pos = KRN_CUDA_OF(struct krn_cuda_row, step, off_rows)[d->row].pos;
                id = draw_sample(&t, s, &all, sum, (uint64_t)pos + 1);
            }
            out.token = id;
            out.finite = 1;
        }
        if ((s->flags & KRN_DRAW_LOGPROB) != 0)
            draw_logprobs(&t, s, raw, e, n, raw[best], &out,
                          KRN_CUDA_AT(struct krn_top, a.top) + (size_t)draw * KRN_TOP_MAX);
    }
    if (threadIdx.x == 0)
        KRN_CUDA_AT(struct krn_drawn, a.drawn)[draw] = out;
}
