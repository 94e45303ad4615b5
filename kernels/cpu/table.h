/* SPDX-License-Identifier: Apache-2.0
 * The table of the instruction set that the including file chose.
 */
#include "kernels/cpu/attend_f32.h"
#include "kernels/cpu/draw_passes.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/product_bf16.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/tables.h"

const struct krn_rowfn VEC_TABLE = {
    .isa = VEC_ISA,
    .embed = rowfn_embed,
    .norm = rowfn_norm,
    .product = rowfn_product,
    .rope = rowfn_rope,
    .kv_write = rowfn_kv_write,
    .attend = rowfn_attend,
    .gate = rowfn_gate,
    .gate_gelu = rowfn_gate_gelu,
    .scale = rowfn_scale,
    .add = rowfn_add,
    .mix = rowfn_mix,
    .finite = rowfn_finite,
    .draw = rowfn_draw,
};
