/* SPDX-License-Identifier: Apache-2.0
 * The tables that this build has. Private to kernels/; others call krn_rowfn_pick.
 */
#ifndef KERNELS_CPU_TABLES_H
#define KERNELS_CPU_TABLES_H

#include "kernels/cpu/bf16.h"
#include "kernels/rowfn.h"

extern const struct krn_rowfn krn_rowfn_scalar, krn_rowfn_avx2, krn_rowfn_avx512, krn_rowfn_neon;
extern const struct krn_bf16_fn krn_bf16_scalar, krn_bf16_avx2, krn_bf16_avx512, krn_bf16_amx,
    krn_bf16_neon;

#endif
