/* SPDX-License-Identifier: Apache-2.0
 * What stands behind a krn_model: its mappings, owned memory and the tensors that this build cannot
 * read. Also the way in which a model is put together, the same for files and for synthetic
 * weights.
 */
#ifndef KERNELS_WEIGHTS_STORE_H
#define KERNELS_WEIGHTS_STORE_H

#include "kernels/model.h"
#include "kernels/weights/file.h"

/* A tensor of the files with a type or rank that no row function reads; an error only where a
 * family asks for it. */
struct krn_unusable {
    const char *name, *dtype;
    uint32_t n_dims;
    uint64_t bytes;
};

struct krn_store {
    uint32_t n_files, n_blocks, n_unusable;
    struct krn_file *files;
    void **blocks; /* owned memory: names, copies of misaligned tensors, synthetic weights */
    struct krn_unusable *unusable; /* sorted by name */
};

/* A model with an empty store; n_tensors and the store's counts are the most that will be added. */
struct krn_model *krn_store_new(uint32_t n_tensors, uint32_t n_files, uint32_t n_blocks,
                                uint32_t n_unusable);
/* Owned memory of the model, 64-byte aligned; NULL when there is none. */
void *krn_store_block(struct krn_model *model, uint64_t bytes);
/* Sorts tensors by name, counts parameters and computes the fingerprint. */
enum status krn_store_seal(struct krn_model *model, struct status_note *note);

const struct krn_unusable *krn_store_unusable(const struct krn_model *model, const char *name);

#endif
