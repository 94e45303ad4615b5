/* SPDX-License-Identifier: Apache-2.0
 * Which product kernel runs, and how its work is cut (product_bf16.h). No cut can move a bit.
 */
#include "kernels/cuda/product_bf16.h"

enum {
    BARRIERS_BYTES = 1024,
    STAGES_MAX = 64,
    LOADERS = 4, /* warps; a ring has as many stages at least */
    LOADERS_MORE = 8,
    ROWS_FEW_ALONE = 16,
    ROWS_STREAM_BEST = 128,
    UNIT = 16, /* outputs of a warp, or the least of a block */
    UNIT_BYTES = UNIT * KRN_BF16_ROW_BYTES,
    RING_MAX = 192 << 10,
    FEW_UNITS_MAX = 7,
    FEW_WARPS_MAX = 8,
    FEW_PITCH_BYTES = 80,
    GENERIC_STAGES = 3,
    GENERIC_THREADS = 128,
    MANY_OUTPUTS = 128,
    MANY_CLUSTER = 2,
    MANY_THREADS = 384,
    MANY_STAGES_MAX = 8,
    MANY_SUMS_BYTES = 2 * 64 * 68 * 4,
    STREAM_CLUSTER = 2,
    STREAM_UNITS_MAX = 7,
    STREAM_UNITS_MAX_TREE = 2, /* with a tree over segments in registers */
    STREAM_WARP_BYTES = 16 * 40 * 4,
    TREE_LEVELS = 3,
    THREADS_MULTIPLYING = 256
};

static uint32_t ceil_div(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

static int hopper(const struct krn_cuda_machine *m) {
    return m->major == 9 && m->minor == 0;
}

uint64_t krn_cuda_product_bf16_work(const struct krn_cuda_machine *m) {
    /* The accumulators of 128 outputs by 256 rows a block, one set a level. */
    return (uint64_t)m->sms * TREE_LEVELS * THREADS_MULTIPLYING * 128 * sizeof(float);
}

static void call_generic(struct krn_cuda_product_bf16 *a, struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){
        .kernel = "krn_product_bf16",
        .grid = {ceil_div(a->n, KRN_BF16_SIDE), ceil_div(a->rows, KRN_BF16_SIDE), 1},
        .block = {GENERIC_THREADS, 1, 1},
        .shared = GENERIC_STAGES * 2 * KRN_BF16_TILE_BYTES,
        .args = a,
        .args_bytes = sizeof *a};
}

/* Sets the stages of a ring with `rest` bytes beside it; 0 when too few fit. */
static int cut_ring(struct krn_cuda_product_bf16 *a, const struct krn_cuda_machine *m,
                    uint32_t stage_bytes, uint32_t rest, uint32_t most, uint32_t loaders,
                    struct krn_cuda_call *call) {
    uint32_t room = m->shared_max - BARRIERS_BYTES - rest;
    a->stages = room / stage_bytes < most ? room / stage_bytes : most;
    call->shared = BARRIERS_BYTES + a->stages * stage_bytes + rest;
    return a->stages >= loaders;
}

/* Blocks as even as they go: each owns `units` units, `warps` at a time, and as many parts of K as
 * there are segments and room for warps. */
