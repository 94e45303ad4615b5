/* SPDX-License-Identifier: Apache-2.0
 * attend_narrow.cuh on any tensor core: four warps take one tile in a step, and copy tiles ahead
 * themselves.
 */
#include "kernels/cuda/attend_narrow.cuh"

enum { NARROW_WARPS = 4, NARROW_THREADS = 32 * NARROW_WARPS };

static __device__ __forceinline__ void narrow_meet(void) {
    narrow_sync<NARROW_WARPS, 1>();
}

/* What warps exchange: probabilities, and the lines' maxima in each warp's keys. */
struct narrow_exchange {
    float p[16][NARROW_PITCH], maxima[NARROW_WARPS][16];
};

static_assert(sizeof(struct narrow_exchange) == KRN_ATTEND_EXCHANGE, "shared bytes");

/* All probabilities: into the sums, and as fragments. */
static __device__ __forceinline__ void narrow_take(const struct narrow_exchange *x,
                                                   const float (&alpha)[2], struct attend_lines &l,
                                                   uint32_t (&f)[4][4]) {
#pragma unroll
    for (uint32_t h = 0; h < 2; h++) {
        l.sum[h] = __fmul_rn(l.sum[h], alpha[h]);
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) {
            float2 v =
                *(const float2 *)(x->p[threadIdx.x % 32 / 4 + 8 * h] + i * 8 + threadIdx.x % 4 * 2);
            l.sum[h] = __fadd_rn(__fadd_rn(l.sum[h], v.x), v.y);
            f[i / 2][h + i % 2 * 2] = tensor_bf16x2(v.x, v.y);
        }
    }
}

/* All of an item's work but the way of its tiles into shared memory. */
template <int PANELS> struct narrow_walk {
    typedef struct narrow_values<PANELS, NARROW_WARPS> values;
    struct narrow_work w;
    struct narrow_sees sees;
    uint32_t q[PANELS * 4][4];
    struct attend_lines l;
    values o, all; /* of the segment, merged */
    float all_max[2], all_sum[2], c2;

    __device__ __forceinline__ void begin(const struct krn_cuda_attend_bf16 &a, uint32_t item) {
        c2 = __fmul_rn(a.scale, KRN_LOG2E);
        narrow_find(a, item, &w);
        sees.begin(w.t);
        attend_queries<PANELS * 4>(a, w.t, 0, threadIdx.x % 32, q);
        all.begin();
        all_max[0] = all_max[1] = -INFINITY;
        all_sum[0] = all_sum[1] = 0.0f;
    }
    __device__ __forceinline__ void begin_segment(void) {
        l.begin();
        o.begin();
    }
    /* The lines' maxima move on; the factors of what was there, and this warp's probabilities. */
    __device__ __forceinline__ void shrink(const struct narrow_keys<NARROW_WARPS, 1> &k,
                                           uint32_t base, float (&alpha)[2],
                                           struct narrow_exchange *x) {
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            float m = l.max[h];
            for (uint32_t i = 0; i < NARROW_WARPS; i++)
                m = fmaxf(m, x->maxima[i][threadIdx.x % 32 / 4 + 8 * h]);
            float b = __fmul_rn(m, c2);
            alpha[h] = k.any(h, base) ? tensor_exp2(__fsub_rn(__fmul_rn(l.max[h], c2), b)) : 1.0f;
            l.max[h] = m;
#pragma unroll
            for (uint32_t i = 0; i < k.KEYS / 8; i++)
                *(float2 *)(x->p[threadIdx.x % 32 / 4 + 8 * h] + k.at(i, 0)) =
                    k.probabilities(h, base, c2, b, i);
        }
    }
    __device__ __forceinline__ void tile(const struct krn_cuda_attend_bf16 &a, uint32_t n,
                                         uint32_t at, struct narrow_exchange *x) {
        uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, base = n * ATTEND_TILE;
        uint32_t values_at = at + krn_bf16_kv_bytes(a.head_dim) / 2;
        struct narrow_keys<NARROW_WARPS, 1> k;
        bool edge = narrow_edge(w.t, base);
        bool alone = edge && attend_prepare<NARROW_THREADS>(w.t, values_at, base,
                                                            krn_bf16_panels(a.head_dim),
                                                            w.t.lo_most(), w.t.hi_least(), 1);
        k.begin(sees, base, edge, warp);
        attend_scores<PANELS * 4, k.KEYS / 8>(k.s, q, at, k.key, a.head_dim, lane);
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            float m = k.max(h, base);
            if (lane % 4 == 0)
                x->maxima[warp][lane / 4 + 8 * h] = m;
        }
        uint32_t f[4][4], v[values::PAIRS][4][4];
        values::load(v, values_at, a.head_dim);
        float alpha[2];
        narrow_meet();
        shrink(k, base, alpha, x);
        narrow_meet();
        narrow_take(x, alpha, l, f);
        o.step(w.t, f, v, alpha, a.head_dim, alone, base);
    }
    /* The segment's last tile is done: into what is merged, unless blocks share the segments. */
    __device__ __forceinline__ void end_segment(const struct krn_cuda_attend_bf16 &a, uint32_t s) {
        if (w.split)
            return;
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t first = sees.lo[h] / a.segment;
            float total = l.total(h);
            struct attend_merge merge = {0.0f, 1.0f};
            if (s > first && s * a.segment < sees.hi[h])
                merge.of(all_max[h], l.max[h], c2);
            else if (s == first)
                all_max[h] = l.max[h];
            else
                continue;
            all_sum[h] = s == first ? total : merge(all_sum[h], total);
            narrow_join(all, o, h, merge, s == first);
        }
    }
    __device__ __forceinline__ void end(const struct krn_cuda_attend_bf16 &a) const {
        if (!w.split) {
            narrow_store(a, w.t, all, all_sum);
            return;
        }
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            float total = l.total(h);
            if (threadIdx.x / 32 == 0 && threadIdx.x % 4 == 0)
                narrow_lines_at(a, w.item)[threadIdx.x / 4 + 8 * h] = make_float2(l.max[h], total);
        }
        narrow_leave(a, w, o);
        narrow_meet();
        if (narrow_last<NARROW_WARPS, 1>(a, w))
            narrow_merge<NARROW_WARPS>(a, w, c2);
    }
};

