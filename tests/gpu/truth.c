/* SPDX-License-Identifier: Apache-2.0
 * What tests/gpu/truth.h says.
 */
#include "tests/gpu/truth.h"

#include <stdlib.h>
#include <xxhash.h>

#include "kernels/oracle.h"

#define BASE                                                                                       \
    .layers = 2, .context = 256, .norm_eps = 1e-5F, .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000}
const struct truth_shape truth_shapes[TRUTH_SHAPES] = {
    {"multi-head",
     {BASE, .vocab = 131, .hidden = 48, .heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 64,
      .tied = true},
     KRN_F32,
     4},
    {"grouped",
     {BASE, .vocab = 160, .hidden = 64, .heads = 4, .kv_heads = 2, .head_dim = 32, .ffn = 192,
      .tied = true},
     KRN_BF16,
     4},
    {"eight",
     {BASE, .vocab = 257, .hidden = 80, .heads = 8, .kv_heads = 2, .head_dim = 16, .ffn = 256,
      .tied = false},
     KRN_F16,
     8},
    {"one",
     {BASE, .vocab = 33, .hidden = 33, .heads = 3, .kv_heads = 1, .head_dim = 48, .ffn = 80,
      .tied = false},
     KRN_BF16,
     1},
    {"biased",
     {BASE, .vocab = 300, .hidden = 64, .heads = 2, .kv_heads = 2, .head_dim = 64, .ffn = 96,
      .tied = false, .attn_bias = true, .attn_out_bias = true, .mlp_bias = true},
     KRN_F32,
     2},
    {"llama3",
     {.layers = 1,
      .context = 256,
      .norm_eps = 1e-6F,
      .vocab = 96,
      .hidden = 32,
      .heads = 4,
      .kv_heads = 1,
      .head_dim = 16,
      .ffn = 64,
      .tied = true,
      .rope = {KRN_ROPE_LLAMA3, 500000, 8, 1, 4, 64}},
     KRN_F16,
     4},
    {"two",
     {BASE, .vocab = 64, .hidden = 64, .heads = 6, .kv_heads = 6, .head_dim = 16, .ffn = 32,
      .tied = true},
     KRN_BF16,
     2},
    {"qwen2",
     {BASE, .family = "qwen2", .vocab = 80, .hidden = 48, .heads = 4, .kv_heads = 2, .head_dim = 16,
      .ffn = 128, .tied = true, .attn_bias = true, .window = 70, .windowed = {2}},
     KRN_BF16,
     4},
    {"mistral",
     {BASE, .family = "mistral", .vocab = 96, .hidden = 64, .heads = 4, .kv_heads = 1,
      .head_dim = 32, .ffn = 64, .tied = false, .window = 50, .windowed = {3}},
     KRN_F16,
     4},
    {"qwen3",
     {BASE, .family = "qwen3", .vocab = 70, .hidden = 40, .heads = 8, .kv_heads = 4, .head_dim = 32,
      .ffn = 128, .tied = false},
     KRN_F32,
     8},
    {"gemma3",
     {BASE, .family = "gemma3", .vocab = 75, .hidden = 56, .heads = 4, .kv_heads = 2,
      .head_dim = 32, .ffn = 128, .tied = true, .window = 66, .windowed = {1},
      .has_local_rope = true, .local_rope = {.kind = KRN_ROPE_PLAIN, .theta = 500},
      .score_scalar = 20},
     KRN_BF16,
     4},
    {"qwen3_moe",
     {BASE, .family = "qwen3_moe", .vocab = 61, .hidden = 40, .heads = 8, .kv_heads = 2,
      .head_dim = 32, .ffn = 128, .tied = true, .experts = 17, .experts_used = 5,
      .experts_norm = true},
     KRN_BF16,
     8},
    {"qwen3_moe-softmax",
     {BASE, .family = "qwen3_moe", .vocab = 50, .hidden = 56, .heads = 4, .kv_heads = 4,
      .head_dim = 16, .ffn = 64, .tied = false, .experts = 40, .experts_used = 8},
     KRN_F16,
     4},
    {"qwen3_moe-dense", /* a wide MLP in the first layer, experts in the second; a window */
     {BASE, .family = "qwen3_moe", .vocab = 64, .hidden = 48, .heads = 4, .kv_heads = 2,
      .head_dim = 32, .ffn = 64, .tied = true, .experts = 6, .experts_used = 2,
      .experts_norm = true, .dense = {1}, .dense_ffn = 192, .window = 60, .windowed = {3}},
     KRN_BF16,
     4},
    {"mixtral",
     {BASE, .family = "mixtral", .vocab = 90, .hidden = 72, .heads = 8, .kv_heads = 4,
      .head_dim = 16, .ffn = 256, .tied = false, .experts = 4, .experts_used = 2,
      .experts_norm = true, .window = 77, .windowed = {3}},
     KRN_F32,
     8},
};

void truth_make(struct truth *t, const struct rig_model *m, uint64_t seed) {
    truth_begin(t, m, seed, TRUTH_LENGTH);
}

void truth_begin(struct truth *t, const struct rig_model *m, uint64_t seed, uint32_t n) {
    struct status_note note = {{0}};
    struct krn_oracle *o;
    uint32_t vocab = m->model->config.vocab;
    float *row = malloc(vocab * sizeof *row);
    CHECK(row != NULL);
    rig_ok(krn_oracle_open(&m->net, &m->profile, TRUTH_CONTEXT, &o, &note), &note);
    for (uint32_t i = 0; i < n; i++) {
        struct krn_drawn drawn;
        t->ids[i] = (uint32_t)(test_random(&seed) % vocab);
        CHECK(krn_oracle_feed(o, t->ids[i], row));
        t->hashes[i] = XXH3_64bits(row, vocab * sizeof *row);
        krn_oracle_draw(row, vocab, &test_greedy, t->ids, i + 1, i + 1, NULL, 0, NULL, &drawn);
        t->greedy[i] = drawn.token;
    }
    krn_oracle_close(o);
    free(row);
}
