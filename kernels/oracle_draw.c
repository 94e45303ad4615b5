/* SPDX-License-Identifier: Apache-2.0
 * The oracle's draw: counts from the ids, sorts all candidates, cuts the sorted list. Plain where
 * draw.c is clever.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "actors/check.h"
#include "kernels/approx.h"
#include "kernels/oracle.h"
#include "kernels/philox.h"

struct candidate {
    uint32_t id;
    float z;
    uint64_t w;
};

static int by_value(const void *x, const void *y) {
    const struct candidate *a = x, *b = y;
    if (a->z != b->z)
        return a->z > b->z ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

static int by_id(const void *x, const void *y) {
    const struct candidate *a = x, *b = y;
    return a->id < b->id ? -1 : a->id > b->id;
}

static float tame(float z) {
    return z != z ? -INFINITY : z == INFINITY ? FLT_MAX : z;
}

static uint64_t weight(float z, float max, float temperature) {
    return (uint64_t)(krn_expf((z - max) / temperature) * 0x1p40f);
}

static void edit(float *z, uint32_t vocab, const struct krn_sampling *s, const uint32_t *ids,
                 uint32_t n, uint32_t n_prompt) {
    uint32_t *reply = calloc(vocab, sizeof *reply);
    bool *any = calloc(vocab, sizeof *any);
    CHECK(reply != NULL && any != NULL);
    for (uint32_t i = 0; i < n; i++) {
        any[ids[i]] = true;
        reply[ids[i]] += i >= n_prompt;
    }
    for (uint32_t t = 0; t < vocab; t++) {
        if (!any[t])
            continue;
        if (s->repetition != 1.0f)
            z[t] = z[t] > 0.0f ? z[t] / s->repetition : z[t] * s->repetition;
        if (reply[t] != 0) {
            z[t] = z[t] - s->presence;
            z[t] = z[t] - s->frequency * (float)reply[t];
        }
        z[t] = tame(z[t]);
    }
    free(reply);
    free(any);
}

/* Cuts the sorted list as numerics.md 9.6 to 9.8 say; returns how many stay. */
static uint32_t cut(const struct candidate *c, uint32_t n, const struct krn_sampling *s) {
    if (s->top_k != 0 && n > s->top_k)
        n = s->top_k;
    if (s->top_p < 1.0f) {
        uint64_t sum = 0, before = 0;
        for (uint32_t i = 0; i < n; i++)
            sum += c[i].w;
        uint64_t q = s->top_p > 0.0f ? (uint64_t)((double)s->top_p * 4294967296.0) : 0;
        uint64_t limit = (uint64_t)((unsigned __int128)sum * q >> 32);
        uint32_t keep = 0;
        do
            before += c[keep++].w;
        while (keep < n && before < limit);
        n = keep;
    }
    if (s->min_p > 0.0f) {
        double p = s->min_p < 1.0f ? s->min_p : 1.0;
        while (n > 1 && c[n - 1].w < (uint64_t)(p * 1099511627776.0))
            n--;
    }
    return n;
}

static uint32_t pick(struct candidate *c, uint32_t n, const struct krn_sampling *s, uint32_t pos) {
    n = cut(c, n, s);
    qsort(c, n, sizeof *c, by_id);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += c[i].w;
    uint64_t target = (uint64_t)((unsigned __int128)krn_philox_u64(s->seed, pos) * sum >> 64);
    uint64_t before = 0;
    for (uint32_t i = 0;; i++) {
        CHECK(i < n);
        before += c[i].w;
        if (before > target)
            return c[i].id;
    }
}

void krn_oracle_draw(const float *logits, uint32_t vocab, const struct krn_sampling *s,
                     const uint32_t *ids, uint32_t n, uint32_t n_prompt,
                     const struct krn_bias *bias, uint32_t n_bias, const uint32_t *mask,
                     struct krn_drawn *out) {
    *out = (struct krn_drawn){0};
    if ((s->flags & KRN_DRAW_HASH_LOGITS) != 0)
        out->logits_hash = XXH3_64bits(logits, vocab * sizeof(float));
    float max = -INFINITY;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        if (!isfinite(logits[i]))
            return;
        max = logits[i] > max ? logits[i] : max;
    }
    for (uint32_t i = 0; i < vocab; i++)
        sum += weight(logits[i], max, 1.0f);
    float *z = malloc(vocab * sizeof *z);
    struct candidate *c = malloc(vocab * sizeof *c);
    CHECK(z != NULL && c != NULL);
    memcpy(z, logits, vocab * sizeof *z);
    edit(z, vocab, s, ids, n, n_prompt);
    for (uint32_t i = 0; i < n_bias; i++)
        if (bias[i].id < vocab)
            z[bias[i].id] = tame(z[bias[i].id] + bias[i].bias);
    uint32_t left = 0;
    for (uint32_t i = 0; i < vocab; i++)
        if ((mask == NULL || (mask[i / 32] >> (i % 32) & 1) != 0) && z[i] > -INFINITY)
            c[left++] = (struct candidate){i, z[i], 0};
    if (left != 0) {
        qsort(c, left, sizeof *c, by_value);
        uint32_t id = c[0].id;
        if (s->temperature > 0.0f) {
            uint32_t heavy = 0; /* what weighs nothing is no candidate */
            float top = c[0].z;
            for (uint32_t i = 0; i < left; i++) {
                c[heavy] = c[i];
                c[heavy].w = weight(c[i].z, top, s->temperature);
                heavy += c[heavy].w != 0;
            }
            id = pick(c, heavy, s, n);
        }
        out->token = id;
        out->finite = 1;
        if ((s->flags & KRN_DRAW_LOGPROB) != 0)
            out->logprob =
                (float)(((double)logits[id] - (double)max) - krn_log64((double)sum * 0x1p-40));
    }
    free(z);
    free(c);
}
