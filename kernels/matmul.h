/* SPDX-License-Identifier: Apache-2.0
 * How a profile's products are computed on this machine: the packing of weights, what rows are
 * rounded to before a product reads them, and the product itself. One entry a profile's activation
 * type and instruction set (kernels/matmul.c); all entries of one profile give the same bits. Any
 * thread may call what an entry points to; nothing there allocates or keeps state.
 */
#ifndef KERNELS_MATMUL_H
#define KERNELS_MATMUL_H

#include "kernels/rowfn.h"

struct krn_matmul {
    const char *isa; /* of the product: that of the row functions, or "vnni", "amx" */
    /* Whether products with weights of this stored type read rounded rows (krn_product.q) in place
     * of fp32 ones (krn_product.x). */
    bool (*rounds)(enum krn_dtype weight);
    /* Bytes of a rounded row of k inputs, a multiple of 64. */
    size_t (*row_bytes)(uint32_t k);
    /* Rounds a row; out is 64-byte aligned. */
    void (*round)(const float *x, uint32_t k, void *out);
    /* krn_packed_bytes and krn_pack of rowfn.h, in this profile's order. */
    uint64_t (*packed_bytes)(enum krn_dtype dtype, uint32_t n, uint32_t k);
    void (*pack)(const struct krn_tensor *w, uint32_t row0, uint32_t n, uint32_t col0, uint32_t k,
                 void *out, struct krn_packed *p);
    /* As in krn_rowfn, of what pack made. */
    void (*embed)(const struct krn_packed *w, uint32_t token, float *y);
    void (*product)(const struct krn_product *p, uint32_t block0, uint32_t block1, void *scratch);
};

/* How a profile keeps and attends keys and values, by krn_profile.kv. */
struct krn_attention {
    /* Of 64 keys and values of a head; krn_kv's tiles are so far apart. */
    size_t (*tile_bytes)(uint32_t head_dim);
    /* As in krn_rowfn. */
    void (*kv_write)(const struct krn_kv *kv, const uint32_t *pages, uint32_t pos, uint32_t head,
                     const float *k, const float *v);
    void (*attend)(const struct krn_attend *a, uint32_t unit0, uint32_t unit1, void *scratch);
};

/* tile_bytes of a profile. */
size_t krn_kv_tile_bytes(const struct krn_profile *profile, uint32_t head_dim);
/* After krn_matmul_open of the same profile and row functions. */
enum status krn_attention_open(const struct krn_profile *profile, const struct krn_rowfn *fn,
                               struct krn_attention *out, struct status_note *note);

/* The entry for a profile beside the row functions fn. Asks the kernel for what the instructions
 * need, and runs the self-test once a table. Called on the thread that opens devices. UNSUPPORTED
 * says what this machine lacks or which digest differs. */
enum status krn_matmul_open(const struct krn_profile *profile, const struct krn_rowfn *fn,
                            struct krn_matmul *out, struct status_note *note);

#endif
