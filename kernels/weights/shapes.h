/* SPDX-License-Identifier: Apache-2.0
 * Configurations of published models by a short name, for benchmarks that need dimensions and no
 * file.
 */
#ifndef KERNELS_WEIGHTS_SHAPES_H
#define KERNELS_WEIGHTS_SHAPES_H

#include "kernels/model.h"

/* NOT_FOUND names all that there are. */
enum status krn_shape_config(const char *name, struct krn_config *out, struct status_note *note);

#endif
