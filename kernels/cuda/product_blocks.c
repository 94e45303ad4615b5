/* SPDX-License-Identifier: Apache-2.0
 * The shapes of launches over blocked weights (product_blocks.h, block_pack.h).
 */
#include "kernels/cuda/product_blocks.h"

#include "actors/check.h"

enum {
    BARRIERS_BYTES = 1024,
    LOADERS = 4, /* warps; a ring has as many stages at least */
    STAGES_MAX = 32,
    RING_MAX = 192 << 10,
    SPAN_MAX = 4,
    PITCH_BYTES = 80,
    WARPS_FEW = 14, /* of up to 16 rows */
    WARPS_MORE = 8,
    WARPS_HALVES = 16,
    PACK_WARPS = 4,
    WIDEN_WARPS = 4
};

static uint32_t ceil_div(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

int krn_cuda_blocks_fit(uint32_t type, uint32_t col0, uint32_t k, uint32_t segments) {
    /* Scales of more than half a unit would reach into what fills a segment. */
    uint32_t scales = krn_unit_form(type).scales;
    uint32_t whole = scales == KRN_UNIT_K || scales == KRN_UNIT_K6 ? KRN_BF16_SIDE : KRN_UNIT_RUN;
    return type >= KRN_DTYPES && type < KRN_TYPES && k % segments == 0 &&
           k / segments % whole == 0 && col0 % whole == 0;
}

void krn_cuda_pack_blocks_call(const struct krn_cuda_pack_blocks *args,
                               struct krn_cuda_call *call) {
    *call = (struct krn_cuda_call){.kernel = "krn_pack_blocks",
                                   .grid = {ceil_div(args->blocks, PACK_WARPS), args->units, 1},
                                   .block = {32 * PACK_WARPS, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}

void krn_cuda_widen_blocks_call(const struct krn_cuda_widen_blocks *args,
                                struct krn_cuda_call *call) {
    uint32_t tiles = ceil_div(args->units * KRN_UNIT_ROWS, KRN_BF16_SIDE);
    *call = (struct krn_cuda_call){.kernel = "krn_widen_blocks",
                                   .grid = {args->blocks, tiles, 1},
                                   .block = {32 * WIDEN_WARPS, 1, 1},
                                   .args = args,
                                   .args_bytes = sizeof *args};
}

enum { SIZES = 4, KERNELS = 6 };

/* By type and by rows: 8, 16, 32, 64, then 8 and 16 with two warps a unit. */
#define NAMES(type)                                                                                \
    {                                                                                              \
        "krn_product_" type "_8", "krn_product_" type "_16", "krn_product_" type "_32",            \
            "krn_product_" type "_64", "krn_product_" type "_8_halves",                            \
            "krn_product_" type "_16_halves"                                                       \
    }
static const char *const names[KRN_TYPES][KERNELS] = {
    [KRN_Q8_0] = NAMES("q8_0"), [KRN_Q4_0] = NAMES("q4_0"), [KRN_Q4_1] = NAMES("q4_1"),
    [KRN_Q5_0] = NAMES("q5_0"), [KRN_Q5_1] = NAMES("q5_1"), [KRN_Q4_K] = NAMES("q4_k"),
    [KRN_Q5_K] = NAMES("q5_k"), [KRN_Q6_K] = NAMES("q6_k"), [KRN_IQ4_NL] = NAMES("iq4_nl")};

/* Blocks as even as they go: each owns `units` rows of units, `warps` at a time, one a warp, and as
 * many parts of K as there are segments and room for warps. */
int krn_cuda_product_blocks_call(struct krn_cuda_product_blocks *a,
                                 const struct krn_cuda_machine *m, struct krn_cuda_call *call) {
    struct krn_cuda_product_bf16 *p = &a->p;
    uint32_t which = p->rows <= 8 ? 0 : p->rows <= 16 ? 1 : p->rows <= 32 ? 2 : 3;
    uint32_t most = which < 2 ? WARPS_FEW : WARPS_MORE;
    uint32_t units = krn_unit_rows(p->n), a_block = ceil_div(units, m->sms);
    uint32_t passes = ceil_div(a_block, most), a_segment = p->k_blocks / p->segments;
    CHECK(a->type < KRN_TYPES && names[a->type][0] != NULL && p->k_blocks % p->segments == 0);
    a->unit_bytes = krn_unit_bytes(a->type);
    a->warps = ceil_div(a_block, passes);
    a->units = a->warps * passes;
    a->parts = 1;
    while (a->parts < p->segments && 2 * a->parts * a->warps <= most)
        a->parts *= 2;
    a->span = SPAN_MAX;
    while (a_segment % a->span != 0)
        a->span /= 2;
    uint32_t rest, room, stage;
    for (;;) {
        rest = a->warps * a->parts * (8U << which) * PITCH_BYTES;
        room = m->shared_max - BARRIERS_BYTES - rest;
        room = room < RING_MAX ? room : RING_MAX;
        stage = a->parts * a->span * (a->warps * a->unit_bytes + (KRN_BF16_ATOM_BYTES << which));
        if (room / stage >= LOADERS || (a->span == 1 && a->parts == 1))
            break;
        if (a->span > 1)
            a->span /= 2;
        else
            a->parts /= 2;
    }
    a->stages = room / stage < STAGES_MAX ? room / stage : STAGES_MAX;
    /* Few warps wait for their own values: two then share a unit. */
    uint32_t halves = which < 2 && 2 * a->warps * a->parts <= WARPS_HALVES ? 2 : 1;
    *call = (struct krn_cuda_call){.kernel = names[a->type][which + (halves - 1) * SIZES],
                                   .grid = {ceil_div(units, a->units), ceil_div(p->rows, 64), 1},
                                   .block = {32 * (a->warps * a->parts * halves + LOADERS), 1, 1},
                                   .shared = BARRIERS_BYTES + a->stages * stage + rest,
                                   .flags = KRN_CUDA_OVERLAP,
                                   .args = a,
                                   .args_bytes = sizeof *a};
    return m->major == 9 && m->minor == 0 && p->rows <= KRN_BLOCKS_ROWS && a->stages >= LOADERS;
}
