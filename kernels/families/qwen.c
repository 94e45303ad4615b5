/* SPDX-License-Identifier: Apache-2.0
 * The Qwen families. Qwen2 and 2.5: biases in the products to queries, keys and values and nowhere
 * else. Qwen3: no biases, but norms of each query and key head. Layers may attend within a window.
 * Qwen3 MoE: Qwen3's attention, a router and experts in every layer.
 */
#include "kernels/families/decoder.h"

static const struct krn_decoder qwen2 = {.head_norms = false};

static enum status qwen2_build(const struct krn_model *model, struct krn_net *out,
                               struct status_note *note) {
    return krn_decoder_build(&krn_family_qwen2, &qwen2, model, out, note);
}

static bool qwen2_weight(const struct krn_config *c, uint32_t index, struct krn_weight *out) {
    return krn_decoder_weight(&qwen2, c, index, out);
}

static const char *const qwen2_architectures[] = {"Qwen2ForCausalLM", NULL};

const struct krn_family krn_family_qwen2 = {.name = "qwen2",
                                            .architectures = qwen2_architectures,
                                            .build = qwen2_build,
                                            .weight = qwen2_weight};

static const struct krn_decoder qwen3 = {.head_norms = true};

static enum status qwen3_build(const struct krn_model *model, struct krn_net *out,
                               struct status_note *note) {
    return krn_decoder_build(&krn_family_qwen3, &qwen3, model, out, note);
}

static bool qwen3_weight(const struct krn_config *c, uint32_t index, struct krn_weight *out) {
    return krn_decoder_weight(&qwen3, c, index, out);
}

static const char *const qwen3_architectures[] = {"Qwen3ForCausalLM", NULL};

const struct krn_family krn_family_qwen3 = {.name = "qwen3",
                                            .architectures = qwen3_architectures,
                                            .build = qwen3_build,
                                            .weight = qwen3_weight};

static const struct krn_expert_names expert_names = {.router = "mlp.gate.weight",
                                                     .expert = "mlp.experts.",
                                                     .gate = "gate_proj.weight",
                                                     .up = "up_proj.weight",
                                                     .down = "down_proj.weight"};
static const struct krn_decoder qwen3_moe = {.head_norms = true, .experts = &expert_names};

static enum status qwen3_moe_build(const struct krn_model *model, struct krn_net *out,
                                   struct status_note *note) {
    return krn_decoder_build(&krn_family_qwen3_moe, &qwen3_moe, model, out, note);
}

static bool qwen3_moe_weight(const struct krn_config *c, uint32_t index, struct krn_weight *out) {
    return krn_decoder_weight(&qwen3_moe, c, index, out);
}

static const char *const qwen3_moe_architectures[] = {"Qwen3MoeForCausalLM", NULL};

const struct krn_family krn_family_qwen3_moe = {.name = "qwen3_moe",
                                                .architectures = qwen3_moe_architectures,
                                                .mixture = true,
                                                .build = qwen3_moe_build,
                                                .weight = qwen3_moe_weight};
