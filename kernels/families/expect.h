/* SPDX-License-Identifier: Apache-2.0
 * Checking a model's weights against its family's list: presence, type and shape, by name.
 */
#ifndef KERNELS_FAMILIES_EXPECT_H
#define KERNELS_FAMILIES_EXPECT_H

#include "kernels/families/family.h"

/* BAD_MODEL names the first weight that is missing or differs, with the expected and the found
 * shape. */
enum status krn_expect_weights(const struct krn_family *family, const struct krn_model *model,
                               struct status_note *note);

#endif
