/* SPDX-License-Identifier: Apache-2.0
 * The Mistral family: Llama's blocks, and a window over all layers when the configuration has one.
 * Positions stay absolute and every page is kept.
 */
#include "kernels/families/decoder.h"

static const struct krn_decoder mistral = {.head_norms = false};

static enum status mistral_build(const struct krn_model *model, struct krn_net *out,
                                 struct status_note *note) {
    return krn_decoder_build(&krn_family_mistral, &mistral, model, out, note);
}

static bool mistral_weight(const struct krn_config *c, uint32_t index, struct krn_weight *out) {
    return krn_decoder_weight(&mistral, c, index, out);
}

static const char *const mistral_architectures[] = {"MistralForCausalLM", NULL};

const struct krn_family krn_family_mistral = {.name = "mistral",
                                              .architectures = mistral_architectures,
                                              .build = mistral_build,
                                              .weight = mistral_weight};
