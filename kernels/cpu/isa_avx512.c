/* SPDX-License-Identifier: Apache-2.0
 * Row functions for avx512.
 */
#define KRN_ISA_AVX512
#include "kernels/cpu/table.h"
