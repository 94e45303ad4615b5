/* SPDX-License-Identifier: Apache-2.0
 * The safetensors files of a model directory: model.safetensors, or the files that
 * model.safetensors.index.json maps its tensors to. Index and files must agree in both directions.
 */
#ifndef KERNELS_WEIGHTS_SHARDS_H
#define KERNELS_WEIGHTS_SHARDS_H

#include "kernels/weights/file.h"
#include "kernels/weights/safetensors.h"

enum { KRN_SHARDS_MAX = 4096, KRN_INDEX_FILE_MAX = KRN_HEADER_MAX, KRN_PATH_MAX = 4096 };

/* A tensor of the files. */
struct krn_place {
    const struct krn_entry *entry;
    uint32_t shard;
};

struct krn_shards {
    uint32_t n;
    struct krn_file *files;
    struct krn_table *tables;
    uint64_t n_places;
    struct krn_place *places; /* of all tables, by name */
};

/* On failure *out is empty and nothing stays mapped. */
enum status krn_shards_open(const char *dir, struct krn_shards *out, struct status_note *note);
void krn_shards_close(struct krn_shards *shards);
/* The tensor whose name is `first` with `second` behind it, or NULL. */
const struct krn_place *krn_shards_find(const struct krn_shards *shards, const char *first,
                                        const char *second);

/* dir/name into path; TOO_LARGE when it does not fit. */
enum status krn_path_join(char path[KRN_PATH_MAX], const char *dir, const char *name,
                          struct status_note *note);

#endif
