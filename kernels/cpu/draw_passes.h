/* SPDX-License-Identifier: Apache-2.0
 * The draw's passes over the vocabulary (numerics.md 9.2, 9.5).
 */
#ifndef KERNELS_CPU_DRAW_PASSES_H
#define KERNELS_CPU_DRAW_PASSES_H

#include "kernels/cpu/vec.h"
#include "kernels/draw.h"

/* One pass for the maximum of each chunk; then only the winning chunk is searched for its first
 * occurrence. */
static bool pass_argmax(const float *z, uint32_t n, uint32_t *id, float *max) {
    float best = -INFINITY;
    uint32_t good = 0xffffu, at = n;
    for (uint32_t c = 0; c < n; c += KRN_DRAW_CHUNK) {
        uint32_t end = n - c < KRN_DRAW_CHUNK ? n : c + KRN_DRAW_CHUNK, i = c;
        v16 m0 = v_set1(-INFINITY), m1 = m0;
        for (; i + 32 <= end; i += 32) {
            v16 a = v_load(z + i), b = v_load(z + i + 16);
            good &= m_to_bits(v_is_finite(a)) & m_to_bits(v_is_finite(b));
            m0 = v_max(a, m0);
            m1 = v_max(b, m1);
        }
        for (; i < end; i += 16) {
            uint32_t left = end - i < 16 ? end - i : 16;
            v16 a = v_load_n(z + i, left);
            good &= m_to_bits(v_is_finite(a));
            m0 = v_max(v_select(m_range(0, left), a, v_set1(-INFINITY)), m0);
        }
        float m = v_hmax(v_max(m1, m0));
        if (m > best) {
            best = m;
            at = c;
        }
    }
    while (at < n && !(z[at] == best))
        at++;
    *id = at;
    *max = best;
    return good == 0xffffu;
}

static uint64_t pass_weights(const float *z, uint32_t n, float max, float temperature, uint64_t *w,
                             uint64_t *sums) {
    v16 mv = v_set1(max), tv = v_set1(temperature);
    uint64_t total = 0;
    for (uint32_t c = 0; c < n; c += KRN_DRAW_CHUNK) {
        uint32_t end = n - c < KRN_DRAW_CHUNK ? n : c + KRN_DRAW_CHUNK;
        uint64_t sum = 0;
        for (uint32_t i = c; i < end; i += 16) {
            uint32_t left = end - i < 16 ? end - i : 16;
            v16 e = v_exp_down(v_div(v_sub(v_load_n(z + i, left), mv), tv));
            sum += v_fixed(w + i, v_select(m_range(0, left), e, v_zero()));
        }
        sums[c / KRN_DRAW_CHUNK] = sum;
        total += sum;
    }
    return total;
}

static void rowfn_draw(const struct krn_draw *d, struct krn_drawn *out) {
    static const struct krn_draw_passes passes = {pass_argmax, pass_weights};
    krn_draw_run(&passes, d, out);
}

#endif
