/* SPDX-License-Identifier: Apache-2.0
 * attend_narrow.cuh on Hopper. Eight warps take up to four tiles of a segment in a step (two where
 * a head is wider than 128): scores and probabilities of all of them side by side, then values,
 * which have an order, each warp its columns. Beside them one warp finds items and brings tiles by
 * bulk copies, item after item, and two add up the sums, which have an order too.
 */
#include "kernels/cuda/attend_narrow.cuh"
#include "kernels/cuda/ring.cuh"

enum {
    NARROW90_WARPS = 8,
    NARROW90_THREADS = 32 * NARROW90_WARPS,
    NARROW90_ALL = NARROW90_WARPS + 2, /* with those that add */
    NARROW90_POSTS = 16,               /* more than a ring has stages */
    NARROW90_POST_AT = 32              /* their barriers, behind those of the ring */
};

/* Named barriers: before probabilities are written, when they are there, when an item's sums are
 * there, and for the eight warps alone. */
enum { MEET_MAXIMA = 1, MEET_PROBABILITIES, MEET_END, MEET_ALONE };

/* What warps exchange. A post is overwritten sixteen items later: by then a tile of the item behind
 * it has been read, for which all warps had read the post. */
template <int TILES> struct narrow90_exchange {
    float p[TILES][16][NARROW_PITCH];
    uint16_t rounded[TILES][16][NARROW_PITCH];
    float maxima[NARROW90_WARPS][16], alpha[TILES][16], max[16], sum[16];
    uint32_t tiles; /* of the step */
    struct narrow_work posts[NARROW90_POSTS];
};

static_assert(sizeof(struct narrow90_exchange<4>) <= KRN_ATTEND_EXCHANGE90(4), "shared bytes");
static_assert(sizeof(struct narrow90_exchange<2>) <= KRN_ATTEND_EXCHANGE90(2), "shared bytes");

static __device__ __forceinline__ uint32_t narrow_posted(const struct ring &r, uint32_t item) {
    return r.full + 8 * (NARROW90_POST_AT + item % NARROW90_POSTS);
}

/* By a whole warp: finds items, posts them, and brings their tiles; page ids of 32 tiles are read
 * in one go, lane 0 copies. */
static __device__ void narrow_load(const struct krn_cuda_attend_bf16 &a, struct ring r,
                                   struct narrow_work *posts, uint32_t items, uint32_t lane) {
    uint32_t a_page = a.page_tokens / ATTEND_TILE, post = 0;
    const unsigned char *pool = KRN_CUDA_AT(const unsigned char, a.pool) + a.layer_off;
    r.parity = 1; /* an empty ring is free */
    for (uint32_t i = blockIdx.x; i < items; i += gridDim.x, post++) {
        struct narrow_work w;
        narrow_find(a, i, &w);
        if (lane == 0) {
            posts[post % NARROW90_POSTS] = w;
            hopper_arrive(narrow_posted(r, post));
        }
        const uint32_t *pages = KRN_CUDA_AT(const uint32_t, a.pages) + w.t.first_page;
        uint32_t end = narrow_end_tile(a, w), page = 0;
        for (uint32_t first = narrow_first_tile(a, w), n = first; n < end; n++, r.next()) {
            if ((n - first) % 32 == 0)
                page = pages[min(n + lane, end - 1) / a_page];
            uint32_t id = __shfl_sync(0xffffffffu, page, (n - first) % 32);
            if (lane != 0)
                continue;
            const unsigned char *from = pool + id * a.page_bytes +
                                        (size_t)(w.t.kv_head * a_page + n % a_page) * r.stage_bytes;
            hopper_wait(r.empty + 8 * r.stage, r.parity);
            hopper_expect(r.full + 8 * r.stage, r.stage_bytes);
            hopper_copy(r.at(), from, r.stage_bytes, r.full + 8 * r.stage);
        }
    }
}

static __device__ __forceinline__ const struct narrow_work &
narrow_take_post(const struct ring &r, const struct narrow_work *posts, uint32_t post) {
    hopper_wait(narrow_posted(r, post), post / NARROW90_POSTS % 2);
    return posts[post % NARROW90_POSTS];
}

