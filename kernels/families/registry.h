/* SPDX-License-Identifier: Apache-2.0
 * The families that this build knows, by name and by the architecture names of config.json.
 */
#ifndef KERNELS_FAMILIES_REGISTRY_H
#define KERNELS_FAMILIES_REGISTRY_H

#include <stddef.h>

#include "kernels/families/family.h"

/* NULL when no family has that name. */
const struct krn_family *krn_family_named(const char *name);
const struct krn_family *krn_family_of_architecture(const char *architecture);
/* "LlamaForCausalLM, ...", cut to fit. */
void krn_family_architectures(char *out, size_t bytes);

#endif
