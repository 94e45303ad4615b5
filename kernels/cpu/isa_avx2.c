/* SPDX-License-Identifier: Apache-2.0
 * Row functions for avx2.
 */
#define KRN_ISA_AVX2
#include "kernels/cpu/table.h"
