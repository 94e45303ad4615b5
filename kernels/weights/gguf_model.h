/* SPDX-License-Identifier: Apache-2.0
 * From a checked GGUF table to a model: metadata as struct krn_config, tensors under the names and
 * in the row order of the Hugging Face layout, so that both kinds of file give one model.
 */
#ifndef KERNELS_WEIGHTS_GGUF_MODEL_H
#define KERNELS_WEIGHTS_GGUF_MODEL_H

#include "kernels/weights/gguf.h"
#include "kernels/weights/shards.h"

/* The configuration; a key of the architecture that this build does not honour is refused by name.
 */
enum status krn_gguf_config(const struct krn_gguf *g, struct krn_config *out,
                            struct status_note *note);

/* The file's entry of that name, or NULL. */
const struct krn_entry *krn_gguf_entry(const struct krn_gguf *g, const char *name);

/* gguf: the GGUF file that path means, empty for a directory of the Hugging Face layout. */
enum status krn_gguf_path(const char *path, char gguf[KRN_PATH_MAX], struct status_note *note);
/* Opens one file as a model. On failure *out is untouched and nothing stays mapped. */
enum status krn_gguf_open(const char *path, struct krn_model **out, struct status_note *note);

#endif
