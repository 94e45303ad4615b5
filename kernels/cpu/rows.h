/* SPDX-License-Identifier: Apache-2.0
 * The row functions that walk one row: embedding, norm, rotation, key and value write, gate, mix,
 * finite check (numerics.md 1, 2, 4, 5, 7, 8, 13).
 */
#ifndef KERNELS_CPU_ROWS_H
#define KERNELS_CPU_ROWS_H

#include "kernels/cpu/vec.h"
#include "kernels/quant/cell.h"
#include "kernels/rowfn.h"

static void rowfn_embed(const struct krn_packed *w, uint32_t token, float *y) {
    CHECK(token < w->n);
    if (w->dtype >= KRN_DTYPES) {
        krn_cell_row(w, token, y);
        return;
    }
    size_t at = (size_t)(token / 16) * w->k * 16 + token % 16;
    if (w->dtype == KRN_F32) {
        const float *from = (const float *)w->data + at;
        for (uint32_t i = 0; i < w->k; i++)
            y[i] = from[(size_t)i * 16];
        return;
    }
    const uint16_t *from = (const uint16_t *)w->data + at;
    if (w->dtype == KRN_BF16)
        for (uint32_t i = 0; i < w->k; i++)
            y[i] = krn_widen_bf16(from[(size_t)i * 16]);
    else
        for (uint32_t i = 0; i < w->k; i++)
            y[i] = krn_widen_f16(from[(size_t)i * 16]);
}

static void rowfn_norm(const float *x, const float *w, float *y, uint32_t n, float eps) {
    v16 acc = v_zero();
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 v = v_load(x + i);
        acc = v_fma(v, v, acc);
    }
    if (i < n) { /* lanes past the end add +0 * +0 to a sum that is never -0 */
        v16 v = v_load_n(x + i, n - i);
        acc = v_fma(v, v, acc);
    }
    float r = 1.0f / sqrtf(v_sum(acc) / (float)n + eps);
    v16 rv = v_set1(r);
    for (i = 0; i + 16 <= n; i += 16)
        v_store(y + i, v_mul(v_mul(v_load(x + i), rv), v_load(w + i)));
    if (i < n)
        v_store_n(y + i, v_mul(v_mul(v_load_n(x + i, n - i), rv), v_load_n(w + i, n - i)), n - i);
}

static void rowfn_rope(float *x, const float *cs, uint32_t head_dim) {
    uint32_t half = head_dim / 2;
    for (uint32_t i = 0; i < half; i += 16) {
        uint32_t n = half - i < 16 ? half - i : 16;
        v16 x0 = v_load_n(x + i, n), x1 = v_load_n(x + half + i, n);
        v16 c = v_load_n(cs + i, n), s = v_load_n(cs + half + i, n);
        v_store_n(x + i, v_fma(x0, c, v_neg(v_mul(x1, s))), n);
        v_store_n(x + half + i, v_fma(x1, c, v_mul(x0, s)), n);
    }
}

static void rowfn_kv_write(const struct krn_kv *kv, const uint32_t *pages, uint32_t pos,
                           uint32_t head, const float *k, const float *v) {
    uint32_t slot = pos % kv->page_tokens, tiles = kv->page_tokens / KRN_TILE;
    uint32_t d = kv->head_dim, j = slot % KRN_TILE;
    float *tile = (float *)(void *)(kv->pool + pages[pos / kv->page_tokens] * kv->page_bytes +
                                    kv->layer_off) +
                  (size_t)(head * tiles + slot / KRN_TILE) * 2 * d * KRN_TILE;
    for (uint32_t i = 0; i < d; i++)
        tile[(size_t)i * KRN_TILE + j] = k[i];
    memcpy(tile + (size_t)(KRN_TILE + j) * d, v, d * sizeof(float));
}

VEC_FN v16 gate_16(v16 g, v16 u) {
    v16 e = v_add(v_set1(1.0f), v_exp(v_neg(g)));
    return v_mul(v_div(g, e), u);
}

static void rowfn_gate(float *g, const float *u, uint32_t n) {
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(g + i, gate_16(v_load(g + i), v_load(u + i)));
    if (i < n)
        v_store_n(g + i, gate_16(v_load_n(g + i, n - i), v_load_n(u + i, n - i)), n - i);
}

VEC_FN v16 gate_gelu_16(v16 g, v16 u) {
    v16 t = v_mul(g, v_fma(v_mul(g, g), v_set1(KRN_GELU_3), v_set1(KRN_GELU_1)));
    v16 e = v_add(v_set1(1.0f), v_exp(v_neg(t)));
    return v_mul(v_div(g, e), u);
}

static void rowfn_gate_gelu(float *g, const float *u, uint32_t n) {
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(g + i, gate_gelu_16(v_load(g + i), v_load(u + i)));
    if (i < n)
        v_store_n(g + i, gate_gelu_16(v_load_n(g + i, n - i), v_load_n(u + i, n - i)), n - i);
}

static void rowfn_scale(float *x, float s, uint32_t n) {
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(x + i, v_mul(v_load(x + i), v_set1(s)));
    if (i < n)
        v_store_n(x + i, v_mul(v_load_n(x + i, n - i), v_set1(s)), n - i);
}

static void rowfn_mix(float *y, const float *x, float w, uint32_t n) {
    v16 wv = v_set1(w);
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(y + i, v_fma(wv, v_load(x + i), v_load(y + i)));
    if (i < n)
        v_store_n(y + i, v_fma(wv, v_load_n(x + i, n - i), v_load_n(y + i, n - i)), n - i);
}

static bool rowfn_finite(const float *x, uint32_t n) {
    uint32_t i = 0, good = 0xffffu;
    for (; i + 16 <= n; i += 16)
        good &= m_to_bits(v_is_finite(v_load(x + i)));
    if (i < n)
        good &= m_to_bits(v_is_finite(v_load_n(x + i, n - i)));
    return good == 0xffffu;
}

#endif
