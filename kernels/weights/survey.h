/* SPDX-License-Identifier: Apache-2.0
 * What a model's files say of themselves, also where no family of this build can run them: the
 * architecture's name and the tensors by type. For those who explain; nothing is computed from it.
 */
#ifndef KERNELS_WEIGHTS_SURVEY_H
#define KERNELS_WEIGHTS_SURVEY_H

#include <stdbool.h>
#include <stdint.h>

#include "actors/status.h"
#include "kernels/weights/json.h"

enum { KRN_SURVEY_TYPES = 48 };

struct krn_survey {
    char architecture[KRN_QUOTE_BYTES]; /* as the file names it, in printable ASCII; "" for none */
    uint64_t tensors, parameters;       /* elements of all tensors that say how many they have */
    uint64_t context;                   /* 0: not said */
    uint32_t n_types;
    struct {
        const char *word; /* a literal */
        bool readable;
        uint64_t tensors, bytes;
    } types[KRN_SURVEY_TYPES];
};

/* path as of krn_model_open. A file whose table is broken is an error, one of a model that this
 * build does not know is none. */
enum status krn_survey(const char *path, struct krn_survey *out, struct status_note *note);

#endif
