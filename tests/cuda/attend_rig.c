/* SPDX-License-Identifier: Apache-2.0
 * The rig of attention tests.
 */
#include "tests/cuda/attend_rig.h"

#include <stdlib.h>

void attend_rig_open(struct attend_rig *r, struct kit *kit, const struct krn_cuda_attend_bf16 *a,
                     uint32_t rows, uint32_t pages) {
    uint64_t work = krn_cuda_attend_work(a->head_dim, a->items_max);
    r->kit = kit;
    r->machine = kit->machine;
    r->a = *a;
    r->table_bytes =
        sizeof *r->host_table + (uint64_t)krn_cuda_attend_spans_max(a, RIG_SEQS_MAX, rows) *
                                    sizeof(struct krn_cuda_attend_span);
    r->host_table = malloc(r->table_bytes);
    r->a.table = r->table = kit_alloc(kit, r->table_bytes);
    r->a.pages = kit_alloc(kit, (uint64_t)pages * 4);
    r->a.work = kit_alloc(kit, work + 16);
    kit_fill(kit, r->a.work, 0, work / 4);
}

void attend_rig_close(struct attend_rig *r) {
    kit_free(r->kit, r->a.table);
    kit_free(r->kit, r->a.pages);
    kit_free(r->kit, r->a.work);
    free(r->host_table);
}

void attend_rig_seqs(struct attend_rig *r, const struct krn_cuda_attend_seq *seqs, uint32_t n) {
    krn_cuda_attend_cut(&r->a, &r->machine, seqs, n, r->host_table);
    kit_put(r->kit, r->table, r->host_table, r->table_bytes);
}

void attend_rig_run(struct attend_rig *r) {
    struct krn_cuda_call calls[2];
    int n = krn_cuda_attend_bf16_calls(&r->a, &r->machine, calls);
    if (r->host_table->n_narrow > 0)
        kit_launch(r->kit, &calls[0]);
    if (n > 1 && r->host_table->n_wide > 0)
        kit_launch(r->kit, &calls[1]);
}
