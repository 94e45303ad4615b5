/* SPDX-License-Identifier: Apache-2.0
 * attend_wide.cuh on any tensor core: all threads copy tiles ahead together.
 */
#include "kernels/cuda/attend_wide.cuh"

template <int PANELS>
static __device__ void wide_item(const struct krn_cuda_attend_bf16 &a, const struct attend_item &t,
                                 uint32_t ring, float *merged) {
    uint32_t lane = threadIdx.x % 32, line0 = threadIdx.x / 32 * 16, stage = 0;
    uint32_t stage_bytes = krn_bf16_kv_bytes(a.head_dim);
    float c2 = __fmul_rn(a.scale, KRN_LOG2E);
    struct wide_warp<PANELS> w;
    struct wide_merged<PANELS> m = {
        merged + threadIdx.x, {-INFINITY, -INFINITY}, {
            0.0f, 0.0f
        }
    };
    struct wide_keys keys(t, line0, 16);
    bool here = line0 < t.lines(); /* warps without lines only help to fetch */
    uint32_t n = t.lo_least() / ATTEND_TILE, end = (t.hi_most() + ATTEND_TILE - 1) / ATTEND_TILE;
    uint32_t next = n;
    attend_queries<PANELS * 4>(a, t, line0, lane, w.q);
    for (uint32_t i = 0; i < ATTEND_STAGES - 1; i++) {
        if (next < end)
            attend_fetch<WIDE_THREADS>(a, t, next++, ring + i * stage_bytes);
        tensor_copies_end();
    }
    for (bool begins = true; n < end; n++) {
        uint32_t base = n * ATTEND_TILE;
        if (begins)
            w.begin();
        tensor_copies_wait<ATTEND_STAGES - 2>();
        __syncthreads();
        uint32_t at = ring + stage * stage_bytes, values = at + stage_bytes / 2;
        if (next < end)
            attend_fetch<WIDE_THREADS>(
                a, t, next++, ring + (stage == 0 ? ATTEND_STAGES - 1 : stage - 1) * stage_bytes);
        tensor_copies_end();
        bool edge = base < t.lo_most() || base + ATTEND_TILE > t.hi_least(), alone = false;
        if (edge)
            alone = attend_prepare<WIDE_THREADS>(t, values, base, krn_bf16_panels(a.head_dim),
                                                 t.lo_most(), t.hi_least(), 1);
        if (here && keys.some(base)) {
            if (edge)
                w.template tile<true>(t, line0, at, values, base, a.head_dim, c2, alone, lane);
            else
                w.template tile<false>(t, line0, at, values, base, a.head_dim, c2, false, lane);
        }
        stage = stage + 1 == ATTEND_STAGES ? 0 : stage + 1;
        begins = (base + ATTEND_TILE) % a.segment == 0 || n + 1 == end;
        if (begins)
            m.take(t, line0, w, base / a.segment, a.segment, c2, lane);
    }
    tensor_copies_wait<0>();
    __syncthreads(); /* the ring is free */
    m.end(a, t, line0, lane);
}

template <int PANELS> static __device__ __forceinline__ void wide(const krn_cuda_attend_bf16 &a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    float *merged = (float *)(shared + ATTEND_STAGES * krn_bf16_kv_bytes(a.head_dim));
    for (uint32_t i = blockIdx.x, items = wide_items(a); i < items; i += gridDim.x)
        wide_item<PANELS>(a, wide_find(a, i), tensor_shared(shared), merged);
}

#define WIDE(columns)                                                                              \
    KRN_CUDA_KERNEL(krn_attend_bf16_wide_##columns, 256)                                           \
    (const __grid_constant__ struct krn_cuda_attend_bf16 a) {                                      \
        wide<columns / 64>(a);                                                                     \
    }
WIDE(64)
WIDE(128)
