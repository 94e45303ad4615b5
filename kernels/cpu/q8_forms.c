/* SPDX-License-Identifier: Apache-2.0
 * Choice of the form of profile `q8`.
 */
#include <string.h>

#include "actors/check.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/q8_entries.h"
#include "kernels/cpu/q8_row.h"

#if defined(__x86_64__)
static bool runs_vnni(void) {
    return krn_rowfn_pick("avx512") != NULL && __builtin_cpu_supports("avx512vnni");
}

static bool runs_amx(void) {
    return runs_vnni() && krn_amx_int8();
}

static bool runs_avx2(void) {
    return krn_rowfn_pick("avx2") != NULL;
}
#endif

static bool runs_always(void) {
    return true;
}

/* Best first; each runs beside the row functions of its rank and of lower ones. */
static const struct {
    const struct krn_q8 *q8;
    bool (*runs)(void);
    unsigned rank;
} forms[] = {
#if defined(__x86_64__)
    {&krn_q8_amx, runs_amx, 0},
    {&krn_q8_vnni, runs_vnni, 0},
    {&krn_q8_avx2, runs_avx2, 1},
#endif
    {&krn_q8_plain, runs_always, 2},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

const struct krn_q8 *krn_q8_pick(const struct krn_rowfn *fn) {
    unsigned rank = strcmp(fn->isa, "avx512") == 0 ? 0 : strcmp(fn->isa, "avx2") == 0 ? 1 : 2;
    unsigned i = 0;
    while (forms[i].rank < rank || !forms[i].runs())
        i++;
    return forms[i].q8;
}

const struct krn_q8 *krn_q8_at(unsigned i) {
    for (unsigned f = 0; f < FORMS; f++)
        if (forms[f].runs() && i-- == 0)
            return forms[f].q8;
    return NULL;
}

size_t krn_q8_row_bytes(uint32_t k) {
    return q8_row_bytes(k);
}
