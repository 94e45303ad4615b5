/* SPDX-License-Identifier: Apache-2.0
 * The situations.
 */
#include "gpu/perturb.h"

#include <string.h>

void gpu_perturb_mark(enum gpu_perturb kind, struct gpu_perturb_memory *memory,
                      const struct gpu_plan *p, uint64_t failed_number, bool many_threads,
                      unsigned char *changed) {
    const struct gpu_seq *seqs = gpu_plan_seqs(p);
    bool trouble = (p->flags & GPU_PLAN_ALONE) != 0 || failed_number + 1 == p->number;
    for (uint32_t q = 0; q < p->n_seqs; q++) {
        const struct gpu_seq *s = &seqs[q];
        struct gpu_perturb_seen *seen = &memory->seen[s->slot];
        bool now = false;
        if (!seen->known || seen->request != s->request)
            *seen = (struct gpu_perturb_seen){s->request, true, s->first_pos > 0, false};
        else if (s->n_rows > 1 && s->n_draws <= 1)
            seen->pieced = true;
        switch (kind) {
        case GPU_PERTURB_NONE:
            break;
        case GPU_PERTURB_COMPANY:
            now = p->n_seqs > 1;
            break;
        case GPU_PERTURB_MEMORY:
            now = seen->resumed;
            break;
        case GPU_PERTURB_DRAFTS:
            now = s->n_draws > 1;
            break;
        case GPU_PERTURB_PIECES:
            now = seen->pieced;
            break;
        case GPU_PERTURB_THREADS:
            now = many_threads;
            break;
        case GPU_PERTURB_TROUBLE:
            now = trouble;
            break;
        }
        memset(changed + s->first_draw, now, s->n_draws);
    }
}
