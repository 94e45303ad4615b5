/* SPDX-License-Identifier: Apache-2.0
 * attend_narrow.cuh on any tensor core: the threads that multiply copy tiles ahead themselves.
 */
#include "kernels/cuda/attend_narrow.cuh"

template <int PANELS>
static __device__ void narrow_item(const struct krn_cuda_attend_bf16 &a, uint32_t item,
                                   uint32_t ring, float *p) {
    uint32_t stage_bytes = krn_bf16_kv_bytes(a.head_dim), stage = 0;
    struct narrow_walk<PANELS> walk;
    walk.begin(a, item);
    uint32_t n = walk.first_tile(a), end = walk.end_tile(a), next = n;
    for (uint32_t i = 0; i < ATTEND_STAGES - 1; i++) {
        if (next < end)
            attend_fetch<NARROW_THREADS>(a, walk.w.t, next++, ring + i * stage_bytes);
        tensor_copies_end();
    }
    for (bool begins = true; n < end; n++) {
        if (begins)
            walk.begin_segment();
        tensor_copies_wait<ATTEND_STAGES - 2>();
        narrow_sync();
        if (next < end)
            attend_fetch<NARROW_THREADS>(a, walk.w.t, next++,
                                         ring + (stage == 0 ? ATTEND_STAGES - 1 : stage - 1) *
                                                    stage_bytes);
        tensor_copies_end();
        walk.tile(a, n, ring + stage * stage_bytes, p);
        stage = stage + 1 == ATTEND_STAGES ? 0 : stage + 1;
        begins = (n + 1) * ATTEND_TILE % a.segment == 0 || n + 1 == end;
        if (begins)
            walk.end_segment(a, n * ATTEND_TILE / a.segment);
    }
    tensor_copies_wait<0>();
    walk.end(a);
    narrow_sync(); /* the ring and the sums are free */
}

template <int PANELS> static __device__ __forceinline__ void narrow(const krn_cuda_attend_bf16 &a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    uint32_t ring = tensor_shared(shared);
    float *p = (float *)(shared + ATTEND_STAGES * krn_bf16_kv_bytes(a.head_dim));
    uint32_t items = KRN_CUDA_AT(const struct krn_cuda_attend_table, a.table)->n_items;
    for (uint32_t i = blockIdx.x; i < items; i += gridDim.x)
        narrow_item<PANELS>(a, i, ring, p);
}

#define NARROW(columns)                                                                            \
    KRN_CUDA_KERNEL(krn_attend_bf16_narrow_##columns, 128)                                         \
    (const __grid_constant__ struct krn_cuda_attend_bf16 a) {                                      \
        narrow<columns / 64>(a);                                                                   \
    }
NARROW(64)
NARROW(128)
NARROW(256)
