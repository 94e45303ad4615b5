/* SPDX-License-Identifier: Apache-2.0
 * The shapes of a mixture's launches: a block a row, an expert, a tile by outputs.
 */
#include "kernels/cuda/experts.h"

#include "actors/check.h"
#include "kernels/cuda/bf16_tile.h"

enum { EXPERTS_OUTPUTS = 64, EXPERTS_WARPS = 4, EXPERTS_THREADS = 128, MIX_A_BLOCK = 1024 };

#define KERNELS(dtype)                                                                             \
    {                                                                                              \
        "krn_cuda_experts_" dtype "_1", "krn_cuda_experts_" dtype "_2",                            \
            "krn_cuda_experts_" dtype "_4", "krn_cuda_experts_" dtype "_8",                        \
            "krn_cuda_experts_" dtype "_16"                                                        \
    }
static const char *const kernels[KRN_DTYPES][5] = {
    [KRN_F32] = KERNELS("f32"), [KRN_F16] = KERNELS("f16"), [KRN_BF16] = KERNELS("bf16")};

void krn_cuda_route_call(const struct krn_cuda_route *args, uint32_t rows,
                         struct krn_cuda_call *call) {
    CHECK(args->n <= KRN_EXPERTS_MAX && args->used <= KRN_EXPERTS_USED_MAX);
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_route",
                                   .grid = {rows, 1, 1},
                                   .block = {EXPERTS_THREADS, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}

void krn_cuda_place_call(const struct krn_cuda_place *args, struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_cuda_place",
                                   .grid = {args->n, 1, 1},
                                   .block = {EXPERTS_THREADS, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}

uint32_t krn_cuda_experts_tile(uint32_t rows, uint32_t used, uint32_t n, uint32_t most) {
    uint32_t mean = (rows * used + n - 1) / n, tile = 1;
    while (tile < mean && tile < most)
        tile *= 2;
    return tile;
}

uint32_t krn_cuda_experts_tiles(uint32_t slots, uint32_t n, uint32_t tile) {
    uint64_t tiles = slots / tile + (uint64_t)(n < slots ? n : slots);
    return tiles < slots ? (uint32_t)tiles : slots;
}

void krn_cuda_experts_rows_call(const struct krn_cuda_experts_rows *args,
                                struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){
        .kernel = "krn_cuda_experts_rows",
        .grid = {krn_bf16_blocks(args->k, args->segments), args->tiles_max, 1},
        .block = {EXPERTS_THREADS, 1, 1},
        .args = args,
        .args_bytes = sizeof *args};
}

void krn_cuda_experts_bf16_call(const struct krn_cuda_experts_bf16 *args,
                                struct krn_cuda_call *call) {
    enum { STAGES = 3 };
    *call = (struct krn_cuda_call){
        .kernel = "krn_experts_bf16",
        .grid = {(args->n + KRN_BF16_SIDE - 1) / KRN_BF16_SIDE, args->tiles_max, args->segments},
        .block = {EXPERTS_THREADS, 1, 1},
        .shared = STAGES * 2 * KRN_BF16_TILE_BYTES,
        .args = args,
        .args_bytes = sizeof *args};
}

void krn_cuda_experts_call(struct krn_cuda_experts *args, uint32_t slots, uint32_t experts,
                           struct krn_cuda_call *call) {
    uint32_t which = 0, a_block = EXPERTS_OUTPUTS * EXPERTS_WARPS;
    CHECK(args->dtype < KRN_DTYPES && (args->w2 == 0 || args->segments == 1));
    while (1u << which < args->tile)
        which++;
    args->tiles_max = krn_cuda_experts_tiles(slots, experts, args->tile);
    *call = (struct krn_cuda_call){
        .kernel = kernels[args->dtype][which],
        .grid = {(args->n + a_block - 1) / a_block, args->tiles_max, args->segments},
        .block = {32, EXPERTS_WARPS, 1},
        .args = args,
        .args_bytes = sizeof *args};
}

void krn_cuda_mix_call(const struct krn_cuda_mix *args, struct krn_cuda_call *call) {
    CHECK(args->segments <= KRN_V_MAX);
    *call =
        (struct krn_cuda_call){.kernel = "krn_cuda_mix",
                               .grid = {args->rows, (args->n + MIX_A_BLOCK - 1) / MIX_A_BLOCK, 1},
                               .block = {256, 1, 1},
                               .args = args,
                               .args_bytes = sizeof *args};
}
