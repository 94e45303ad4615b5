/* SPDX-License-Identifier: Apache-2.0
 * The vector form that the including file chose (isa_*.c define exactly one), and what is written
 * on top of it once: exp in sixteen lanes. A new instruction set is one vec_*.h and one isa_*.c.
 */
#ifndef KERNELS_CPU_VEC_H
#define KERNELS_CPU_VEC_H

#include <stdbool.h>

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#if defined(KRN_ISA_AVX512)
#include "kernels/cpu/vec_avx512.h"
#elif defined(KRN_ISA_AVX2)
#include "kernels/cpu/vec_avx2.h"
#elif defined(KRN_ISA_NEON)
#include "kernels/cpu/vec_neon.h"
#else
#include "kernels/cpu/vec_scalar.h"
#endif

/* krn_expf in each lane: same operations, same order (numerics.md 0.5). Where no lane is above 0,
 * what only serves large arguments is left out. */
VEC_FN v16 v_exp_of(v16 x, const bool above_zero) {
    const v16 lo = v_set1(KRN_EXP_LO), hi = v_set1(KRN_EXP_HI);
    v16 c = v_max(x, lo);
    if (above_zero)
        c = v_min(c, hi);
    v16 t = v_fma(c, v_set1(KRN_EXP_LOG2E), v_set1(KRN_EXP_ROUND));
    v16 n = v_sub(t, v_set1(KRN_EXP_ROUND));
    v16 r = v_fnma(n, v_set1(KRN_EXP_LN2_HI), c);
    r = v_fnma(n, v_set1(KRN_EXP_LN2_LO), r);
    v16 q = v_fma(v_set1(KRN_EXP_C6), r, v_set1(KRN_EXP_C5));
    q = v_fma(q, r, v_set1(KRN_EXP_C4));
    q = v_fma(q, r, v_set1(KRN_EXP_C3));
    q = v_fma(q, r, v_set1(KRN_EXP_C2));
    v16 p = v_fma(q, v_mul(r, r), r);
    p = v_add(p, v_set1(1.0f));
    v16 y = v_select(v_lt(x, lo), v_zero(), v_scale_exp(p, t));
    if (above_zero)
        y = v_select(v_lt(hi, x), v_set1(INFINITY), y);
    return v_select(v_is_nan(x), x, y);
}

VEC_FN v16 v_exp(v16 x) {
    return v_exp_of(x, true);
}

/* Each lane at most 0, or NaN. */
VEC_FN v16 v_exp_down(v16 x) {
    return v_exp_of(x, false);
}

/* The same of one value. */
VEC_FN float v_exp1(float x) {
#if defined(KRN_ISA_AVX512) || defined(KRN_ISA_AVX2)
    return v_first(v_exp(v_set1(x)));
#else
    return krn_expf(x);
#endif
}

#endif