/* The sums of eight lines from line0 on, each of the four in a thread of its own. */
template <int TILES>
static __device__ void narrow_add(const struct krn_cuda_attend_bf16 &a, const struct ring &r,
                                  struct narrow90_exchange<TILES> *x, uint32_t items,
                                  uint32_t line0, uint32_t lane) {
    uint32_t line = line0 + lane / 4, post = 0;
    float c2 = __fmul_rn(a.scale, KRN_LOG2E);
    for (uint32_t item = blockIdx.x; item < items; item += gridDim.x, post++) {
        const struct narrow_work w = narrow_take_post(r, x->posts, post);
        uint32_t first_segment = w.t.lo(line) / a.segment, hi = w.t.hi(line);
        uint32_t end = narrow_end_tile(a, w), a_segment = a.segment / ATTEND_TILE;
        float sum = 0.0f, all = 0.0f, all_max = -INFINITY;
        for (uint32_t n = narrow_first_tile(a, w); n < end;) {
            narrow_sync<NARROW90_ALL, MEET_MAXIMA>();
            narrow_sync<NARROW90_ALL, MEET_PROBABILITIES>();
            for (uint32_t i = 0, tiles = x->tiles; i < tiles; i++, n++) {
                sum = __fmul_rn(sum, x->alpha[i][line]);
#pragma unroll
                for (uint32_t k = 0; k < 8; k++) {
                    float2 v = *(const float2 *)(x->p[i][line] + k * 8 + lane % 4 * 2);
                    sum = __fadd_rn(__fadd_rn(sum, v.x), v.y);
                }
            }
            if (n % a_segment != 0 && n != end)
                continue;
            uint32_t s = (n - 1) / a_segment;
            float total = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1)), max = x->max[line];
            total = __fadd_rn(total, __shfl_xor_sync(0xffffffffu, total, 2));
            sum = 0.0f;
            if (s == first_segment || w.split) {
                all_max = max;
                all = total;
            } else if (s > first_segment && s * a.segment < hi) {
                struct attend_merge merge;
                merge.of(all_max, max, c2);
                all = merge(all, total);
            }
        }
        if (lane % 4 == 0) {
            if (w.split)
                narrow_lines_at(a, w.item)[line] = make_float2(all_max, all);
            else
                x->sum[line] = all;
        }
        narrow_sync<NARROW90_ALL, MEET_END>();
    }
}

/* The line's maximum moves on over all tiles of the step; this warp's probabilities, and what
     * its tile shrinks. */
template <int TILES>
static __device__ __forceinline__ void
narrow_shrink(struct narrow90_exchange<TILES> *x,
              const struct narrow_keys<NARROW90_WARPS, TILES> &k, uint32_t h, uint32_t base,
              float c2, float &max) {
    uint32_t line = threadIdx.x % 32 / 4 + 8 * h;
    float m = max, before = m, mine = m;
#pragma unroll
    for (uint32_t i = 0; i < TILES; i++) {
        before = i == k.tile ? m : before;
#pragma unroll
        for (uint32_t j = 0; j < k.A_TILE; j++)
            m = fmaxf(m, x->maxima[i * k.A_TILE + j][line]);
        mine = i == k.tile ? m : mine;
    }
    max = m;
    float b = __fmul_rn(mine, c2);
    if (k.key == 0 && threadIdx.x % 4 == 0)
        x->alpha[k.tile][line] =
            k.any(h, base) ? tensor_exp2(__fsub_rn(__fmul_rn(before, c2), b)) : 1.0f;
    if (threadIdx.x < 32 && threadIdx.x % 4 == 0)
        x->max[line] = m;
#pragma unroll
    for (uint32_t i = 0; i < k.KEYS / 8; i++) {
        float2 p = k.probabilities(h, base, c2, b, i);
        *(float2 *)(x->p[k.tile][line] + k.at(i, 0)) = p;
        *(uint32_t *)(x->rounded[k.tile][line] + k.at(i, 0)) = tensor_bf16x2(p.x, p.y);
    }
}

