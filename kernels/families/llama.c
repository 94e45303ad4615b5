/* SPDX-License-Identifier: Apache-2.0
 * The Llama family: the decoder as it is.
 */
#include "kernels/families/decoder.h"

static const struct krn_decoder llama = {.head_norms = false};

static enum status llama_build(const struct krn_model *model, struct krn_net *out,
                               struct status_note *note) {
    return krn_decoder_build(&krn_family_llama, &llama, model, out, note);
}

static bool llama_weight(const struct krn_config *c, uint32_t index, struct krn_weight *out) {
    return krn_decoder_weight(&llama, c, index, out);
}

static const char *const llama_architectures[] = {"LlamaForCausalLM", NULL};

const struct krn_family krn_family_llama = {.name = "llama",
                                            .architectures = llama_architectures,
                                            .build = llama_build,
                                            .weight = llama_weight};
