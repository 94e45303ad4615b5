/* SPDX-License-Identifier: Apache-2.0
 * Row functions for neon.
 */
#define KRN_ISA_NEON
#include "kernels/cpu/table.h"
