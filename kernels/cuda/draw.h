/* SPDX-License-Identifier: Apache-2.0
 * Draws of a step (numerics.md 9), without a round trip to the host: finite check and copy of the
 * raw row by some blocks, then a block a draw: hash, edits, cuts by threshold, the random number,
 * log-probabilities.
 */
#ifndef KERNELS_CUDA_DRAW_H
#define KERNELS_CUDA_DRAW_H

#include "kernels/cuda/step.h"

enum {
    KRN_CUDA_DRAW_PARTS = 16, /* blocks that read a row first */
    KRN_CUDA_VOCAB_MIN = 64,  /* shorter rows are hashed in another way, which is not built */
    KRN_CUDA_SECRET = 192     /* bytes of XXH3's constants */
};

struct krn_cuda_draw {
    krn_cuda_ptr_t step;
    krn_cuda_ptr_t tokens; /* u32 a row */
    krn_cuda_ptr_t logits; /* f32, ld a row; row 0 is of draw first_draw; left as it is */
    krn_cuda_ptr_t edited; /* f32, ld a row: room for edited logits */
    krn_cuda_ptr_t scaled; /* f32, ld a row: room for exponentials */
    krn_cuda_ptr_t best;   /* u64 [KRN_CUDA_DRAW_PARTS] a row, written */
    krn_cuda_ptr_t drawn;  /* struct krn_drawn a draw of the step, written */
    krn_cuda_ptr_t top;    /* struct krn_top [KRN_TOP_MAX] a draw of the step */
    krn_cuda_ptr_t kept;   /* f32 [vocab] a kept row */
    krn_cuda_ptr_t secret; /* KRN_CUDA_SECRET bytes */
    uint32_t first_draw;
    uint32_t vocab, ld;
    uint32_t reserved;
};

/* draws: of the launch's shape, from first_draw on; two launches. */
void krn_cuda_draw_calls(const struct krn_cuda_draw *args, uint32_t draws,
                         struct krn_cuda_call calls[2]);

#endif
