/* SPDX-License-Identifier: Apache-2.0
 * attend_wide.cuh on Hopper: two warpgroups of 64 lines multiply by wgmma, each at its own pace,
 * and a warp of its own brings tiles. Heads are whole panels of 64 columns. Only a tile with values
 * that are not finite and not seen by all lines goes by mma.sync, line by line: the same bits.
 */
#include "kernels/cuda/attend_wide.cuh"
#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/wgmma.cuh"

enum { WIDE90_STAGES = 4 };

static __device__ void wide_load(const struct krn_cuda_attend_bf16 &a, struct ring r) {
    uint32_t a_page = a.page_tokens / ATTEND_TILE;
    r.parity = 1; /* an empty ring is free */
    for (uint32_t i = blockIdx.x, items = wide_items(a); i < items; i += gridDim.x) {
        struct attend_item t = wide_find(a, i);
        const uint32_t *pages = KRN_CUDA_AT(const uint32_t, a.pages) + t.first_page;
        uint32_t end = (t.hi_most() + ATTEND_TILE - 1) / ATTEND_TILE;
        for (uint32_t n = t.lo_least() / ATTEND_TILE; n < end; n++, r.next()) {
            const unsigned char *from = KRN_CUDA_AT(const unsigned char, a.pool) +
                                        pages[n / a_page] * a.page_bytes + a.layer_off +
                                        (size_t)(t.kv_head * a_page + n % a_page) * r.stage_bytes;
            hopper_wait(r.empty + 8 * r.stage, r.parity);
            hopper_expect(r.full + 8 * r.stage, r.stage_bytes);
            hopper_copy(r.at(), from, r.stage_bytes, r.full + 8 * r.stage);
        }
    }
}

template <int PANELS>
static __device__ __forceinline__ void
wide_tile(struct wide_warp<PANELS> &w, const struct attend_item &t, uint32_t line0, uint32_t at,
          uint32_t values, uint32_t base, float c2, bool edge, bool alone, uint32_t lane) {
    float s[32], alpha[2];
#pragma unroll
    for (uint32_t i = 0; i < 32; i++)
        s[i] = 0.0f;
    hopper_multiply_begin();
#pragma unroll
    for (uint32_t ks = 0; ks < PANELS * 4; ks++)
        wgmma_step_rows<64>(s, w.q[ks],
                            hopper_matrix(at + ks / 4 * KRN_BF16_TILE_BYTES) + 2 * (ks % 4));
    hopper_multiply_end();
    hopper_multiply_wait<0>();
    if (edge)
        w.softmax(t, line0, s, alpha, base, c2, true, lane);
    else
        w.softmax(t, line0, s, alpha, base, c2, false, lane);
    w.shrink(alpha);
    if (alone) {
        w.values(t, line0, s, values, base, PANELS * 64, true, lane);
        return;
    }
    uint32_t p[4][4];
#pragma unroll
    for (uint32_t ks = 0; ks < 4; ks++)
        w.fragment(s, ks, p[ks]);
    hopper_multiply_begin();
#pragma unroll
    for (uint32_t ks = 0; ks < 4; ks++)
        wgmma_step_columns<PANELS * 64>(
            w.o, p[ks],
            hopper_matrix_across(values + ks * 16 * KRN_BF16_ROW_BYTES, KRN_BF16_TILE_BYTES));
    hopper_multiply_end();
    hopper_multiply_wait<0>();
}

template <int PANELS>
static __device__ void wide_item(const struct krn_cuda_attend_bf16 &a, const struct attend_item &t,
                                 struct ring &r, float *merged) {
    uint32_t lane = threadIdx.x % 32, line0 = threadIdx.x / 32 * 16;
    float c2 = __fmul_rn(a.scale, KRN_LOG2E);
    struct wide_warp<PANELS> w;
    struct wide_merged<PANELS> m = {
        merged + threadIdx.x, {-INFINITY, -INFINITY}, {
            0.0f, 0.0f
        }
    };
    struct wide_keys keys(t, threadIdx.x / 128 * 64, 64);
    bool here = threadIdx.x / 128 * 64 < t.lines();
    uint32_t end = (t.hi_most() + ATTEND_TILE - 1) / ATTEND_TILE;
    attend_queries<PANELS * 4>(a, t, line0, lane, w.q);
    bool begins = true;
    for (uint32_t n = t.lo_least() / ATTEND_TILE; n < end; n++, r.next()) {
        uint32_t base = n * ATTEND_TILE, at = r.at(), values = at + r.stage_bytes / 2;
        if (begins)
            w.begin();
        hopper_wait(r.full + 8 * r.stage, r.parity);
        if (base < t.lo_least() || base + ATTEND_TILE > t.hi_most()) { /* of the item's ends */
            attend_zero<WIDE_THREADS>(t, values, base, PANELS);
            asm volatile("bar.sync 3, 256;" ::: "memory");
        }
        if (here && keys.some(base)) {
            bool edge = keys.edge(base);
            bool alone = edge && attend_check<128>(t, values, base, PANELS, keys.lo_most,
                                                   keys.hi_least, 1 + threadIdx.x / 128);
            wide_tile<PANELS>(w, t, line0, at, values, base, c2, edge, alone, lane);
        }
        hopper_arrive(r.empty + 8 * r.stage);
        begins = (base + ATTEND_TILE) % a.segment == 0 || n + 1 == end;
        if (begins)
            m.take(t, line0, w, base / a.segment, a.segment, c2, lane);
    }
    m.end(a, t, line0, lane);
}

template <int PANELS> static __device__ __forceinline__ void wide(const krn_cuda_attend_bf16 &a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    uint32_t stage_bytes = krn_bf16_kv_bytes(a.head_dim);
    struct ring r = ring_at(shared, WIDE90_STAGES, stage_bytes, 1);
    float *merged = (float *)(shared + RING_BARRIERS_BYTES + WIDE90_STAGES * stage_bytes);
    if (threadIdx.x == 0)
        ring_open(r, WIDE_THREADS);
    __syncthreads();
    if (threadIdx.x >= WIDE_THREADS) {
        hopper_registers_less<24>();
        if (threadIdx.x == WIDE_THREADS)
            wide_load(a, r);
    } else {
        hopper_registers_more<240>();
        for (uint32_t i = blockIdx.x, items = wide_items(a); i < items; i += gridDim.x)
            wide_item<PANELS>(a, wide_find(a, i), r, merged);
    }
}

#define WIDE(columns)                                                                              \
    extern "C" __global__ void __launch_bounds__(384, 1)                                           \
        krn_attend_bf16_wide90_##columns(const __grid_constant__ struct krn_cuda_attend_bf16 a) {  \
        wide<columns / 64>(a);                                                                     \
    }
WIDE(64)
WIDE(128)
