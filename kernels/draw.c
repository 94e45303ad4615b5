/* SPDX-License-Identifier: Apache-2.0
 * The draw: which token follows, as a pure function of the row, the request's ids and parameters,
 * seed and position. Nothing is sorted: cuts are found by their threshold key, and kept ids stay in
 * ascending order.
 */
#include "kernels/draw.h"

#include <math.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "actors/check.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are hashed as little-endian bytes");

enum { DRAW_BINS = 2048 };

struct draw_candidate {
    uint32_t id, key; /* key: order of the value, greater is likelier */
    uint64_t w;
};

struct draw_scratch {
    uint64_t *hist; /* [DRAW_BINS] */
    uint64_t *w, *sums;
    struct draw_candidate *c;
    float *raw;
};

static uint64_t round_up(uint64_t n, uint64_t to) {
    return (n + to - 1) / to * to;
}

/* Lays out the scratch; returns its bytes. base may be NULL. */
static uint64_t draw_layout(void *base, uint32_t vocab, struct draw_scratch *t) {
    uint64_t v = round_up(vocab, 64), at = 0;
    char *p = base;
    struct draw_scratch s = {0};
#define PLACE(field, n)                                                                            \
    do {                                                                                           \
        if (p != NULL)                                                                             \
            s.field = (void *)(p + at);                                                            \
        at += round_up((n) * sizeof *s.field, 64);                                                 \
    } while (0)
    PLACE(hist, DRAW_BINS);
    PLACE(w, v);
    PLACE(sums, v / KRN_DRAW_CHUNK + 1);
    PLACE(c, v + 1);
    PLACE(raw, v);
#undef PLACE
    *t = s;
    return at;
}

uint64_t krn_draw_scratch(uint32_t vocab) {
    struct draw_scratch t;
    return draw_layout(NULL, vocab, &t);
}

static bool draw_penalises(const struct krn_draw *d) {
    const struct krn_sampling *s = d->sampling;
    return d->n_counts != 0 &&
           (s->repetition != 1.0f || s->presence != 0.0f || s->frequency != 0.0f);
}

static void draw_edit(const struct krn_draw *d) {
    float *z = d->logits;
    if (draw_penalises(d))
        for (uint32_t i = 0; i < d->n_counts; i++)
            if (d->counts[i].id < d->vocab)
                z[d->counts[i].id] = krn_draw_penalise(
                    z[d->counts[i].id], d->sampling, d->counts[i].in_prompt, d->counts[i].in_reply);
    for (uint32_t i = 0; i < d->n_bias; i++)
        if (d->bias[i].id < d->vocab)
            z[d->bias[i].id] = krn_draw_bias(z[d->bias[i].id], d->bias[i].bias);
    if (d->mask != NULL)
        for (uint32_t i = 0; i < d->vocab; i++)
            if ((d->mask[i / 32] >> (i % 32) & 1) == 0)
                z[i] = -INFINITY;
}

/* Keeps the candidates whose key is at least floor, in their order. */
static uint32_t draw_drop_below(struct draw_candidate *c, uint32_t n, uint32_t floor) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        c[kept] = c[i];
        kept += c[i].key >= floor;
    }
    return kept;
}

/* Order of candidates: greater key first, then lower id. Keeps those before which less than limit
 * lies, counted by weight or by head; returns how many, still in ascending id order. */
static uint32_t draw_cut(struct draw_candidate *c, uint32_t n, uint64_t limit, bool by_weight,
                         uint64_t *hist) {
    static const uint32_t shift[] = {21, 10, 0}, bits[] = {11, 11, 10};
    uint32_t prefix = 0, known = 0; /* key bits found so far */
    uint64_t before = 0;            /* lies before every key with this prefix */
    for (int pass = 0; pass < 3; pass++) {
        uint32_t bins = 1u << bits[pass];
        memset(hist, 0, bins * sizeof *hist);
        for (uint32_t i = 0; i < n; i++)
            if ((c[i].key & known) == prefix)
                hist[c[i].key >> shift[pass] & (bins - 1)] += by_weight ? c[i].w : 1;
        uint32_t b = bins;
        do {
            if (b == 0)
                return n; /* everything together stays under the limit */
            b--;
            before += hist[b];
        } while (before < limit);
        before -= hist[b];
        prefix |= b << shift[pass];
        known |= (bins - 1) << shift[pass];
        n = draw_drop_below(c, n, prefix);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (c[i].key == prefix && before >= limit)
            continue;
        if (c[i].key == prefix)
            before += by_weight ? c[i].w : 1;
        c[kept++] = c[i];
    }
    return kept;
}

