/* SPDX-License-Identifier: Apache-2.0
 * Which experts a row uses and with what weight (numerics.md 13). One scalar function for all
 * tables: experts are few.
 */
#include <math.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/approx.h"
#include "kernels/rowfn.h"

/* Sixteen lanes in ascending order, then by halves. */
static float lanes_sum(const float *x, uint32_t n) {
    float lane[KRN_LANES] = {0};
    for (uint32_t i = 0; i < n; i++)
        lane[i % KRN_LANES] += x[i];
    for (uint32_t half = KRN_LANES / 2; half > 0; half /= 2)
        for (uint32_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

/* The greatest logit among those not taken; of equal ones the first. */
static uint32_t best_left(const float *logits, const bool *taken, uint32_t n) {
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i] && (best == n || logits[i] > logits[best]))
            best = i;
    return best;
}

void krn_route(const float *logits, uint32_t n, uint32_t used, bool norm, uint32_t *chosen,
               float *weights) {
    float e[KRN_EXPERTS_MAX], max = -INFINITY;
    bool taken[KRN_EXPERTS_MAX] = {false}, finite = true;
    CHECK(n <= KRN_EXPERTS_MAX && used >= 1 && used <= n);
    for (uint32_t i = 0; i < n; i++) {
        finite = finite && isfinite(logits[i]);
        max = logits[i] > max ? logits[i] : max;
    }
    if (!finite) { /* the row's own end: everything that it adds is NaN */
        for (uint32_t j = 0; j < used; j++) {
            chosen[j] = j;
            weights[j] = NAN;
        }
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        e[i] = krn_expf(logits[i] - max);
    for (uint32_t j = 0; j < used; j++)
        taken[best_left(logits, taken, n)] = true;
    uint32_t at = 0;
    float sum = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        if (!taken[i])
            continue;
        chosen[at] = i;
        weights[at++] = e[i];
        sum += e[i];
    }
    if (!norm)
        sum = lanes_sum(e, n);
    for (uint32_t j = 0; j < used; j++)
        weights[j] /= sum;
}