static int call_few(struct krn_cuda_product_bf16 *a, const struct krn_cuda_machine *m,
                    struct krn_cuda_call *call) {
    static const char *const names[4] = {"krn_product_bf16_few_8", "krn_product_bf16_few_16",
                                         "krn_product_bf16_few_32", "krn_product_bf16_few_64"};
    uint32_t which = a->rows <= 8 ? 0 : a->rows <= 16 ? 1 : a->rows <= 32 ? 2 : 3;
    uint32_t units = ceil_div(a->n, UNIT), a_block = ceil_div(units, m->sms);
    uint32_t passes = ceil_div(a_block, FEW_UNITS_MAX);
    a->warps = ceil_div(a_block, passes);
    a->units = a->warps * passes;
    a->parts = 1;
    while (a->parts < a->segments && 2 * a->parts * a->warps <= FEW_WARPS_MAX)
        a->parts *= 2;
    uint32_t stage = a->parts * (a->warps * UNIT_BYTES + (KRN_BF16_ATOM_BYTES << which));
    uint32_t most = RING_MAX / stage < STAGES_MAX ? RING_MAX / stage : STAGES_MAX;
    uint32_t loaders = which < 2 && most >= LOADERS_MORE ? LOADERS_MORE : LOADERS;
    *call = (struct krn_cuda_call){.kernel = names[which],
                                   .grid = {ceil_div(units, a->units), 1, 1},
                                   .block = {32 * (a->warps * a->parts + loaders), 1, 1},
                                   .flags = KRN_CUDA_OVERLAP,
                                   .args = a,
                                   .args_bytes = sizeof *a};
    return a->rows <= KRN_BF16_ROWS_FEW && (which < 3 || a->parts == a->segments) &&
           cut_ring(a, m, stage, a->warps * a->parts * (8U << which) * FEW_PITCH_BYTES, most,
                    loaders, call);
}

/* Blocks as even as they go. Clusters are pairs: greater ones do not tile the machine, and one that
 * must wait for a place doubles the time. */
static int call_stream(struct krn_cuda_product_bf16 *a, const struct krn_cuda_machine *m,
                       struct krn_cuda_call *call) {
    static const char *const names[STREAM_UNITS_MAX + 1] = {"",
                                                            "krn_product_bf16_stream_16",
                                                            "krn_product_bf16_stream_32",
                                                            "krn_product_bf16_stream_48",
                                                            "krn_product_bf16_stream_64",
                                                            "krn_product_bf16_stream_80",
                                                            "krn_product_bf16_stream_96",
                                                            "krn_product_bf16_stream_112"};
    uint32_t groups = ceil_div(a->rows, KRN_BF16_SIDE), units = ceil_div(a->n, UNIT);
    uint32_t a_block = ceil_div(units, m->sms / STREAM_CLUSTER * STREAM_CLUSTER);
    uint32_t most = a->segments > 1 ? STREAM_UNITS_MAX_TREE : STREAM_UNITS_MAX;
    uint32_t passes = ceil_div(a_block, most), a_pass = ceil_div(a_block, passes);
    a->warps = a_pass;
    a->units = a_pass * passes;
    uint32_t stage = a_pass * UNIT_BYTES + groups * KRN_BF16_TILE_BYTES;
    uint32_t rest = 4 * groups * STREAM_WARP_BYTES;
    uint32_t fit = (m->shared_max - BARRIERS_BYTES - rest) / stage;
    uint32_t loaders = groups <= 2 && fit >= LOADERS_MORE ? LOADERS_MORE : LOADERS;
    uint32_t blocks = ceil_div(units, a->units);
    *call =
        (struct krn_cuda_call){.kernel = names[a_pass],
                               .grid = {ceil_div(blocks, STREAM_CLUSTER) * STREAM_CLUSTER, 1, 1},
                               .block = {128 * groups + 32 * loaders, 1, 1},
                               .cluster = {STREAM_CLUSTER, 1, 1},
                               .flags = KRN_CUDA_OVERLAP,
                               .args = a,
                               .args_bytes = sizeof *a};
    return a->rows <= KRN_BF16_ROWS_STREAM &&
           cut_ring(a, m, stage, rest, STAGES_MAX, loaders, call);
}

