/* SPDX-License-Identifier: Apache-2.0
 * Synthetic GGUF files for tests: keys, tensors and data put together as the format says, or with
 * one lie; a simple quantiser; and the value of every blocked element in fp64, which is exact.
 * Written from the published layouts, sharing no code with the reader. What fails ends the program.
 */
#ifndef TESTS_KERNELS_GGUF_MAKE_H
#define TESTS_KERNELS_GGUF_MAKE_H

#include "kernels/model.h"

enum { GGUF_MAKE_TENSORS = 160 };

struct gguf_bytes {
    unsigned char *at;
    size_t n, room;
};

struct gguf_made {
    char name[128];
    uint64_t name_bytes; /* 0: the name's own length */
    uint32_t n_dims, type;
    uint64_t dims[8]; /* innermost first */
    uint64_t offset;  /* from the start of the data */
};

struct gguf_make {
    uint32_t version, n_tensors;
    uint64_t n_keys, alignment, lie_keys, lie_tensors; /* lies: 0 for the truth */
    struct gguf_bytes keys, data;
    struct gguf_made tensors[GGUF_MAKE_TENSORS];
};

void gguf_put(struct gguf_bytes *b, const void *bytes, size_t n);
void gguf_put_number(struct gguf_bytes *b, uint64_t value, unsigned bytes);

void gguf_begin(struct gguf_make *m, uint32_t version, uint64_t alignment);
/* A key with raw value bytes behind its type. */
void gguf_key(struct gguf_make *m, const char *key, uint32_t type, const void *value, size_t n);
void gguf_key_u32(struct gguf_make *m, const char *key, uint32_t value);
void gguf_key_f32(struct gguf_make *m, const char *key, float value);
void gguf_key_text(struct gguf_make *m, const char *key, const char *text);
struct gguf_made *gguf_tensor(struct gguf_make *m, const char *name, uint32_t type, uint32_t n_dims,
                              const uint64_t *dims, const void *data, size_t bytes);
/* The whole file, which the caller frees. */
unsigned char *gguf_end(struct gguf_make *m, size_t *n);

/* Metadata of a model as its converter writes it. */
void gguf_model_keys(struct gguf_make *m, const struct krn_config *c);
/* All tensors of a model under the file's names and in the file's row order. Matrices become
 * `type`; vectors keep theirs, or become f32. */
void gguf_model_tensors(struct gguf_make *m, const struct krn_model *model, enum krn_dtype type,
                        bool vectors_f32);
/* The same with matrices of the values that gguf_model_tensors stores, but as f32. */
void gguf_model_values(struct gguf_make *m, const struct krn_model *model, enum krn_dtype type);

/* The number of a type in a file, elements and bytes of a block. */
uint32_t gguf_type_number(enum krn_dtype type);
uint32_t gguf_block(enum krn_dtype type);
uint32_t gguf_block_bytes(enum krn_dtype type);
/* Element i of a block, exact. */
double gguf_value(enum krn_dtype type, const unsigned char *block, uint32_t i);
/* The nearest codes under simple scales. */
void gguf_quantise(enum krn_dtype type, const float *x, unsigned char *block);

#endif