/* How many of the tiles at hand the step takes: one that needs its lines alone goes first. */
static __device__ __forceinline__ uint32_t narrow_prepare(const struct krn_cuda_attend_bf16 &a,
                                                          const struct attend_item &t,
                                                          struct ring r, uint32_t n, uint32_t tiles,
                                                          bool &alone) {
    alone = false;
    for (uint32_t i = 0; i < tiles; i++, r.next()) {
        uint32_t base = (n + i) * ATTEND_TILE;
        if (!narrow_edge(t, base))
            continue;
        hopper_wait(r.full + 8 * r.stage, r.parity);
        if (!attend_prepare<NARROW90_THREADS>(t, r.at() + r.stage_bytes / 2, base,
                                              krn_bf16_panels(a.head_dim), t.lo_most(),
                                              t.hi_least(), MEET_ALONE))
            continue;
        alone = i == 0;
        return i == 0 ? 1 : i;
    }
    return tiles;
}

/* Sixteen lines' scores, probabilities and values of an item. */
template <int PANELS, int TILES> struct narrow90_walk {
    typedef struct narrow_values<PANELS, NARROW90_WARPS> values;
    typedef struct narrow_keys<NARROW90_WARPS, TILES> keys;
    typedef struct narrow90_exchange<TILES> exchange;
    struct narrow_work w;
    struct narrow_sees sees;
    uint32_t q[PANELS * 4][4];
    values o, all; /* of the segment, merged */
    float max[2], all_max[2], c2;
    uint32_t halves; /* 1 where the item has eight lines at most */

    __device__ __forceinline__ void begin(const struct krn_cuda_attend_bf16 &a,
                                          const struct narrow_work &work) {
        c2 = __fmul_rn(a.scale, KRN_LOG2E);
        w = work;
        sees.begin(w.t);
        attend_queries<PANELS * 4>(a, w.t, 0, threadIdx.x % 32, q);
        halves = w.t.lines() > 8 ? 2 : 1;
        all.begin();
        all_max[0] = all_max[1] = -INFINITY;
    }
    __device__ __forceinline__ void begin_segment(void) {
        max[0] = max[1] = -INFINITY;
        o.begin();
    }
    __device__ __forceinline__ uint32_t step(const struct krn_cuda_attend_bf16 &a, struct ring &r,
                                             uint32_t n, uint32_t tiles, exchange *x) {
        uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        bool alone;
        tiles = narrow_prepare(a, w.t, r, n, tiles, alone);
        keys k;
        k.tile = warp / k.A_TILE;
        uint32_t base = (n + k.tile) * ATTEND_TILE, v[TILES][values::PAIRS][4][4];
        bool here = k.tile < tiles;
        k.begin(sees, base, narrow_edge(w.t, base), warp % k.A_TILE);
        if (here) {
            struct ring mine = r;
            mine.skip(k.tile);
            hopper_wait(mine.full + 8 * mine.stage, mine.parity);
            attend_scores<PANELS * 4, k.KEYS / 8>(k.s, q, mine.at(), k.key, a.head_dim, lane);
        }
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            float m = here && h < halves ? k.max(h, base) : -INFINITY;
            if (lane % 4 == 0)
                x->maxima[warp][lane / 4 + 8 * h] = m;
        }
#pragma unroll
        for (uint32_t i = 0; i < TILES; i++)
            if (i < tiles) {
                hopper_wait(r.full + 8 * r.stage, r.parity);
                values::load(v[i], r.at() + r.stage_bytes / 2, a.head_dim);
                hopper_arrive(r.empty + 8 * r.stage); /* every thread: each has read its own */
                r.next();
            }
        narrow_sync<NARROW90_ALL, MEET_MAXIMA>();
        narrow_shrink(x, k, 0, base, c2, max[0]);
        if (halves > 1)
            narrow_shrink(x, k, 1, base, c2, max[1]);
        if (threadIdx.x == 0)
            x->tiles = tiles;
        narrow_sync<NARROW90_ALL, MEET_PROBABILITIES>();
        uint32_t from = tensor_shared(x->rounded[0][lane % 16]) + lane / 16 * 16;
#pragma unroll
        for (uint32_t i = 0; i < TILES; i++)
            if (i < tiles) {
                uint32_t f[4][4];
                float alpha[2] = {x->alpha[i][lane / 4], x->alpha[i][lane / 4 + 8]};
#pragma unroll
                for (uint32_t ks = 0; ks < 4; ks++)
                    tensor_load(f[ks], from + i * 16 * NARROW_PITCH * 2 + ks * 32);
                o.step(w.t, f, v[i], alpha, a.head_dim, i == 0 && alone, n * ATTEND_TILE);
            }
        return tiles;
    }
    /* The segment's last tile is done: into what is merged, unless blocks share the segments. */
    __device__ __forceinline__ void end_segment(const struct krn_cuda_attend_bf16 &a, uint32_t s) {
        if (w.split)
            return;
#pragma unroll
        for (uint32_t h = 0; h < 2; h++) {
            uint32_t first = sees.lo[h] / a.segment;
            struct attend_merge merge = {0.0f, 1.0f};
            if (s > first && s * a.segment < sees.hi[h])
                merge.of(all_max[h], max[h], c2);
            else if (s == first)
                all_max[h] = max[h];
            else
                continue;
            narrow_join(all, o, h, merge, s == first);
        }
    }
    __device__ __forceinline__ void end(const struct krn_cuda_attend_bf16 &a,
                                        const exchange *x) const {
        if (w.split)
            narrow_leave(a, w, o);
        narrow_sync<NARROW90_ALL, MEET_END>();
        if (!w.split) {
            const float sum[2] = {x->sum[threadIdx.x % 32 / 4], x->sum[threadIdx.x % 32 / 4 + 8]};
            narrow_store(a, w.t, all, sum);
        } else if (narrow_last<NARROW90_WARPS, MEET_ALONE>(a, w))
            narrow_merge<NARROW90_WARPS>(a, w, c2);
    }
};

