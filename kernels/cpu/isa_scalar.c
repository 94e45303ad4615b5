/* SPDX-License-Identifier: Apache-2.0
 * Row functions for scalar.
 */
#define KRN_ISA_SCALAR
#include "kernels/cpu/table.h"
