/* SPDX-License-Identifier: Apache-2.0
 * The oracle's row functions: one row, plain loops, unpacked tensors, contiguous keys and values.
 * Written from numerics.md alone, so that a mistake in the tables and one here would have to be the
 * same mistake. Private to kernels/, its tests and the self-test of a GPU.
 */
#ifndef KERNELS_ORACLE_ROWS_H
#define KERNELS_ORACLE_ROWS_H

#include "kernels/rowfn.h"

/* Element i of a tensor in a blocked format (numerics.md 12). */
float krn_oracle_blocked(enum krn_dtype type, const void *data, uint64_t i);
/* Element i of a tensor of any dtype, widened. */
float krn_oracle_element(const struct krn_tensor *w, uint64_t i);
/* Elements [i, i + 32) in the parts of numerics.md 14.2: a whole number each, the factor of each
 * half, and what is added, if anything. */
struct krn_oracle_block {
    int whole[32];
    float factor[2], added;
    bool adds;
};
void krn_oracle_block(enum krn_dtype type, const void *data, uint64_t i,
                      struct krn_oracle_block *out);
/* y[i] = w[row][i]. */
void krn_oracle_embed(const struct krn_tensor *w, uint32_t row, float *y);
/* w: n floats of any dtype. */
void krn_oracle_norm(const float *x, const struct krn_tensor *w, float *y, uint32_t n, float eps);
/* The same by 1 + w. */
void krn_oracle_norm_more(const float *x, const struct krn_tensor *w, float *y, uint32_t n,
                          float eps);
/* y[n] (+)= tree(x . w[n]) + bias[n]; bias may be NULL. */
void krn_oracle_product(const float *x, const struct krn_tensor *w, uint32_t segments,
                        const struct krn_tensor *bias, bool add, float *y);
/* y[n] = the chain of x and w[n] over inputs [begin, end) alone. */
void krn_oracle_segment(const float *x, const struct krn_tensor *w, uint32_t begin, uint32_t end,
                        float *y);
/* The experts of a row, ascending, and their weights (numerics.md 13). */
void krn_oracle_route(const float *logits, uint32_t n, uint32_t used, bool norm, uint32_t *chosen,
                      float *weights);
/* Those of the profile amx-bf16 (numerics.md 15); scratch: twice as many floats as w has
 * inputs. */
void krn_oracle_embed_bf16(const struct krn_tensor *w, uint32_t row, float *y);
void krn_oracle_product_bf16(const float *x, const struct krn_tensor *w, uint32_t segments,
                             const struct krn_tensor *bias, bool add, float *y, float *scratch);
void krn_oracle_segment_bf16(const float *x, const struct krn_tensor *w, uint32_t begin,
                             uint32_t end, float *y, float *scratch);
/* krn_oracle_product and krn_oracle_segment of profile q8 (numerics.md 14). */
void krn_oracle_product_q8(const float *x, const struct krn_tensor *w, uint32_t segments,
                           const struct krn_tensor *bias, bool add, float *y);
void krn_oracle_segment_q8(const float *x, const struct krn_tensor *w, uint32_t begin, uint32_t end,
                           float *y);
void krn_oracle_rope(float *x, const float *cs, uint32_t head_dim);
void krn_oracle_gate(float *g, const float *u, uint32_t n);
void krn_oracle_gate_gelu(float *g, const float *u, uint32_t n);
void krn_oracle_scale(float *x, float s, uint32_t n);
bool krn_oracle_finite(const float *x, uint32_t n);

/* One row at position pos: keys and values are [position][kv_heads * head_dim]. */
struct krn_oracle_attend {
    const float *q, *keys, *values;
    uint32_t pos, heads, kv_heads, head_dim, window, segment;
    float scale;
    float *out;
};
void krn_oracle_attend(const struct krn_oracle_attend *a);
/* numerics.md 15.6; keys and values are rounded already. */
void krn_oracle_attend_bf16(const struct krn_oracle_attend *a);
void krn_oracle_round_bf16(float *x, uint32_t n);

/* Those of cuda-bf16-sm90 (numerics.md 16); scratch as above. */
void krn_oracle_round_cuda(float *x, uint32_t n);
void krn_oracle_product_cuda(const float *x, const struct krn_tensor *w, uint32_t segments,
                             const struct krn_tensor *bias, bool add, float *y, float *scratch);
void krn_oracle_segment_cuda(const float *x, const struct krn_tensor *w, uint32_t begin,
                             uint32_t end, float *y, float *scratch);
void krn_oracle_attend_cuda(const struct krn_oracle_attend *a);

#endif
