/* SPDX-License-Identifier: Apache-2.0
 * The golden digest of `amx-bf16` (numerics.md 15.5): packing, rounding, products of many shapes,
 * embedding, keys and values, attention. Inputs are made of integers and reach subnormals, tiny
 * and huge sums.
 */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/approx.h"
#include "kernels/cpu/bf16.h"
#include "kernels/philox.h"

enum { ROWS = 40, N = 72, K = 256, LDQ = K * 2 + 64 };
enum { HEADS = 6, KV_HEADS = 2, DIM = 48, POS = 150, PAGES = 4 };

struct probe {
    uint64_t n;
    float weight[N * K], x[ROWS * K], bias[N], y[ROWS * N];
    float q_rows[KRN_SPAN_ROWS * HEADS * DIM], out[KRN_SPAN_ROWS * HEADS * DIM];
    _Alignas(64) unsigned char pool[PAGES * KV_HEADS * (64 + DIM) * KRN_TILE * 2];
    _Alignas(64) unsigned char packed[(N + KRN_BLOCK) * K * 2], q[ROWS * LDQ],
        scratch[KRN_SCRATCH_BYTES];
};

/* Sign and significand at random, exponent in [low, low + spread). */
static float value(struct probe *p, uint32_t low, uint32_t spread) {
    uint32_t u = (uint32_t)krn_philox_u64(15, p->n++);
    uint32_t e = low + (uint32_t)krn_philox_u64(15, p->n++) % spread;
    return krn_float((u & 0x807fffffu) | e << 23);
}

static void hash_floats(XXH3_state_t *h, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t u = x[i] != x[i] ? 0x7fc00000u : krn_bits(x[i]);
        XXH3_64bits_update(h, &u, sizeof u);
    }
}

/* Inputs whose exponents begin at `low`; k inputs, cut in `segments`. */
static void run(const struct krn_bf16_fn *fn, struct probe *p, XXH3_state_t *h, uint32_t low,
                uint32_t spread, uint32_t k, uint32_t segments) {
    static const uint32_t rows[] = {1, 2, 3, 7, 16, 17, 31, 40};
    for (size_t i = 0; i < (size_t)N * k; i++)
        p->weight[i] = value(p, low, spread);
    for (size_t i = 0; i < (size_t)ROWS * k; i++)
        p->x[i] = value(p, low, spread);
    for (size_t i = 0; i < N; i++)
        p->bias[i] = value(p, 120, 8);
    const struct krn_tensor w = {
        .name = "probe", .dtype = KRN_F32, .n_dims = 2, .dims = {N - 3, k}, .data = p->weight};
    struct krn_packed packed;
    krn_bf16_pack(&w, 0, N - 3, 0, k, p->packed, &packed);
    for (uint32_t r = 0; r < ROWS; r++)
        fn->round(p->x + (size_t)r * k, k, p->q + (size_t)r * LDQ);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct krn_product product = {.q = p->q,
                                      .ldq = LDQ,
                                      .rows = rows[i],
                                      .w = &packed,
                                      .segments = segments,
                                      .bias = i % 2 != 0 ? p->bias : NULL,
                                      .add = i % 3 == 2,
                                      .y = p->y,
                                      .ldy = N};
        for (size_t c = 0; c < (size_t)ROWS * N; c++)
            p->y[c] = (float)(c % 7);
        fn->product(&product, 0, packed.n_blocks, p->scratch);
        hash_floats(h, p->y, (size_t)rows[i] * N);
    }
    krn_bf16_embed(&packed, 11, p->y);
    hash_floats(h, p->y, k);
}

/* Keys and values in pages that held NaN, rows at several places, with windows. */
static void run_attention(const struct krn_bf16_fn *fn, struct probe *p, XXH3_state_t *h) {
    static const uint32_t pages[] = {2, 0, 3}, first[] = {0, 50, 118};
    struct krn_kv kv = {.pool = p->pool,
                        .page_bytes = sizeof p->pool / PAGES,
                        .page_tokens = KRN_TILE,
                        .kv_heads = KV_HEADS,
                        .head_dim = DIM};
    memset(p->pool, 0xff, sizeof p->pool);
    for (uint32_t pos = 0; pos < POS; pos++)
        for (uint32_t head = 0; head < KV_HEADS; head++) {
            float k[DIM], v[DIM];
            for (uint32_t i = 0; i < DIM; i++) {
                k[i] = value(p, 125, 4);
                v[i] = value(p, 120, 12);
            }
            fn->kv_write(&kv, pages, pos, head, k, v);
        }
    for (size_t i = 0; i < sizeof p->q_rows / sizeof p->q_rows[0]; i++)
        p->q_rows[i] = value(p, 125, 4);
    for (uint32_t i = 0; i < 9; i++) {
        struct krn_span span = {0, i % 2 != 0 ? KRN_SPAN_ROWS : 3, first[i % 3], pages};
        struct krn_attend a = {.q = p->q_rows,
                               .ldq = HEADS * DIM,
                               .out = p->out,
                               .ldo = HEADS * DIM,
                               .spans = &span,
                               .n_spans = 1,
                               .kv = kv,
                               .heads = HEADS,
                               .scale = 0.1443375f,
                               .window = i / 3 * 40,
                               .segment = 128};
        fn->attend(&a, 0, KV_HEADS, p->scratch);
        hash_floats(h, p->out, (size_t)span.rows * HEADS * DIM);
    }
}

uint64_t krn_bf16_golden_run(const struct krn_bf16_fn *fn, void *memory) {
    struct probe *p = memory;
    XXH3_state_t h;
    XXH3_64bits_reset(&h);
    p->n = 0;
    run(fn, p, &h, 115, 24, K, 8);  /* ordinary */
    run(fn, p, &h, 60, 12, 96, 1);  /* products around 2^-126 */
    run(fn, p, &h, 0, 80, 128, 4);  /* subnormal inputs */
    run(fn, p, &h, 180, 74, 77, 1); /* overflow, NaN; inputs that fill no K-step */
    run_attention(fn, p, &h);
    return XXH3_64bits_digest(&h);
}

size_t krn_bf16_golden_bytes(void) {
    return (sizeof(struct probe) + 63) / 64 * 64;
}

enum status krn_bf16_selftest(const struct krn_bf16_fn *fn, struct status_note *note) {
    void *memory = aligned_alloc(64, krn_bf16_golden_bytes());
    if (memory == NULL)
        return status_say(note, STATUS_NO_MEMORY, "the self-test of amx-bf16 needs %zu bytes",
                          krn_bf16_golden_bytes());
    uint64_t got = krn_bf16_golden_run(fn, memory);
    free(memory);
    if (got == KRN_BF16_GOLDEN)
        return STATUS_OK;
    return status_say(note, STATUS_UNSUPPORTED,
                      "products of profile amx-bf16 in form %s give digest %016llx instead of "
                      "%016llx on this machine: take another --isa or --profile",
                      fn->isa, (unsigned long long)got, (unsigned long long)KRN_BF16_GOLDEN);
}
