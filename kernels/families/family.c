/* SPDX-License-Identifier: Apache-2.0
 * The registry of families, and the parts of building that are the same for each.
 */
#include "kernels/families/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/families/registry.h"

static const struct krn_family *const families[] = {
    &krn_family_llama,  &krn_family_mistral,   &krn_family_qwen2,  &krn_family_qwen3,
    &krn_family_gemma3, &krn_family_qwen3_moe, &krn_family_mixtral};
enum { FAMILIES = sizeof families / sizeof families[0] };

const struct krn_family *krn_family_named(const char *name) {
    for (unsigned i = 0; i < FAMILIES; i++)
        if (strcmp(families[i]->name, name) == 0)
            return families[i];
    return NULL;
}

const struct krn_family *krn_family_of_architecture(const char *architecture) {
    for (unsigned i = 0; i < FAMILIES; i++)
        for (const char *const *a = families[i]->architectures; *a != NULL; a++)
            if (strcmp(*a, architecture) == 0)
                return families[i];
    return NULL;
}

void krn_family_architectures(char *out, size_t bytes) {
    CHECK(bytes > 0);
    out[0] = '\0';
    size_t at = 0;
    for (unsigned i = 0; i < FAMILIES; i++) {
        for (const char *const *a = families[i]->architectures; *a != NULL; a++) {
            int n = snprintf(out + at, bytes - at, "%s%s", at == 0 ? "" : ", ", *a);
            if (n < 0 || (size_t)n >= bytes - at)
                return;
            at += (size_t)n;
        }
    }
}

enum status krn_net_build(const struct krn_model *model, struct krn_net *out,
                          struct status_note *note) {
    const struct krn_family *family = krn_family_named(model->config.family);
    if (family == NULL) {
        char known[240];
        krn_family_architectures(known, sizeof known);
        return status_say(note, STATUS_BAD_MODEL,
                          "family \"%.23s\" is unknown; this build knows %s", model->config.family,
                          known);
    }
    return family->build(model, out, note);
}

void krn_net_free(struct krn_net *net) {
    free((void *)(uintptr_t)net->ops);
    free((void *)(uintptr_t)net->experts);
    *net = (struct krn_net){0};
}
