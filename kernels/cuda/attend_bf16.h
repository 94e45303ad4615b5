/* SPDX-License-Identifier: Apache-2.0
 * Attention of the profile cuda-bf16 (numerics.md 16.5) over pages, for prompt, verify and decode
 * rows alike. A "line" is one row's query head; lines of one KV head read each tile together.
 *
 *     wide     spans of many rows: 128 lines a block, all segments one after the other
 *     narrow   spans of up to 16 lines; segments side by side when there is room for them, the
 *              block that ends last merges them in ascending order
 *
 * What changes from step to step lies in device memory: the table of spans (written by the host
 * with krn_cuda_attend_cut) and the page ids. Both launches are the same for every table.
 */
#ifndef KERNELS_CUDA_ATTEND_BF16_H
#define KERNELS_CUDA_ATTEND_BF16_H

#include "kernels/cuda/bf16_tile.h"
#include "kernels/cuda/call.h"
#include "kernels/cuda/product_bf16.h"

enum {
    KRN_ATTEND_LINES = 16,
    KRN_ATTEND_LINES_WIDE = 128,
    KRN_ATTEND_HEAD_WIDE = 128,
    KRN_ATTEND_RING_BYTES = 192 << 10 /* narrow on Hopper: tiles under way in a block */
};

/* Shared bytes that warps of narrow exchange: probabilities of sixteen lines, each warp's maxima;
 * on Hopper for each tile of a step, rounded ones and factors too, and the items at hand. */
enum { KRN_ATTEND_PITCH = 72, KRN_ATTEND_EXCHANGE = (KRN_ATTEND_PITCH + 4) * 16 * 4 };
#define KRN_ATTEND_EXCHANGE90(tiles) ((tiles)*16 * (KRN_ATTEND_PITCH * 6 + 4) + 10 * 16 * 4 + 1024)

/* Rows of one sequence at consecutive positions. */
struct krn_cuda_attend_span {
    uint32_t first_row, rows, first_pos;
    uint32_t first_page; /* in the page ids, from position 0 on */
    uint32_t first_item; /* narrow: items before it */
    uint32_t split;      /* narrow: an item is one segment */
};

/* Spans follow: n_wide, then n_narrow. */
struct krn_cuda_attend_table {
    uint32_t n_wide, n_narrow, n_items, reserved;
};

struct krn_cuda_attend_bf16 {
    krn_cuda_ptr_t table, pages; /* struct krn_cuda_attend_table; page ids, 32 bits each */
    krn_cuda_ptr_t q, out;       /* fp32 rows; out may be 0 */
    krn_cuda_ptr_t packed;       /* out as packed rows of the next product; 0: none */
    krn_cuda_ptr_t pool, work;   /* work: krn_cuda_attend_work bytes, begins as zeros */
    uint64_t page_bytes, layer_off;
    uint32_t page_tokens, heads, kv_heads, head_dim; /* heads: a multiple of kv_heads */
    uint32_t ldq, ldo, window, segment;
    uint32_t packed_segment, packed_blocks; /* as of struct krn_cuda_product_bf16 */
    uint32_t items_max;
    float scale;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Work for so many split items. */
uint64_t krn_cuda_attend_work(uint32_t head_dim, uint32_t items_max);

/* A sequence of the step. */
struct krn_cuda_attend_seq {
    uint32_t first_row, rows, first_pos, first_page;
};

/* Spans at most for so many sequences and rows. */
uint32_t krn_cuda_attend_spans_max(const struct krn_cuda_attend_bf16 *a, uint32_t seqs,
                                   uint32_t rows);

/* Cuts sequences into spans behind *table. No cut can move a bit. */
void krn_cuda_attend_cut(const struct krn_cuda_attend_bf16 *a, const struct krn_cuda_machine *m,
                         const struct krn_cuda_attend_seq *seqs, uint32_t n_seqs,
                         struct krn_cuda_attend_table *table);

/* Rows that a sequence has at least where it is cut into wide spans. */
uint32_t krn_cuda_attend_wide_from(const struct krn_cuda_attend_bf16 *a);

/* The two launches; calls[1] is needed only where a table may have wide spans. Returns how many
 * there are: 1 when heads of this width are never wide. */
int krn_cuda_attend_bf16_calls(const struct krn_cuda_attend_bf16 *a,
                               const struct krn_cuda_machine *m, struct krn_cuda_call calls[2]);

#ifdef __cplusplus
}
#endif

#endif
