/* SPDX-License-Identifier: Apache-2.0
 * The table of one safetensors file, checked in full: after a parse every tensor lies inside the
 * file, its bytes agree with its type and shape, and the tensors cover the data without overlap or
 * hole. Layout: u64 little-endian header length N, N bytes of JSON, data; offsets count from the
 * start of the data.
 */
#ifndef KERNELS_WEIGHTS_SAFETENSORS_H
#define KERNELS_WEIGHTS_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/model.h"

enum {
    KRN_HEADER_MAX = 100000000, /* the format's own limit */
    KRN_TENSORS_MAX = 1 << 20,
    KRN_NAME_MAX = 1024
};

struct krn_entry {
    const char *name;  /* lives in the table */
    const char *dtype; /* the file's word for it, a literal */
    bool usable; /* f32, f16 or bf16 with 1 to KRN_DIMS_MAX dimensions: type and dims are set */
    enum krn_dtype type;
    uint32_t n_dims; /* as the file has them, also above KRN_DIMS_MAX */
    uint64_t dims[KRN_DIMS_MAX];
    uint64_t offset, bytes; /* offset from the start of the file */
};

struct krn_table {
    uint32_t n;
    struct krn_entry *entries; /* in the order of their data */
    char *names;
};

/* file: label for messages. On failure *out is empty. */
enum status krn_table_parse(const char *file, const unsigned char *bytes, uint64_t size,
                            struct krn_table *out, struct status_note *note);
void krn_table_free(struct krn_table *table);

/* Bytes of one element of a usable type. */
uint32_t krn_dtype_bytes(enum krn_dtype type);
const char *krn_dtype_word(enum krn_dtype type);

#endif