template <int PANELS>
static __device__ void narrow_item(const struct krn_cuda_attend_bf16 &a, uint32_t item,
                                   uint32_t ring, struct narrow_exchange *x) {
    uint32_t stage_bytes = krn_bf16_kv_bytes(a.head_dim), stage = 0;
    struct narrow_walk<PANELS> walk;
    walk.begin(a, item);
    uint32_t n = narrow_first_tile(a, walk.w), end = narrow_end_tile(a, walk.w), next = n;
    for (uint32_t i = 0; i < ATTEND_STAGES - 1; i++) {
        if (next < end)
            attend_fetch<NARROW_THREADS>(a, walk.w.t, next++, ring + i * stage_bytes);
        tensor_copies_end();
    }
    for (bool begins = true; n < end; n++) {
        if (begins)
            walk.begin_segment();
        tensor_copies_wait<ATTEND_STAGES - 2>();
        narrow_meet();
        if (next < end)
            attend_fetch<NARROW_THREADS>(a, walk.w.t, next++,
                                         ring + (stage == 0 ? ATTEND_STAGES - 1 : stage - 1) *
                                                    stage_bytes);
        tensor_copies_end();
        walk.tile(a, n, ring + stage * stage_bytes, x);
        stage = stage + 1 == ATTEND_STAGES ? 0 : stage + 1;
        begins = (n + 1) * ATTEND_TILE % a.segment == 0 || n + 1 == end;
        if (begins)
            walk.end_segment(a, n * ATTEND_TILE / a.segment);
    }
    tensor_copies_wait<0>();
    walk.end(a);
    narrow_meet(); /* the ring and what is exchanged are free */
}

template <int PANELS> static __device__ __forceinline__ void narrow(const krn_cuda_attend_bf16 &a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    unsigned char *exchange = shared + ATTEND_STAGES * krn_bf16_kv_bytes(a.head_dim);
    uint32_t items = KRN_CUDA_AT(const struct krn_cuda_attend_table, a.table)->n_items;
    for (uint32_t i = blockIdx.x; i < items; i += gridDim.x)
        narrow_item<PANELS>(a, i, tensor_shared(shared), (struct narrow_exchange *)exchange);
}

#define NARROW(columns)                                                                            \
    KRN_CUDA_KERNEL(krn_attend_bf16_narrow_##columns, 128)                                         \
    (const __grid_constant__ struct krn_cuda_attend_bf16 a) {                                      \
        narrow<columns / 64>(a);                                                                   \
    }
NARROW(64)
NARROW(128)
NARROW(256)
