/* SPDX-License-Identifier: Apache-2.0
 * Small models of every family and what each can have, with rows of 256 so that every blocked
 * format fits, and windows shorter than the tests' sessions.
 */
#ifndef TESTS_KERNELS_FAMILY_MODELS_H
#define TESTS_KERNELS_FAMILY_MODELS_H

#include "kernels/model.h"

#define FAMILY_BASE(name)                                                                          \
    .family = name, .vocab = 60, .hidden = 256, .layers = 2, .heads = 8, .kv_heads = 2,            \
    .head_dim = 32, .ffn = 256, .context = 128, .norm_eps = 0x1p-18F,                              \
    .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000.0}, .bos = -1, .top_p = 1.0F
#define FAMILY_GEMMA                                                                               \
    FAMILY_BASE("gemma3"), .has_local_rope = true,                                                 \
                           .local_rope = {.kind = KRN_ROPE_PLAIN, .theta = 500.0},                 \
                           .score_scalar = 32

static const struct krn_config family_models[] = {
    {FAMILY_BASE("llama"), .tied = true},
    {FAMILY_BASE("llama"), .attn_bias = true, .attn_out_bias = true, .mlp_bias = true},
    {FAMILY_BASE("mistral"), .window = 4, .windowed = {3}},
    {FAMILY_BASE("mixtral"), .experts = 4, .experts_used = 2, .experts_norm = true},
    {FAMILY_BASE("mixtral"), .tied = true, .experts = 3, .experts_used = 1, .experts_norm = true,
     .window = 5, .windowed = {3}},
    {FAMILY_BASE("qwen2"), .tied = true, .attn_bias = true},
    {FAMILY_BASE("qwen2"), .attn_bias = true, .window = 3, .windowed = {2}},
    {FAMILY_BASE("qwen3"), .tied = true},
    {FAMILY_BASE("qwen3"), .attn_bias = true, .attn_out_bias = true, .window = 5, .windowed = {1}},
    {FAMILY_BASE("qwen3_moe"), .experts = 6, .experts_used = 3, .experts_norm = true},
    {FAMILY_BASE("qwen3_moe"), .tied = true, .experts = 5, .experts_used = 2},
    {FAMILY_BASE("qwen3_moe"), .tied = true, .experts = 3, .experts_used = 2, .experts_norm = true,
     .dense = {1}, .dense_ffn = 512, .window = 5, .windowed = {3}},
    {FAMILY_GEMMA, .tied = true, .window = 4, .windowed = {1}},
    {FAMILY_GEMMA, .attn_bias = true, .attn_out_bias = true},
};
enum { FAMILY_MODELS = sizeof family_models / sizeof family_models[0] };

#endif
