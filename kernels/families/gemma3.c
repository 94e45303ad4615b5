/* SPDX-License-Identifier: Apache-2.0
 * The Gemma 3 family, text: norms around attention and MLP that multiply by 1 + w, norms of heads,
 * a gelu gate, scaled embeddings, layers of a window with angles of their own between layers that
 * see everything.
 */
#include "kernels/families/decoder.h"

static const struct krn_decoder gemma3 = {
    .head_norms = true, .sandwich = true, .one_more = true, .gelu = true, .root_embed = true};

static enum status gemma3_build(const struct krn_model *model, struct krn_net *out,
                                struct status_note *note) {
    return krn_decoder_build(&krn_family_gemma3, &gemma3, model, out, note);
}

static bool gemma3_weight(const struct krn_config *c, uint32_t index, struct krn_weight *out) {
    return krn_decoder_weight(&gemma3, c, index, out);
}

static const char *const gemma3_architectures[] = {"Gemma3ForCausalLM", NULL};

const struct krn_family krn_family_gemma3 = {.name = "gemma3",
                                             .architectures = gemma3_architectures,
                                             .build = gemma3_build,
                                             .weight = gemma3_weight};
