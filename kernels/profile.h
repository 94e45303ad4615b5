/* SPDX-License-Identifier: Apache-2.0
 * A numerics profile: data that fixes every order of additions and every rounding point of the row
 * functions (kernels/numerics.md). Part of the session key, the plan digest's chain start and the
 * prove receipt.
 */
#ifndef KERNELS_PROFILE_H
#define KERNELS_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "actors/status.h"

/* The first KRN_DTYPES are what row functions read; the blocked formats behind them
 * (kernels/quant/) stay blocked when a weight is packed (quant/cell.h). The numbers are part of
 * fingerprints. */
enum krn_dtype {
    KRN_F32,
    KRN_F16,
    KRN_BF16,
    KRN_DTYPES,
    KRN_Q8_0 = KRN_DTYPES,
    KRN_Q4_0,
    KRN_Q4_1,
    KRN_Q5_0,
    KRN_Q5_1,
    KRN_Q4_K,
    KRN_Q5_K,
    KRN_Q6_K,
    KRN_IQ4_NL,
    KRN_TYPES
};

struct krn_profile {
    char name[32];    /* as asked for; with a V other than the model's default: "portable-v2" */
    uint32_t version; /* raised whenever a bit may change */
    uint32_t lanes;   /* fixed virtual lanes of sums over a row (norms) : 16 */
    uint32_t block;   /* outputs that a packed weight block holds side by side: 16 */
    uint32_t k_step;  /* a row-split K is cut in multiples of this: 16 or 32 */
    uint32_t virtual_ranks; /* V: segments of a row-split product, a power of two up to 8 */
    uint32_t attn_tile;     /* keys in an absolute tile: 64 */
    uint32_t attn_segment;  /* keys in an absolute segment: 512 or 1024 */
    enum krn_dtype act;     /* what products read of their rows: f32, or what rows are rounded to */
    enum krn_dtype kv;      /* keys and values in pages, and their products: f32 or bf16 */
    uint32_t promotion;     /* promotion interval of narrow accumulators; 0: none */
};

struct krn_config;

/* The largest V that doc/design.md section 6 allows for this model: a power of two up to 8 that
 * divides the query heads, divides or is a multiple of the KV heads, and cuts heads*head_dim and
 * ffn (of dense layers between a mixture's too) into whole k_steps; 1 where none does. */
uint32_t krn_profile_virtual_ranks_max(const struct krn_config *config, uint32_t k_step);

/* Fills the profile of that name (NULL: the default) for a model; virtual_ranks 0 takes the model's
 * largest, cut to what the profile usually has. BAD_REQUEST names the limit, or the names that
 * there are. Whether this machine can run it is krn_matmul_open's to say. */
enum status krn_profile_open(const char *name, const struct krn_config *config,
                             uint32_t virtual_ranks, struct krn_profile *out,
                             struct status_note *note);
/* The names, in the order of the table; NULL past the last. */
const char *krn_profile_name(unsigned i);

/* The same of "portable". */
enum status krn_profile_portable(const struct krn_config *config, uint32_t virtual_ranks,
                                 struct krn_profile *out, struct status_note *note);

/* Whether it is of GPUs alone: its steps are the tensor cores'. */
bool krn_profile_gpu(const struct krn_profile *p);

/* XXH3-64 over the fields in a fixed byte order. */
uint64_t krn_profile_digest(const struct krn_profile *p);

#endif
