/* SPDX-License-Identifier: Apache-2.0
 * Matrices that a directory's files store as F8_E4M3 with scales beside them: what
 * quantization_config says of them, and their values (numerics.md 12). They become F32 when the
 * model is opened.
 */
#ifndef KERNELS_WEIGHTS_FP8_H
#define KERNELS_WEIGHTS_FP8_H

#include "kernels/weights/json.h"
#include "kernels/weights/shards.h"
#include "kernels/weights/store.h"

/* Reads quantization_config, where there is one; a scheme that this build does not compute is a
 * fault that names it. */
void krn_fp8_config(struct krn_fields *f, struct krn_config *c);

/* Matrices of the files that will be made, and those tensors that are their scales. */
uint32_t krn_fp8_count(const struct krn_config *c, const struct krn_shards *shards);
bool krn_fp8_is(const struct krn_config *c, const struct krn_entry *e);
bool krn_fp8_is_scale(const struct krn_config *c, const struct krn_shards *shards,
                      const struct krn_entry *e);

/* The values of one such matrix into owned memory of the model. files: the mappings behind shards,
 * which the model may have taken over; name outlives the model's tensors. */
enum status krn_fp8_widen(struct krn_model *model, const struct krn_shards *shards,
                          const struct krn_file *files, const struct krn_file *file,
                          const struct krn_entry *e, const char *name, struct status_note *note);

#endif
