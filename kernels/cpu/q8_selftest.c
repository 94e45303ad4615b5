/* SPDX-License-Identifier: Apache-2.0
 * The golden digest of profile `q8` (numerics.md 14): rows rounded, products of every blocked type
 * and many row counts. Inputs are made of integers and reach zeros, subnormals, huge values and a
 * row that is not finite.
 */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/approx.h"
#include "kernels/cpu/q8_entries.h"
#include "kernels/philox.h"
#include "kernels/quant/quant.h"

enum { ROWS = 40, N = 53, K = 256, LDQ = K + K / 2, BLOCKED = N * K };

struct probe {
    uint64_t n;
    float x[ROWS * K], bias[N], y[ROWS * N];
    unsigned char raw[BLOCKED * 2];
    _Alignas(64) unsigned char packed[(N + KRN_BLOCK) * K * 2], q[ROWS * LDQ],
        scratch[KRN_SCRATCH_BYTES];
};

static uint32_t word(struct probe *p) {
    return (uint32_t)krn_philox_u64(14, p->n++);
}

static float value(struct probe *p, uint32_t low, uint32_t spread) {
    uint32_t u = word(p);
    return krn_float((u & 0x807fffffu) | (low + word(p) % spread) << 23);
}

/* Any NaN becomes one. */
static void hash_floats(XXH3_state_t *h, float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] != x[i] ? krn_float(0x7fc00000u) : x[i];
    XXH3_64bits_update(h, x, n * sizeof *x);
}

/* Rows of many sizes; what 14.1 makes of each is hashed through the products. */
static void fill_rows(struct probe *p) {
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t i = 0; i < K; i++)
            p->x[r * K + i] = r % 8 == 5 && i < 64 ? value(p, 0, 60)   /* below 2^-100, subnormal */
                              : r % 8 == 6         ? value(p, 230, 20) /* sums overflow */
                                                   : value(p, 115, 14);
    memset(p->x + 2 * K, 0, 96 * sizeof(float));
    p->x[31 * K + 77] = krn_float(0x7f800000u);
    p->x[32 * K + 200] = krn_float(0x7fc00000u);
}

/* Random codes; f16 scales of any sign and fraction, most of ordinary size. */
static void fill_blocks(struct probe *p, enum krn_dtype type) {
    const struct krn_format *f = krn_format_of(type);
    size_t blocks = BLOCKED / f->block;
    for (size_t i = 0; i < blocks * f->bytes; i++)
        p->raw[i] = (unsigned char)word(p);
    for (size_t b = 0; b < blocks; b++)
        for (uint32_t i = 0; i < 2 && b % 16 != 7; i++) {
            bool second = f->bytes % 4 == 0 || type == KRN_Q5_K; /* m or dmin behind d */
            uint32_t at = type == KRN_Q6_K ? 208 : second ? 2 * i : 0;
            unsigned char *high = p->raw + b * f->bytes + at + 1;
            *high = (unsigned char)((*high & 0x83) | 0x2c);
        }
}

uint64_t krn_q8_golden_run(const struct krn_q8 *q8, void *memory) {
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 40};
    struct probe *p = memory;
    XXH3_state_t h;
    XXH3_64bits_reset(&h);
    p->n = 0;
    fill_rows(p);
    for (uint32_t i = 0; i < N; i++)
        p->bias[i] = value(p, 120, 8);
    for (uint32_t r = 0; r < ROWS; r++)
        q8->round(p->x + (size_t)r * K, K, p->q + (size_t)r * LDQ);
    for (unsigned type = KRN_DTYPES; type < KRN_TYPES; type++) {
        fill_blocks(p, (enum krn_dtype)type);
        struct krn_tensor w = {.name = "probe",
                               .dtype = (enum krn_dtype)type,
                               .n_dims = 2,
                               .dims = {N, K},
                               .data = p->raw};
        struct krn_packed packed;
        krn_pack(&w, 0, N, 0, K, p->packed, &packed);
        for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            struct krn_product product = {.q = p->q,
                                          .ldq = LDQ,
                                          .rows = rows[i],
                                          .w = &packed,
                                          .segments = 1u << i % 4,
                                          .bias = i % 2 != 0 ? p->bias : NULL,
                                          .add = i % 3 == 2,
                                          .y = p->y,
                                          .ldy = N};
            for (size_t c = 0; c < (size_t)ROWS * N; c++)
                p->y[c] = (float)(c % 7);
            q8->product(&product, 0, packed.n_blocks, p->scratch);
            hash_floats(&h, p->y, (size_t)rows[i] * N);
        }
    }
    return XXH3_64bits_digest(&h);
}

size_t krn_q8_golden_bytes(void) {
    return (sizeof(struct probe) + 63) / 64 * 64;
}

enum status krn_q8_selftest(const struct krn_q8 *q8, struct status_note *note) {
    void *memory = aligned_alloc(64, krn_q8_golden_bytes());
    if (memory == NULL)
        return status_say(note, STATUS_NO_MEMORY, "the self-test of profile q8 needs %zu bytes",
                          krn_q8_golden_bytes());
    uint64_t got = krn_q8_golden_run(q8, memory);
    free(memory);
    if (got == KRN_Q8_GOLDEN)
        return STATUS_OK;
    return status_say(note, STATUS_UNSUPPORTED,
                      "products of profile q8 in form %s give digest %016llx instead of %016llx on "
                      "this machine: take another --isa or --profile",
                      q8->isa, (unsigned long long)got, (unsigned long long)KRN_Q8_GOLDEN);
}
