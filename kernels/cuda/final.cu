/* SPDX-License-Identifier: Apache-2.0
 * numerics.md 8, and the end of a step. Flags are only ever set, and minima taken, so the order of
 * threads cannot matter.
 */
#include "kernels/cuda/final.h"

#include "kernels/cuda/device.h"

enum { FINITE_THREADS = 128, FINISH_THREADS = 64 };

KRN_CUDA_KERNEL(krn_cuda_finite, FINITE_THREADS)(const __grid_constant__ struct krn_cuda_finite a) {
    __shared__ uint32_t found;
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    krn_cuda_next();
    krn_cuda_before();
    if (blockIdx.x >= step->n_rows)
        return;
    if (threadIdx.x == 0)
        found = 0;
    __syncthreads();
    const float *x = KRN_CUDA_AT(const float, a.x) + (size_t)blockIdx.x * a.ldx;
    uint32_t bad = 0;
    for (uint32_t i = threadIdx.x; i < a.n; i += FINITE_THREADS)
        bad |= (krn_bits(x[i]) & 0x7fffffffu) >= 0x7f800000u;
    if (bad != 0)
        atomicOr(&found, 1u);
    __syncthreads();
    if (threadIdx.x == 0)
        KRN_CUDA_AT(uint32_t, a.bad)[blockIdx.x] = found;
}

KRN_CUDA_KERNEL(krn_cuda_finish, FINISH_THREADS)(const __grid_constant__ struct krn_cuda_finish a) {
    __shared__ uint32_t first;
    const struct krn_cuda_step *step = KRN_CUDA_STEP(a);
    krn_cuda_before();
    if (blockIdx.x >= step->n_seqs)
        return;
    const struct krn_cuda_seq *s = KRN_CUDA_OF(struct krn_cuda_seq, step, off_seqs) + blockIdx.x;
    const struct krn_cuda_drawing *draws = KRN_CUDA_OF(struct krn_cuda_drawing, step, off_draws);
    const uint32_t *bad = KRN_CUDA_AT(const uint32_t, a.bad);
    struct krn_drawn *drawn = KRN_CUDA_AT(struct krn_drawn, a.drawn);
    if (threadIdx.x == 0)
        first = KRN_CUDA_NONE;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < s->n_rows; i += FINISH_THREADS)
        if (bad[s->first_row + i] != 0)
            atomicMin(&first, s->first_row + i);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < s->n_draws; i += FINISH_THREADS) {
        struct krn_drawn *d = &drawn[s->first_draw + i];
        /* A row that is not finite has no token, logprob or hash that means anything. */
        if (first <= draws[s->first_draw + i].row || d->finite == 0)
            memset(d, 0, sizeof *d);
        if (i + 1 == s->n_draws)
            KRN_CUDA_AT(uint32_t, a.last)[s->slot] = d->token;
    }
    if (threadIdx.x == 0)
        KRN_CUDA_AT(uint32_t, a.bad_row)[blockIdx.x] = first;
    if (threadIdx.x == 0 && blockIdx.x == 0 && a.ended != 0)
        *KRN_CUDA_AT(uint64_t, a.ended) = krn_cuda_clock();
}
