/* SPDX-License-Identifier: Apache-2.0
 * What kernels read about the step under way: one image in device memory at a fixed address,
 * written by one upload before the step's first kernel. Kernels take the image's address; counts
 * and offsets come from its head, so that a captured sequence of launches serves every plan whose
 * rows and draws fit into its shape. Blocks behind the counts have nothing to do.
 */
#ifndef KERNELS_CUDA_STEP_H
#define KERNELS_CUDA_STEP_H

#include "kernels/cuda/call.h"
#include "kernels/rowfn.h"

enum { KRN_CUDA_NONE = 0xffffffffu };

/* Head of the image; offsets count from its first byte. */
struct krn_cuda_step {
    uint32_t n_rows, n_draws, n_seqs, n_copies;
    uint32_t nan_row; /* fault: this row's embedding is NaN; or KRN_CUDA_NONE */
    uint32_t off_rows, off_seqs, off_draws, off_copies;
    uint32_t off_pages, off_counts, off_bias, off_masks;
    uint32_t off_changed; /* a byte a draw: its logits are perturbed */
    uint32_t reserved[2];
};

/* One row: its token (KRN_CUDA_NONE: what slot drew last), position and page table. */
struct krn_cuda_row {
    uint32_t token, slot;
    uint32_t pos;
    uint32_t first_page; /* in pages[], from position 0 on */
};

struct krn_cuda_seq {
    uint32_t slot;
    uint32_t first_row, n_rows;
    uint32_t first_draw, n_draws;
};

struct krn_cuda_page_copy {
    uint32_t src, dst, tokens;
};

struct krn_cuda_drawing {
    uint32_t row, extra_row; /* gpu/plan.h: tokens of rows [extra_row, row] are counted on top */
    uint32_t first_count, n_counts, first_bias, n_bias;
    uint32_t mask; /* word in masks[], or KRN_CUDA_NONE */
    uint32_t kept; /* place of the raw row among the kept ones, or KRN_CUDA_NONE */
    struct krn_sampling sampling;
};

#ifdef KRN_CUDA_KERNEL
#define KRN_CUDA_STEP(a)             KRN_CUDA_AT(const struct krn_cuda_step, (a).step)
#define KRN_CUDA_OF(type, step, off) ((const type *)((const unsigned char *)(step) + (step)->off))
#endif

#endif
