/* SPDX-License-Identifier: Apache-2.0
 * The table of products.
 */
#include "kernels/matmul.h"

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/q8_entries.h"
#include "kernels/cuda/bf16_tile.h"

/* The last table that passed its self-test. Devices open on one thread, at start. */
static const struct krn_rowfn *proven;
static const struct krn_bf16_fn *proven_bf16;
static const struct krn_q8 *proven_q8;

static bool rounds_nothing(enum krn_dtype weight) {
    (void)weight;
    return false;
}

static size_t no_row(uint32_t k) {
    (void)k;
    return 0;
}

/* Products of the row functions: fp32 rows, weights side by side in blocks or in cells. */
static enum status open_f32(const struct krn_rowfn *fn, struct krn_matmul *out) {
    *out = (struct krn_matmul){.isa = fn->isa,
                               .rounds = rounds_nothing,
                               .row_bytes = no_row,
                               .packed_bytes = krn_packed_bytes,
                               .pack = krn_pack,
                               .embed = fn->embed,
                               .product = fn->product};
    return STATUS_OK;
}

static bool rounds_all(enum krn_dtype weight) {
    (void)weight;
    return true;
}

static enum status prove_bf16(const struct krn_bf16_fn *bf16, struct status_note *note) {
    if (proven_bf16 != bf16)
        TRY(krn_bf16_selftest(bf16, note));
    proven_bf16 = bf16;
    return STATUS_OK;
}

/* Products of bf16 rows and weights, in tiles or vectors (numerics.md 15). */
static enum status open_bf16(const struct krn_rowfn *fn, struct krn_matmul *out,
                             struct status_note *note) {
    const struct krn_bf16_fn *bf16 = krn_bf16_pick(fn);
    TRY(prove_bf16(bf16, note));
    *out = (struct krn_matmul){.isa = bf16->isa,
                               .rounds = rounds_all,
                               .row_bytes = krn_bf16_row_bytes,
                               .round = bf16->round,
                               .packed_bytes = krn_bf16_packed_bytes,
                               .pack = krn_bf16_pack,
                               .embed = krn_bf16_embed,
                               .product = bf16->product};
    return STATUS_OK;
}

static bool rounds_blocked(enum krn_dtype weight) {
    return weight >= KRN_DTYPES;
}

/* Products of rows of bytes and blocked weights (numerics.md 14). */
static enum status open_q8(const struct krn_rowfn *fn, struct krn_matmul *out,
                           struct status_note *note) {
    const struct krn_q8 *q8 = krn_q8_pick(fn);
    if (proven_q8 != q8)
        TRY(krn_q8_selftest(q8, note));
    proven_q8 = q8;
    *out = (struct krn_matmul){.isa = q8->isa,
                               .rounds = rounds_blocked,
                               .row_bytes = krn_q8_row_bytes,
                               .round = q8->round,
                               .packed_bytes = krn_packed_bytes,
                               .pack = krn_pack,
                               .embed = fn->embed,
                               .product = q8->product};
    return STATUS_OK;
}

enum status krn_matmul_open(const struct krn_profile *profile, const struct krn_rowfn *fn,
                            struct krn_matmul *out, struct status_note *note) {
    if (krn_profile_gpu(profile))
        return status_say(note, STATUS_UNSUPPORTED, "profile %s runs on a GPU: --device cuda",
                          profile->name);
    if (proven != fn)
        TRY(krn_selftest(fn, note));
    proven = fn;
    switch (profile->act) {
    case KRN_F32:
        return open_f32(fn, out);
    case KRN_Q8_0:
        return open_q8(fn, out, note);
    case KRN_BF16:
        return open_bf16(fn, out, note);
    default:
        return status_say(note, STATUS_UNSUPPORTED,
                          "this build has no products for profile %s on instruction set %s",
                          profile->name, fn->isa);
    }
}

static size_t tile_bytes_f32(uint32_t head_dim) {
    return (size_t)2 * head_dim * KRN_TILE * sizeof(float);
}

size_t krn_kv_tile_bytes(const struct krn_profile *profile, uint32_t head_dim) {
    if (krn_profile_gpu(profile))
        return krn_bf16_kv_bytes(head_dim);
    return profile->kv == KRN_BF16 ? krn_bf16_tile_bytes(head_dim) : tile_bytes_f32(head_dim);
}

enum status krn_attention_open(const struct krn_profile *profile, const struct krn_rowfn *fn,
                               struct krn_attention *out, struct status_note *note) {
    if (profile->kv == KRN_F32) {
        *out = (struct krn_attention){tile_bytes_f32, fn->kv_write, fn->attend};
        return STATUS_OK;
    }
    if (profile->kv != KRN_BF16)
        return status_say(note, STATUS_UNSUPPORTED,
                          "this build has no attention for the keys and values of profile %s",
                          profile->name);
    const struct krn_bf16_fn *bf16 = krn_bf16_pick(fn);
    TRY(prove_bf16(bf16, note));
    *out = (struct krn_attention){krn_bf16_tile_bytes, bf16->kv_write, bf16->attend};
    return STATUS_OK;
}
