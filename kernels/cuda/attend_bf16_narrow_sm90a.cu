/* SPDX-License-Identifier: Apache-2.0
 * attend_narrow.cuh on Hopper: a warp of its own brings whole tiles by bulk copies, item after
 * item, so that the next item's are under way while this one ends.
 */
#include "kernels/cuda/attend_narrow.cuh"
#include "kernels/cuda/ring.cuh"

static __device__ void narrow_load(const struct krn_cuda_attend_bf16 &a, struct ring r,
                                   uint32_t items) {
    uint32_t a_page = a.page_tokens / ATTEND_TILE;
    r.parity = 1; /* an empty ring is free */
    for (uint32_t i = blockIdx.x; i < items; i += gridDim.x) {
        struct narrow_walk<1> walk; /* its queries and values are not used */
        narrow_find(a, i, &walk.w);
        const uint32_t *pages = KRN_CUDA_AT(const uint32_t, a.pages) + walk.w.t.first_page;
        for (uint32_t n = walk.first_tile(a), end = walk.end_tile(a); n < end; n++, r.next()) {
            const unsigned char *from =
                KRN_CUDA_AT(const unsigned char, a.pool) + pages[n / a_page] * a.page_bytes +
                a.layer_off + (size_t)(walk.w.t.kv_head * a_page + n % a_page) * r.stage_bytes;
            hopper_wait(r.empty + 8 * r.stage, r.parity);
            hopper_expect(r.full + 8 * r.stage, r.stage_bytes);
            hopper_copy(r.at(), from, r.stage_bytes, r.full + 8 * r.stage);
        }
    }
}

template <int PANELS>
static __device__ void narrow_item(const struct krn_cuda_attend_bf16 &a, uint32_t item,
                                   struct ring &r, float *p) {
    struct narrow_walk<PANELS> walk;
    walk.begin(a, item);
    bool begins = true;
    for (uint32_t n = walk.first_tile(a), end = walk.end_tile(a); n < end; n++, r.next()) {
        if (begins)
            walk.begin_segment();
        hopper_wait(r.full + 8 * r.stage, r.parity);
        walk.tile(a, n, r.at(), p);
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            hopper_arrive(r.empty + 8 * r.stage);
        begins = (n + 1) * ATTEND_TILE % a.segment == 0 || n + 1 == end;
        if (begins)
            walk.end_segment(a, n * ATTEND_TILE / a.segment);
    }
    walk.end(a);
}

template <int PANELS> static __device__ __forceinline__ void narrow(const krn_cuda_attend_bf16 &a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    uint32_t stage_bytes = krn_bf16_kv_bytes(a.head_dim);
    uint32_t items = KRN_CUDA_AT(const struct krn_cuda_attend_table, a.table)->n_items;
    struct ring r = ring_at(shared, ATTEND_STAGES, stage_bytes, 1);
    float *p = (float *)(shared + RING_BARRIERS_BYTES + ATTEND_STAGES * stage_bytes);
    if (threadIdx.x == 0)
        ring_open(r, NARROW_THREADS / 32);
    __syncthreads();
    if (threadIdx.x >= NARROW_THREADS) {
        if (threadIdx.x == NARROW_THREADS)
            narrow_load(a, r, items);
        return;
    }
    for (uint32_t i = blockIdx.x; i < items; i += gridDim.x)
        narrow_item<PANELS>(a, i, r, p);
}

#define NARROW(columns)                                                                            \
    KRN_CUDA_KERNEL(krn_attend_bf16_narrow90_##columns, 160)                                       \
    (const __grid_constant__ struct krn_cuda_attend_bf16 a) {                                      \
        narrow<columns / 64>(a);                                                                   \
    }
NARROW(64)
NARROW(128)
NARROW(256)