static uint64_t draw_sum(const struct draw_candidate *c, uint32_t n) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += c[i].w;
    return sum;
}

/* The whole distribution: the first id at which the running sum passes the target. */
static uint32_t draw_walk(const struct krn_draw *d, const struct draw_scratch *t, uint64_t sum) {
    uint64_t target = krn_draw_target(d->sampling->seed, d->pos, sum);
    uint32_t chunk = 0;
    while (t->sums[chunk] <= target)
        target -= t->sums[chunk++];
    uint32_t i = chunk * KRN_DRAW_CHUNK;
    while (t->w[i] <= target)
        target -= t->w[i++];
    CHECK(i < d->vocab);
    return i;
}

static uint32_t draw_filtered(const struct krn_draw *d, const struct draw_scratch *t) {
    const struct krn_sampling *s = d->sampling;
    struct draw_candidate *c = t->c;
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->vocab; i++) {
        c[n] = (struct draw_candidate){i, krn_draw_key(d->logits[i]), t->w[i]};
        n += t->w[i] != 0;
    }
    if (s->top_k != 0 && s->top_k < n)
        n = draw_cut(c, n, s->top_k, false, t->hist);
    if (s->top_p < 1.0f)
        n = draw_cut(c, n, krn_draw_top_p_limit(s->top_p, draw_sum(c, n)), true, t->hist);
    uint64_t floor = krn_draw_min_p_limit(s->min_p), sum = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (c[i].w >= floor) {
            sum += c[i].w;
            c[kept++] = c[i];
        }
    uint64_t target = krn_draw_target(d->sampling->seed, d->pos, sum);
    uint32_t i = 0;
    while (c[i].w <= target)
        target -= c[i++].w;
    CHECK(i < kept);
    return c[i].id;
}

/* The n best of the raw row by value, ties to the lower id. */
static uint32_t draw_top(const float *z, uint32_t vocab, uint32_t n, float max, uint64_t sum,
                         struct krn_top *top) {
    uint32_t have = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        if (have == n && !(z[i] > top[n - 1].logprob))
            continue;
        uint32_t at = have < n ? have++ : n - 1;
        while (at > 0 && z[i] > top[at - 1].logprob) {
            top[at] = top[at - 1];
            at--;
        }
        top[at] = (struct krn_top){i, z[i]};
    }
    for (uint32_t i = 0; i < have; i++)
        top[i].logprob = krn_draw_logprob(top[i].logprob, max, sum);
    return have;
}

void krn_draw_run(const struct krn_draw_passes *passes, const struct krn_draw *d,
                  struct krn_drawn *out) {
    const struct krn_sampling *s = d->sampling;
    struct draw_scratch t;
    draw_layout(d->scratch, d->vocab, &t);
    *out = (struct krn_drawn){0};
    if ((s->flags & KRN_DRAW_HASH_LOGITS) != 0)
        out->logits_hash = XXH3_64bits(d->logits, (size_t)d->vocab * sizeof(float));
    uint32_t id;
    float max, raw_max = 0.0f;
    uint64_t raw_sum = 0;
    if (!passes->argmax(d->logits, d->vocab, &id, &max) || id == d->vocab)
        return;
    if ((s->flags & KRN_DRAW_LOGPROB) != 0) {
        raw_max = max;
        raw_sum = passes->weights(d->logits, d->vocab, max, 1.0f, t.w, t.sums);
        uint32_t n = s->n_top < KRN_TOP_MAX ? s->n_top : KRN_TOP_MAX;
        n = d->top == NULL ? 0 : n < d->vocab ? n : d->vocab;
        if (n != 0)
            out->n_top = draw_top(d->logits, d->vocab, n, raw_max, raw_sum, d->top);
        memcpy(t.raw, d->logits, (size_t)d->vocab * sizeof(float));
    }
    if (draw_penalises(d) || d->n_bias != 0 || d->mask != NULL) {
        draw_edit(d);
        passes->argmax(d->logits, d->vocab, &id, &max);
        if (id == d->vocab)
            return; /* nothing is allowed */
    }
    if (s->temperature > 0.0f && s->top_k != 1) {
        uint64_t sum = passes->weights(d->logits, d->vocab, max, s->temperature, t.w, t.sums);
        if (s->top_k != 0 || s->top_p < 1.0f || s->min_p > 0.0f)
            id = draw_filtered(d, &t);
        else
            id = draw_walk(d, &t, sum);
    }
    out->token = id;
    out->finite = 1;
    if ((s->flags & KRN_DRAW_LOGPROB) != 0)
        out->logprob = krn_draw_logprob(t.raw[id], raw_max, raw_sum);
}
