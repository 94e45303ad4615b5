/* SPDX-License-Identifier: Apache-2.0
 * Pages of one sequence for attention tests and benchmarks: keys and values in tiles behind
 * shuffled page ids.
 */
#ifndef TESTS_CUDA_ATTEND_RIG_H
#define TESTS_CUDA_ATTEND_RIG_H

#include "kernels/cuda/attend_bf16.h"
#include "tests/cuda/kit.h"

enum { RIG_SEQS_MAX = 256 };

struct attend_rig {
    struct kit *kit;
    struct krn_cuda_machine machine; /* the kit's; an older one's kernels run too */
    struct krn_cuda_attend_bf16 a;
    krn_cuda_ptr_t table; /* room for spans of so many rows */
    struct krn_cuda_attend_table *host_table;
    uint64_t table_bytes;
};

/* a's shape fields are set; takes device memory for table, work and page ids of `pages`. */
void attend_rig_open(struct attend_rig *r, struct kit *kit, const struct krn_cuda_attend_bf16 *a,
                     uint32_t rows, uint32_t pages);
void attend_rig_close(struct attend_rig *r);
/* Cuts, uploads the table. */
void attend_rig_seqs(struct attend_rig *r, const struct krn_cuda_attend_seq *seqs, uint32_t n);
/* Launches what the table needs. */
void attend_rig_run(struct attend_rig *r);

#endif
