/* SPDX-License-Identifier: Apache-2.0
 * Mixtures of experts (numerics.md 13) over the rows of a chunk of a step. A slot is a row at one
 * of its experts; slots of an expert follow each other in the order of rows, and are multiplied in
 * tiles of up to 16. How many slots an expert has is known on the device alone: launches have room
 * for any choice, and blocks behind the last tile have nothing to do. In this order:
 *
 *     route      the experts of each row and their weights
 *     place      slots and tiles
 *     product    gate and up of each slot, and the gate
 *     product    down of each slot, a segment alone
 *     mix        the slots of each row, segments in the tree
 *
 * On tensor cores (numerics.md 16) a tile has up to 64 slots, whose inputs are packed first.
 */
#ifndef KERNELS_CUDA_EXPERTS_H
#define KERNELS_CUDA_EXPERTS_H

#include "kernels/cuda/step.h"

enum { KRN_EXPERTS_TILE = 16, KRN_EXPERTS_TILE_BF16 = 64 };

struct krn_cuda_route {
    krn_cuda_ptr_t step;
    krn_cuda_ptr_t logits; /* f32, ld a row */
    krn_cuda_ptr_t chosen; /* u32 [rows][used], ascending */
    krn_cuda_ptr_t weight; /* f32 [rows][used] */
    uint32_t n, used, norm, ld;
};

void krn_cuda_route_call(const struct krn_cuda_route *args, uint32_t rows,
                         struct krn_cuda_call *call);

struct krn_cuda_tile {
    uint32_t expert, first, slots;
};

/* What place leaves: slot_row[slot], and slot_of[row of the chunk][used]. */
struct krn_cuda_place {
    krn_cuda_ptr_t step, chosen;
    krn_cuda_ptr_t slot_row, slot_of; /* u32 */
    krn_cuda_ptr_t tiles, n_tiles;    /* struct krn_cuda_tile, u32 */
    uint32_t first_row, rows;         /* of the chunk */
    uint32_t n, used;
    uint32_t tile; /* slots of a tile at most */
    uint32_t reserved;
};

void krn_cuda_place_call(const struct krn_cuda_place *args, struct krn_cuda_call *call);

/* Slots of a tile for so many rows, `most` at most: few where few rows share an expert. */
uint32_t krn_cuda_experts_tile(uint32_t rows, uint32_t used, uint32_t n, uint32_t most);
/* Tiles at most of so many slots: each expert's last one may hold one slot. */
uint32_t krn_cuda_experts_tiles(uint32_t slots, uint32_t n, uint32_t tile);

/* y[slot][segment] = the chain of its input over a segment of its expert's matrix; with w2 (one
 * segment) silu of it times the chain over w2. */
struct krn_cuda_experts {
    krn_cuda_ptr_t tiles, n_tiles;
    krn_cuda_ptr_t slot_row; /* inputs are rows of x; 0: slots */
    krn_cuda_ptr_t x, y;     /* f32, ldx and ldy a row */
    krn_cuda_ptr_t w, w2;    /* packed [block][k][16] of expert 0; w2: 0 for none */
    uint64_t w_stride;       /* bytes from expert to expert */
    uint32_t ldx, ldy, n, k, segments;
    uint32_t dtype;     /* enum krn_dtype of w and w2 */
    uint32_t tile;      /* as place had it */
    uint32_t tiles_max; /* of the launch */
};

/* slots: rows of the chunk's shape times experts that a row uses; experts: all. */
/* Inputs of the slots of tile t, rounded, as tile t of rows for tensor cores (bf16_tile.h). */
struct krn_cuda_experts_rows {
    krn_cuda_ptr_t tiles, n_tiles;
    krn_cuda_ptr_t slot_row; /* inputs are rows of x; 0: slots */
    krn_cuda_ptr_t x;        /* f32, ldx a row */
    krn_cuda_ptr_t up;       /* as x: the input is silu(x) * up; 0: x */
    krn_cuda_ptr_t out;
    uint32_t ldx, k, segments;
    uint32_t tiles_max; /* of the launch */
};

void krn_cuda_experts_rows_call(const struct krn_cuda_experts_rows *args,
                                struct krn_cuda_call *call);

/* The chains of numerics.md 16.3 in place of those of struct krn_cuda_experts. */
struct krn_cuda_experts_bf16 {
    krn_cuda_ptr_t tiles, n_tiles;
    krn_cuda_ptr_t x;  /* as krn_cuda_experts_rows left it */
    krn_cuda_ptr_t w;  /* tiles of expert 0 */
    krn_cuda_ptr_t y;  /* f32 [slot][segment], ldy apart */
    uint64_t w_stride; /* bytes from expert to expert */
    uint32_t n, ldy, k_blocks, segments;
    uint32_t tiles_max, reserved;
};

void krn_cuda_experts_bf16_call(const struct krn_cuda_experts_bf16 *args,
                                struct krn_cuda_call *call);

void krn_cuda_experts_call(struct krn_cuda_experts *args, uint32_t slots, uint32_t experts,
                           struct krn_cuda_call *call);

/* y[row] (+)= the tree over segments of (the chain over its experts ascending of fma(weight, one,
 * acc)). */
struct krn_cuda_mix {
    krn_cuda_ptr_t step, slot_of, weight;
    krn_cuda_ptr_t one; /* f32 [slot][segment], ld_one apart */
    krn_cuda_ptr_t y;   /* f32, ldy a row */
    uint32_t first_row, rows;
    uint32_t used, segments, n, ld_one, ldy;
    uint32_t add;
};

void krn_cuda_mix_call(const struct krn_cuda_mix *args, struct krn_cuda_call *call);

#endif
