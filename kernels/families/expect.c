/* SPDX-License-Identifier: Apache-2.0
 * Weights as the family expects them.
 */
#include "kernels/families/expect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernels/quant/quant.h"
#include "kernels/weights/store.h"

static const char *shape_text(char *out, size_t bytes, uint32_t n_dims, const uint64_t *dims) {
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < n_dims && at < bytes; i++)
        at += (size_t)snprintf(out + at, bytes - at, "%s%" PRIu64, i == 0 ? "" : ", ", dims[i]);
    return out;
}

static enum status weight_check(const struct krn_model *model, const struct krn_weight *w,
                                struct status_note *note) {
    const struct krn_tensor *t = krn_model_tensor(model, w->name);
    char expected[96], found[96];
    shape_text(expected, sizeof expected, w->n_dims, w->dims);
    if (t == NULL) {
        const struct krn_unusable *u = krn_store_unusable(model, w->name);
        if (u != NULL) {
            char blocked[96];
            krn_format_words(KRN_DTYPES, blocked, sizeof blocked);
            return status_say(
                note, STATUS_BAD_MODEL,
                "tensor %s is %s with %u dimensions; this build reads F32, F16 and BF16 "
                "with 1 to %d, and matrices of %s",
                w->name, u->dtype, u->n_dims, KRN_DIMS_MAX, blocked);
        }
        return status_say(note, STATUS_BAD_MODEL, "tensor %s of shape [%s] is missing", w->name,
                          expected);
    }
    if (t->n_dims != w->n_dims || memcmp(t->dims, w->dims, w->n_dims * sizeof w->dims[0]) != 0)
        return status_say(note, STATUS_BAD_MODEL, "tensor %s has shape [%s], expected [%s]",
                          w->name, shape_text(found, sizeof found, t->n_dims, t->dims), expected);
    return STATUS_OK;
}

enum status krn_expect_weights(const struct krn_family *family, const struct krn_model *model,
                               struct status_note *note) {
    struct krn_weight w;
    for (uint32_t i = 0; family->weight(&model->config, i, &w); i++)
        TRY(weight_check(model, &w, note));
    return STATUS_OK;
}
