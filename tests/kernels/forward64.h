/* SPDX-License-Identifier: Apache-2.0
 * A model's logits in fp64, from its configuration and tensors alone: no op list, no row function,
 * no unpacking of ours. What a family computes is written down a second time, from its publication.
 */
#ifndef TESTS_KERNELS_FORWARD64_H
#define TESTS_KERNELS_FORWARD64_H

#include "kernels/model.h"

enum { FORWARD64_TOKENS = 16 };

/* The logits after each of n ids: [n][vocab], which the caller frees. What fails ends the program.
 * margin: the least distance, of all rows and layers, between the last expert that was chosen and
 * the first that was not; infinite without experts. */
double *forward64(const struct krn_model *model, const uint32_t *ids, uint32_t n, double *margin);
/* The largest difference of n values, relative to the largest of `want`. */
double forward64_error(const float *got, const double *want, size_t n);

#endif