static int call_many(struct krn_cuda_product_bf16 *a, const struct krn_cuda_machine *m,
                     uint32_t rows_a_tile, struct krn_cuda_call *call) {
    a->row_tiles = ceil_div(a->rows, rows_a_tile);
    a->n_tiles = ceil_div(ceil_div(a->n, MANY_OUTPUTS), MANY_CLUSTER) * MANY_CLUSTER;
    uint32_t blocks = a->row_tiles * a->n_tiles, most = m->sms / MANY_CLUSTER * MANY_CLUSTER;
    *call = (struct krn_cuda_call){.kernel = rows_a_tile == 64    ? "krn_product_bf16_many_64"
                                             : rows_a_tile == 128 ? "krn_product_bf16_many_128"
                                             : rows_a_tile == 192 ? "krn_product_bf16_many_192"
                                                                  : "krn_product_bf16_many_256",
                                   .grid = {blocks < most ? blocks : most, 1, 1},
                                   .block = {MANY_THREADS, 1, 1},
                                   .cluster = {MANY_CLUSTER, 1, 1},
                                   .flags = KRN_CUDA_OVERLAP,
                                   .args = a,
                                   .args_bytes = sizeof *a};
    /* The tree's levels are in registers, but for 256 rows. */
    uint32_t segments = rows_a_tile == 192 ? 2 : rows_a_tile == 128 ? 4 : 8;
    return a->segments <= segments &&
           cut_ring(a, m, 2 * KRN_BF16_TILE_BYTES + rows_a_tile * KRN_BF16_ROW_BYTES,
                    MANY_SUMS_BYTES, MANY_STAGES_MAX, LOADERS, call);
}

/* The tile with the least work: turns of the busiest block times what a turn takes, in hundredths
 * of a block of 64 columns by 256 rows. */
static enum krn_cuda_product_path best_many(const struct krn_cuda_product_bf16 *a,
                                            const struct krn_cuda_machine *m) {
    static const struct {
        enum krn_cuda_product_path path;
        uint32_t rows, segments; /* at most */
        uint32_t a_block, end, a_segment;
    } tiles[] = {{KRN_BF16_MANY_256, 256, 8, 100, 600, 2100},
                 {KRN_BF16_MANY_192, 192, 2, 79, 500, 0},
                 {KRN_BF16_MANY_128, 128, 4, 56, 400, 0},
                 {KRN_BF16_MANY_64, 64, 8, 36, 300, 0}};
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        uint32_t pairs = ceil_div(a->rows, tiles[i].rows) * ceil_div(a->n, 2 * MANY_OUTPUTS);
        uint64_t turn = (uint64_t)a->k_blocks * tiles[i].a_block + tiles[i].end +
                        (uint64_t)(a->segments - 1) * tiles[i].a_segment;
        uint64_t cost = ceil_div(pairs, m->sms / MANY_CLUSTER) * turn;
        if (a->segments <= tiles[i].segments && cost < least) {
            least = cost;
            best = i;
        }
    }
    return tiles[best].path;
}

int krn_cuda_product_bf16_call(struct krn_cuda_product_bf16 *args, const struct krn_cuda_machine *m,
                               enum krn_cuda_product_path path, struct krn_cuda_call *call) {
    if (path == KRN_BF16_AUTO && hopper(m)) {
        /* Without segments to share, the warps of `few` wait for each other's sums. */
        uint32_t most = args->segments > 1 ? KRN_BF16_ROWS_FEW : ROWS_FEW_ALONE;
        if (args->rows <= most && call_few(args, m, call))
            return 1;
        path = args->rows <= ROWS_STREAM_BEST ? KRN_BF16_STREAM : best_many(args, m);
    }
    switch (path) {
    case KRN_BF16_FEW:
        return hopper(m) && call_few(args, m, call);
    case KRN_BF16_STREAM:
        return hopper(m) && call_stream(args, m, call);
    case KRN_BF16_MANY_64:
        return hopper(m) && call_many(args, m, 64, call);
    case KRN_BF16_MANY_128:
        return hopper(m) && call_many(args, m, 128, call);
    case KRN_BF16_MANY_192:
        return hopper(m) && call_many(args, m, 192, call);
    case KRN_BF16_MANY_256:
        return hopper(m) && call_many(args, m, 256, call);
    case KRN_BF16_AUTO:
    case KRN_BF16_PATHS:
    case KRN_BF16_GENERIC:
        break;
    }
    call_generic(args, call);
    return m->major >= 8;
}
