/* SPDX-License-Identifier: Apache-2.0
 * The Mixtral family: Mistral's attention, and in each layer a router and experts; the weights of
 * the experts that a row uses sum to 1.
 */
#include "kernels/families/decoder.h"

static const struct krn_expert_names names = {.router = "block_sparse_moe.gate.weight",
                                              .expert = "block_sparse_moe.experts.",
                                              .gate = "w1.weight",
                                              .up = "w3.weight",
                                              .down = "w2.weight"};
static const struct krn_decoder mixtral = {.experts = &names};

static enum status mixtral_build(const struct krn_model *model, struct krn_net *out,
                                 struct status_note *note) {
    return krn_decoder_build(&krn_family_mixtral, &mixtral, model, out, note);
}

static bool mixtral_weight(const struct krn_config *c, uint32_t index, struct krn_weight *out) {
    return krn_decoder_weight(&mixtral, c, index, out);
}

static const char *const mixtral_architectures[] = {"MixtralForCausalLM", NULL};

const struct krn_family krn_family_mixtral = {.name = "mixtral",
                                              .architectures = mixtral_architectures,
                                              .mixture = true,
                                              .build = mixtral_build,
                                              .weight = mixtral_weight};