template <int PANELS, int TILES>
static __device__ void narrow_item(const struct krn_cuda_attend_bf16 &a, struct ring &r,
                                   uint32_t post, struct narrow90_exchange<TILES> *x) {
    struct narrow90_walk<PANELS, TILES> walk;
    walk.begin(a, narrow_take_post(r, x->posts, post));
    uint32_t n = narrow_first_tile(a, walk.w), end = narrow_end_tile(a, walk.w);
    uint32_t a_segment = a.segment / ATTEND_TILE, left = a_segment - n % a_segment;
    for (bool begins = true; n < end;) {
        if (begins)
            walk.begin_segment();
        uint32_t tiles = walk.step(a, r, n, min(min(left, end - n), (uint32_t)TILES), x);
        n += tiles;
        left -= tiles;
        begins = left == 0 || n == end;
        if (begins)
            walk.end_segment(a, (n - 1) / a_segment);
        left = left == 0 ? a_segment : left;
    }
    walk.end(a, x);
}

template <int PANELS, int TILES>
static __device__ __forceinline__ void narrow(const krn_cuda_attend_bf16 &a) {
    extern __shared__ __align__(1024) unsigned char shared[];
    uint32_t stage_bytes = krn_bf16_kv_bytes(a.head_dim), lane = threadIdx.x % 32;
    uint32_t stages = KRN_ATTEND_RING_BYTES / stage_bytes;
    uint32_t items = KRN_CUDA_AT(const struct krn_cuda_attend_table, a.table)->n_items;
    struct ring r = ring_at(shared, stages, stage_bytes, 1);
    struct narrow90_exchange<TILES> *x =
        (struct narrow90_exchange<TILES> *)(shared + RING_BARRIERS_BYTES + stages * stage_bytes);
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < NARROW90_POSTS; i++)
            hopper_barrier_open(narrow_posted(r, i), 1);
        ring_open(r, NARROW90_THREADS);
    }
    __syncthreads();
    hopper_let_next();
    if (threadIdx.x >= NARROW90_THREADS) {
        hopper_registers_less<40>();
        uint32_t warp = threadIdx.x / 32 - NARROW90_WARPS;
        if (warp == 0)
            narrow_load(a, r, x->posts, items, lane);
        else if (warp <= 2)
            narrow_add<TILES>(a, r, x, items, (warp - 1) * 8, lane);
    } else {
        hopper_registers_more<232>();
        for (uint32_t i = blockIdx.x, post = 0; i < items; i += gridDim.x, post++)
            narrow_item<PANELS, TILES>(a, r, post, x);
    }
}

#define NARROW(columns, tiles)                                                                     \
    extern "C" __global__ void __launch_bounds__(384, 1) krn_attend_bf16_narrow90_##columns(       \
        const __grid_constant__ struct krn_cuda_attend_bf16 a) {                                   \
        narrow<columns / 64, tiles>(a);                                                            \
    }
NARROW(64, 4)
NARROW(128, 4)
NARROW(256, 2)
