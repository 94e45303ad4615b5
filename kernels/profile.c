/* SPDX-License-Identifier: Apache-2.0
 * Profiles as data (numerics.md 10).
 */
#include "kernels/profile.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/model.h"
#include "kernels/rowfn.h"

enum { PROFILE_VERSION = 1, PROFILE_SEGMENT = 1024, PROFILE_K_STEP = 16 };

static int allows(const struct krn_config *c, uint32_t k_step, uint32_t v) {
    uint32_t q = c->heads * c->head_dim;
    return c->heads % v == 0 && (c->kv_heads % v == 0 || v % c->kv_heads == 0) &&
           q % (v * k_step) == 0 && c->ffn % (v * k_step) == 0;
}

uint32_t krn_profile_virtual_ranks_max(const struct krn_config *config, uint32_t k_step) {
    uint32_t v = KRN_V_MAX;
    while (v > 1 && !allows(config, k_step, v))
        v /= 2;
    return v;
}

enum status krn_profile_portable(const struct krn_config *config, uint32_t virtual_ranks,
                                 struct krn_profile *out, struct status_note *note) {
    uint32_t max = krn_profile_virtual_ranks_max(config, PROFILE_K_STEP);
    uint32_t v = virtual_ranks != 0 ? virtual_ranks : max;
    if (v > KRN_V_MAX || (v & (v - 1)) != 0 || !allows(config, PROFILE_K_STEP, v))
        return status_say(note, STATUS_BAD_REQUEST,
                          "%u virtual ranks do not divide this model; take a power of two up to %u",
                          virtual_ranks, max);
    struct krn_profile p = {.version = PROFILE_VERSION,
                            .lanes = KRN_LANES,
                            .block = KRN_BLOCK,
                            .k_step = PROFILE_K_STEP,
                            .virtual_ranks = v,
                            .attn_tile = KRN_TILE,
                            .attn_segment = PROFILE_SEGMENT,
                            .act = KRN_F32,
                            .kv = KRN_F32,
                            .promotion = 0};
    if (v == max)
        snprintf(p.name, sizeof p.name, "portable");
    else
        snprintf(p.name, sizeof p.name, "portable-v%u", v);
    *out = p;
    return STATUS_OK;
}

uint64_t krn_profile_digest(const struct krn_profile *p) {
    unsigned char bytes[sizeof p->name + 10 * 4] = {0};
    memcpy(bytes, p->name, strnlen(p->name, sizeof p->name));
    const uint32_t field[10] = {p->version,       p->lanes,     p->block,        p->k_step,
                                p->virtual_ranks, p->attn_tile, p->attn_segment, (uint32_t)p->act,
                                (uint32_t)p->kv,  p->promotion};
    for (unsigned i = 0; i < 10; i++)
        for (unsigned b = 0; b < 4; b++)
            bytes[sizeof p->name + 4 * i + b] = (unsigned char)(field[i] >> (8 * b));
    return XXH3_64bits(bytes, sizeof bytes);
}
