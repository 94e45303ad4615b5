/* SPDX-License-Identifier: Apache-2.0
 * RoPE tables (numerics.md 4). Frequencies take the same fp32 steps as the published float32
 * implementation; powers, sines and cosines are ours in fp64, rounded once.
 */
#include "kernels/approx.h"
#include "kernels/rowfn.h"

#include "actors/check.h"

/* llama3: long waves are slowed by factor, short ones kept, those between are blended. */
static float scale_llama3(const struct krn_rope *r, float inv) {
    float factor = (float)r->factor, low = (float)r->low_freq_factor;
    float old = (float)r->original_context;
    float low_wave = (float)((double)r->original_context / r->low_freq_factor);
    float high_wave = (float)((double)r->original_context / r->high_freq_factor);
    float wave = (float)(2.0 * 3.14159265358979323846) / inv;
    if (wave > low_wave)
        return inv / factor;
    if (wave < high_wave)
        return inv;
    float smooth = (old / wave - low) / (float)(r->high_freq_factor - r->low_freq_factor);
    return (1.0f - smooth) * inv / factor + smooth * inv;
}

static float frequency(const struct krn_rope *rope, uint32_t i, uint32_t head_dim) {
    float e = (float)(2 * i) / (float)head_dim;
    float inv = 1.0f / (float)krn_pow64(rope->theta, (double)e);
    if (rope->kind == KRN_ROPE_LINEAR)
        return inv / (float)rope->factor;
    return rope->kind == KRN_ROPE_LLAMA3 ? scale_llama3(rope, inv) : inv;
}

void krn_rope_table(const struct krn_rope *rope, uint32_t head_dim, uint32_t context, float *out) {
    CHECK(head_dim % 2 == 0 && head_dim <= KRN_HEAD_MAX);
    CHECK(context <= KRN_CONTEXT_MAX);
    uint32_t half = head_dim / 2;
    for (uint32_t i = 0; i < half; i++) {
        float inv = frequency(rope, i, head_dim);
        for (uint32_t pos = 0; pos < context; pos++) {
            double s, c;
            krn_sincos64((double)((float)pos * inv), &s, &c);
            out[(size_t)pos * head_dim + i] = (float)c;
            out[(size_t)pos * head_dim + half + i] = (float)s;
        }
    }
}
