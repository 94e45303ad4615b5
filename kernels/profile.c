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

enum { PROFILE_SEGMENT = 1024, PROFILE_SEGMENT_BF16 = 512 };

/* What profiles differ in; the first is the default. numerics.md 10 says how to add one. */
static const struct {
    const char *name;
    uint32_t version, k_step;
    enum krn_dtype act, kv;
    uint32_t segment;
    uint32_t v; /* virtual ranks at most where nobody asks for a number */
} profiles[] = {
    {"portable", 1, 16, KRN_F32, KRN_F32, PROFILE_SEGMENT, KRN_V_MAX},
    {"amx-bf16", 1, 32, KRN_BF16, KRN_BF16, PROFILE_SEGMENT, KRN_V_MAX},
    {"q8", 2, 32, KRN_Q8_0, KRN_BF16, PROFILE_SEGMENT, KRN_V_MAX},
    {"cuda-bf16-sm90", 1, 16, KRN_BF16, KRN_BF16, PROFILE_SEGMENT_BF16, 4},
};
enum { PROFILES = sizeof profiles / sizeof profiles[0] };

const char *krn_profile_name(unsigned i) {
    return i < PROFILES ? profiles[i].name : NULL;
}

static int allows(const struct krn_config *c, uint32_t k_step, uint32_t v) {
    uint32_t q = c->heads * c->head_dim;
    return c->heads % v == 0 && (c->kv_heads % v == 0 || v % c->kv_heads == 0) &&
           q % (v * k_step) == 0 && c->ffn % (v * k_step) == 0 && c->dense_ffn % (v * k_step) == 0;
}

uint32_t krn_profile_virtual_ranks_max(const struct krn_config *config, uint32_t k_step) {
    uint32_t v = KRN_V_MAX;
    while (v > 1 && !allows(config, k_step, v))
        v /= 2;
    return v;
}

static unsigned find(const char *name) {
    unsigned i = 0;
    while (name != NULL && i < PROFILES && strcmp(profiles[i].name, name) != 0)
        i++;
    return i;
}

static enum status unknown(const char *name, struct status_note *note) {
    char names[128] = "";
    for (unsigned i = 0, at = 0; i < PROFILES && at < sizeof names; i++)
        at += (unsigned)snprintf(names + at, sizeof names - at, "%s%s", i == 0 ? "" : ", ",
                                 profiles[i].name);
    return status_say(note, STATUS_BAD_REQUEST, "there is no profile '%s'; this build knows %s",
                      name, names);
}

enum status krn_profile_open(const char *name, const struct krn_config *config,
                             uint32_t virtual_ranks, struct krn_profile *out,
                             struct status_note *note) {
    unsigned i = find(name);
    if (i == PROFILES)
        return unknown(name, note);
    uint32_t k_step = profiles[i].k_step;
    uint32_t max = krn_profile_virtual_ranks_max(config, k_step);
    uint32_t usual = max < profiles[i].v ? max : profiles[i].v;
    uint32_t v = virtual_ranks != 0 ? virtual_ranks : usual;
    if (!allows(config, k_step, 1))
        return status_say(note, STATUS_UNSUPPORTED,
                          "profile %s walks in K-steps of %u: this model's products of %u (heads) "
                          "and %u (MLP) inputs are not whole steps",
                          profiles[i].name, k_step, config->heads * config->head_dim,
                          config->ffn % k_step != 0 ? config->ffn : krn_dense_width(config));
    if (v > KRN_V_MAX || (v & (v - 1)) != 0 || !allows(config, k_step, v))
        return status_say(note, STATUS_BAD_REQUEST,
                          "%u virtual ranks do not cut this model's heads, and its row-split "
                          "products into whole K-steps of %u; take a power of two up to %u",
                          virtual_ranks, k_step, max);
    struct krn_profile p = {.version = profiles[i].version,
                            .lanes = KRN_LANES,
                            .block = KRN_BLOCK,
                            .k_step = k_step,
                            .virtual_ranks = v,
                            .attn_tile = KRN_TILE,
                            .attn_segment = profiles[i].segment,
                            .act = profiles[i].act,
                            .kv = profiles[i].kv,
                            .promotion = 0};
    if (v == usual)
        snprintf(p.name, sizeof p.name, "%s", profiles[i].name);
    else
        snprintf(p.name, sizeof p.name, "%s-v%u", profiles[i].name, v);
    *out = p;
    return STATUS_OK;
}

enum status krn_profile_portable(const struct krn_config *config, uint32_t virtual_ranks,
                                 struct krn_profile *out, struct status_note *note) {
    return krn_profile_open("portable", config, virtual_ranks, out, note);
}

bool krn_profile_gpu(const struct krn_profile *p) {
    return strncmp(p->name, "cuda-", 5) == 0;
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
