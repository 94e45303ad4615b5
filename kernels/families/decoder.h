/* SPDX-License-Identifier: Apache-2.0
 * What the families of decoders share: pre-norm blocks of grouped-query attention with rotary
 * positions and a gated MLP or a mixture of them, untied or tied output, biases and windows as the
 * configuration says.
 * A family names what its blocks have beyond that.
 */
#ifndef KERNELS_FAMILIES_DECODER_H
#define KERNELS_FAMILIES_DECODER_H

#include "kernels/families/family.h"

/* What a mixture's weights are called, behind "model.layers.N.". */
struct krn_expert_names {
    const char *router;
    const char *expert; /* the prefix before an expert's number */
    const char *gate, *up, *down;
};

struct krn_decoder {
    bool head_norms; /* RMS norms of each query and key head, before the rotation */
    bool sandwich;   /* norms also of what attention and MLP add to the residual stream */
    bool one_more;   /* norms multiply by 1 + w */
    bool gelu;       /* the gate is gelu's tanh form */
    bool root_embed; /* embeddings times the root of hidden, rounded to the embeddings' type */
    const struct krn_expert_names *experts; /* of a family of mixtures, else NULL */
};

/* The parts of struct krn_family. */
enum status krn_decoder_build(const struct krn_family *family, const struct krn_decoder *decoder,
                              const struct krn_model *model, struct krn_net *out,
                              struct status_note *note);
bool krn_decoder_weight(const struct krn_decoder *decoder, const struct krn_config *config,
                        uint32_t index, struct krn_weight *out);

#endif
