/* SPDX-License-Identifier: Apache-2.0
 * The oracle's product of profile q8: straight loops for numerics.md 14.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/oracle_rows.h"

enum { BLOCK = 32 };

struct block {
    int code[BLOCK];
    float scale, edge;
};

static struct block round_block(const float *x) {
    struct block b = {{0}, 0.0f, 0.0f};
    float most = 0.0f;
    int sum = 0;
    for (int i = 0; i < BLOCK; i++) {
        if (!isfinite(x[i])) {
            b.scale = b.edge = NAN;
            return b;
        }
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    if (most < 0x1p-100f)
        return b;
    b.scale = most / 127.0f;
    float t = 127.0f / most;
    for (int i = 0; i < BLOCK; i++) {
        b.code[i] = (int)rintf(x[i] * t);
        sum += b.code[i];
    }
    b.edge = b.scale * (float)sum;
    return b;
}

/* One block of the chain. */
static float step(const struct block *x, const struct krn_tensor *w, uint64_t first, float acc) {
    struct krn_oracle_block c;
    int half[2] = {0, 0};
    krn_oracle_block(w->dtype, w->data, first, &c);
    for (int i = 0; i < BLOCK / 2; i++) {
        half[0] += c.whole[i] * x->code[i];
        half[1] += c.whole[BLOCK / 2 + i] * x->code[BLOCK / 2 + i];
    }
    if (w->dtype == KRN_Q6_K) {
        acc = fmaf((float)half[0], c.factor[0] * x->scale, acc);
        return fmaf((float)half[1], c.factor[1] * x->scale, acc);
    }
    acc = fmaf((float)(half[0] + half[1]), c.factor[0] * x->scale, acc);
    return c.adds ? fmaf(c.added, x->edge, acc) : acc;
}

void krn_oracle_segment_q8(const float *x, const struct krn_tensor *w, uint32_t begin, uint32_t end,
                           float *y) {
    if (w->dtype < KRN_DTYPES) {
        krn_oracle_segment(x, w, begin, end, y);
        return;
    }
    CHECK(begin % BLOCK == 0 && end % BLOCK == 0 && begin <= end && end <= w->dims[1]);
    memset(y, 0, w->dims[0] * sizeof *y);
    for (uint32_t at = begin; at < end; at += BLOCK) {
        struct block b = round_block(x + at);
        for (uint64_t n = 0; n < w->dims[0]; n++)
            y[n] = step(&b, w, n * w->dims[1] + at, y[n]);
    }
}

void krn_oracle_product_q8(const float *x, const struct krn_tensor *w, uint32_t segments,
                           const struct krn_tensor *bias, bool add, float *y) {
    uint32_t len = (uint32_t)w->dims[1] / segments;
    uint64_t n = w->dims[0];
    if (w->dtype < KRN_DTYPES) {
        krn_oracle_product(x, w, segments, bias, add, y);
        return;
    }
    float *part = malloc((segments + 1) * n * sizeof *part);
    CHECK(part != NULL && w->dims[1] % segments == 0);
    for (uint32_t s = 0; s < segments; s++)
        krn_oracle_segment_q8(x, w, s * len, (s + 1) * len, part + s * n);
    for (uint32_t left = segments; left > 1; left /= 2)
        for (uint32_t s = 0; s < left / 2; s++)
            for (uint64_t i = 0; i < n; i++)
                part[s * n + i] = part[2 * s * n + i] + part[(2 * s + 1) * n + i];
    if (bias != NULL) { /* as a matrix of one row */
        struct krn_tensor row = *bias;
        row.n_dims = 2;
        row.dims[0] = 1;
        row.dims[1] = n;
        krn_oracle_embed(&row, 0, part + n);
    }
    for (uint64_t i = 0; i < n; i++) {
        float v = part[i];
        if (bias != NULL)
            v = v + part[n + i];
        y[i] = add ? y[i] + v : v;
    }
    free(part);
}
