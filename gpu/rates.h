/* SPDX-License-Identifier: Apache-2.0
 * The ceilings of this machine's first GPU, measured: for the floors beside a benchmark's numbers.
 * Takes 2 GiB of its memory and about a tenth of a second.
 */
#ifndef GPU_RATES_H
#define GPU_RATES_H

#include "actors/status.h"

struct gpu_rates {
    double copy_bytes_s; /* a copy within device memory, bytes read and written together */
    double matrix_ops_s; /* bf16 matrix units on random operands; 0: not known for this GPU */
};

enum status gpu_rates_measure(struct gpu_rates *out, struct status_note *note);

#endif
