/* SPDX-License-Identifier: Apache-2.0
 * Golden digests. Inputs are made of integers (Philox), so that they are the same on every
 * machine; they reach subnormals, cancellation and overflow. A NaN is hashed as one fixed NaN
 * (numerics.md 0.6).
 */
#include "kernels/selftest.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "actors/check.h"
#include "kernels/approx.h"
#include "kernels/philox.h"
#include "kernels/quant/quant.h"

enum { PROBE_FLOATS = 1 << 18 };

struct probe {
    const struct krn_rowfn *fn;
    uint64_t seed, n;
    float *memory;
    size_t used; /* floats */
    void *scratch;
    XXH3_state_t hash;
};

static uint32_t probe_u32(struct probe *p) {
    return (uint32_t)krn_philox_u64(p->seed, p->n++);
}

/* Sign and significand at random; exponent in [-spread, spread). */
static float probe_value(struct probe *p, uint32_t spread) {
    uint32_t u = probe_u32(p);
    uint32_t e = 127 - spread + (spread != 0 ? probe_u32(p) % (2 * spread) : 0);
    return krn_float((u & 0x807fffffu) | e << 23);
}

static float *probe_room(struct probe *p, size_t n) {
    float *at = p->memory + p->used;
    p->used += (n + 15) / 16 * 16;
    CHECK(p->used <= PROBE_FLOATS);
    return at;
}

static float *probe_floats(struct probe *p, size_t n, uint32_t spread) {
    float *x = probe_room(p, n);
    for (size_t i = 0; i < n; i++)
        x[i] = probe_value(p, spread);
    return x;
}

static void probe_hash(struct probe *p, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t u = x[i] != x[i] ? 0x7fc00000u : krn_bits(x[i]);
        XXH3_64bits_update(&p->hash, &u, sizeof u);
    }
}

static struct krn_packed probe_weight(struct probe *p, enum krn_dtype dtype, uint32_t n,
                                      uint32_t k) {
    size_t floats = (size_t)n * k;
    void *raw = probe_room(p, floats);
    for (size_t i = 0; i < floats; i++)
        if (dtype == KRN_F32)
            ((float *)raw)[i] = probe_value(p, 12);
        else if (dtype == KRN_BF16)
            ((uint16_t *)raw)[i] = (uint16_t)(krn_bits(probe_value(p, 12)) >> 16);
        else
            ((uint16_t *)raw)[i] =
                (uint16_t)(probe_u32(p) & 0xbfffu); /* subnormals, no infinities */
    struct krn_tensor w = {
        .name = "probe", .dtype = dtype, .n_dims = 2, .dims = {n, k}, .data = raw};
    struct krn_packed packed;
    void *out = probe_room(p, krn_packed_bytes(dtype, n, k) / sizeof(float) + 16);
    krn_pack(&w, 0, n, 0, k, out, &packed);
    return packed;
}

static void probe_embed(struct probe *p) {
    for (int dtype = 0; dtype < KRN_DTYPES; dtype++) {
        struct krn_packed w = probe_weight(p, (enum krn_dtype)dtype, 20, 40);
        float *y = probe_room(p, 40);
        for (uint32_t token = 0; token < 20; token += 3) {
            p->fn->embed(&w, token, y);
            probe_hash(p, y, 40);
        }
    }
}

static void probe_norm(struct probe *p) {
    for (uint32_t n = 1; n <= 256; n = n * 3 + 1) {
        float *x = probe_floats(p, n, n % 2 != 0 ? 20 : 2), *w = probe_floats(p, n, 2);
        float *y = probe_room(p, n);
        p->fn->norm(x, w, y, n, 1e-5f);
        probe_hash(p, y, n);
    }
}

static void probe_product(struct probe *p) {
    static const uint32_t rows[] = {1, 2, 3, 5, 8, 9, 15, 40};
    enum { N = 72, K = 96 };
    float *x = probe_floats(p, 40 * K, 12), *y = probe_room(p, 40 * N),
          *bias = probe_floats(p, N, 2);
    memset(x, 0, 3 * sizeof(float)); /* zeros, then subnormals, in the first row */
    for (uint32_t i = 3; i < 9; i++)
        x[i] = krn_float(probe_u32(p) & 0x807fffffu);
    for (int dtype = 0; dtype < KRN_DTYPES; dtype++) {
        struct krn_packed w = probe_weight(p, (enum krn_dtype)dtype, N - 3, K);
        for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            struct krn_product q = {.x = x,
                                    .ldx = K,
                                    .rows = rows[i],
                                    .w = &w,
                                    .y = y,
                                    .ldy = N,
                                    .segments = 1u << i % 4,
                                    .bias = i % 2 != 0 ? bias : NULL,
                                    .add = i % 3 == 2};
            for (size_t c = 0; c < (size_t)40 * N; c++)
                y[c] = (float)(c % 7);
            p->fn->product(&q, 0, w.n_blocks, p->scratch);
            probe_hash(p, y, (size_t)rows[i] * N);
        }
    }
}

/* Random codes and scales of a blocked format. */
static struct krn_packed probe_blocked(struct probe *p, enum krn_dtype type, uint32_t n,
                                       uint32_t k) {
    const struct krn_format *f = krn_format_of(type);
    size_t blocks = (size_t)n * k / f->block, bytes = blocks * f->bytes;
    unsigned char *raw = (unsigned char *)probe_room(p, bytes / sizeof(float) + 1);
    for (size_t i = 0; i < bytes; i++)
        raw[i] = (unsigned char)probe_u32(p);
    for (size_t b = 0; b < blocks; b++) /* f16 scales: the sign and the fraction stay at random */
        for (int i = 0; i < 2; i++) {
            uint32_t at = type == KRN_Q6_K ? 208 : i == 0 || f->bytes % 4 == 2 ? 0 : 2;
            unsigned char *high = raw + b * f->bytes + at + 1;
            *high = (unsigned char)((*high & 0x83) | 0x2c);
        }
    struct krn_tensor w = {
        .name = "probe", .dtype = type, .n_dims = 2, .dims = {n, k}, .data = raw};
    struct krn_packed packed;
    void *out = probe_room(p, krn_packed_bytes(type, n, k) / sizeof(float) + 16);
    krn_pack(&w, 0, n, 0, k, out, &packed);
    return packed;
}

static void probe_cells(struct probe *p) {
    static const uint32_t rows[] = {1, 5, 40};
    enum { N = 40, K = 256 };
    float *x = probe_floats(p, 40 * K, 6), *y = probe_room(p, 40 * N), *wide = probe_room(p, K);
    size_t used = p->used;
    for (int type = KRN_DTYPES; type < KRN_TYPES; type++, p->used = used) {
        struct krn_packed w = probe_blocked(p, (enum krn_dtype)type, N - 3, K);
        for (uint32_t token = 0; token < N - 3; token += 5) {
            p->fn->embed(&w, token, wide);
            probe_hash(p, wide, K);
        }
        for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            struct krn_product q = {
                .x = x, .ldx = K, .rows = rows[i], .w = &w, .y = y, .ldy = N, .segments = 2};
            memset(y, 0, sizeof(float) * 40 * N);
            p->fn->product(&q, 0, w.n_blocks, p->scratch);
            probe_hash(p, y, (size_t)rows[i] * N);
        }
    }
}

static void probe_rope(struct probe *p) {
    for (uint32_t d = 16; d <= 128; d *= 2) {
        float *x = probe_floats(p, d, 6), *cs = probe_floats(p, d, 1);
        p->fn->rope(x, cs, d);
        probe_hash(p, x, d);
    }
}

static void probe_rope_table(struct probe *p) {
    const struct krn_rope ropes[] = {{.kind = KRN_ROPE_PLAIN, .theta = 10000.0},
                                     {.kind = KRN_ROPE_LINEAR, .theta = 10000.0, .factor = 4.0},
                                     {.kind = KRN_ROPE_LLAMA3,
                                      .theta = 500000.0,
                                      .factor = 8.0,
                                      .low_freq_factor = 1.0,
                                      .high_freq_factor = 4.0,
                                      .original_context = 8192}};
    float *t = probe_room(p, 1024 * 64);
    for (unsigned i = 0; i < 3; i++) {
        krn_rope_table(&ropes[i], 64, 1024, t);
        probe_hash(p, t, 1024 * 64);
    }
}

enum { KV_POS = 200, KV_HEADS = 2, KV_DIM = 32, KV_PAGES = 5 };

/* Pages 4, 2, 0, 3 in that order, NaN where nothing was written. */
static struct krn_kv probe_pages(struct probe *p, const uint32_t *pages) {
    uint64_t floats = 64 * KV_HEADS * KV_DIM * 2;
    struct krn_kv kv = {.page_bytes = floats * sizeof(float),
                        .page_tokens = 64,
                        .kv_heads = KV_HEADS,
                        .head_dim = KV_DIM};
    float *pool = probe_room(p, KV_PAGES * floats);
    kv.pool = (unsigned char *)pool;
    for (size_t i = 0; i < KV_PAGES * floats; i++)
        pool[i] = krn_float(0x7fc00000u);
    for (uint32_t pos = 0; pos < KV_POS; pos++)
        for (uint32_t h = 0; h < KV_HEADS; h++) {
            float k[KV_DIM], v[KV_DIM];
            for (unsigned i = 0; i < KV_DIM; i++) {
                k[i] = probe_value(p, 2);
                v[i] = probe_value(p, 4);
            }
            p->fn->kv_write(&kv, pages, pos, h, k, v);
        }
    return kv;
}

static const uint32_t probe_table[] = {4, 2, 0, 3};

static void probe_kv_write(struct probe *p) {
    struct krn_kv kv = probe_pages(p, probe_table);
    probe_hash(p, (const float *)(const void *)kv.pool, KV_PAGES * kv.page_bytes / sizeof(float));
}

static void probe_attend(struct probe *p) {
    enum { HEADS = 6, ROWS = 16, WIDTH = HEADS * KV_DIM };
    struct krn_kv kv = probe_pages(p, probe_table);
    float *q = probe_floats(p, ROWS * WIDTH, 2), *out = probe_room(p, ROWS * WIDTH);
    static const uint32_t first[] = {0, 55, 120, 184};
    for (unsigned i = 0; i < 4; i++)
        for (uint32_t window = 0; window <= 80; window += 40) {
            struct krn_span span = {0, ROWS, first[i], probe_table};
            struct krn_attend a = {.q = q,
                                   .ldq = WIDTH,
                                   .out = out,
                                   .ldo = WIDTH,
                                   .spans = &span,
                                   .n_spans = 1,
                                   .kv = kv,
                                   .heads = HEADS,
                                   .scale = 0.1767767f,
                                   .window = window,
                                   .segment = 128};
            p->fn->attend(&a, 0, KV_HEADS, p->scratch);
            probe_hash(p, out, ROWS * WIDTH);
        }
}

static void probe_gate(struct probe *p) {
    for (uint32_t n = 5; n <= 320; n *= 2) {
        float *g = probe_floats(p, n, 7), *u = probe_floats(p, n, 3);
        p->fn->gate(g, u, n);
        probe_hash(p, g, n);
    }
}

static void probe_gate_gelu(struct probe *p) {
    for (uint32_t n = 5; n <= 320; n *= 2) {
        float *g = probe_floats(p, n, 7), *u = probe_floats(p, n, 3);
        p->fn->gate_gelu(g, u, n);
        probe_hash(p, g, n);
    }
}

static void probe_scale(struct probe *p) {
    for (uint32_t n = 1; n <= 243; n *= 3) {
        float *x = probe_floats(p, n, 100);
        p->fn->scale(x, 25.25f, n);
        probe_hash(p, x, n);
    }
}

static void probe_add(struct probe *p) {
    for (uint32_t n = 1; n <= 243; n *= 3) {
        float *a = probe_floats(p, n, 100), *b = probe_floats(p, n, 100);
        p->fn->add(a, b, a, n);
        probe_hash(p, a, n);
    }
}

static void probe_mix(struct probe *p) {
    for (uint32_t n = 1; n <= 243; n *= 3) {
        float *y = probe_floats(p, n, 60), *x = probe_floats(p, n, 60);
        p->fn->mix(y, x, 0.4375f, n);
        p->fn->mix(y, x, probe_value(p, 60), n);
        probe_hash(p, y, n);
    }
}

/* Ties, every count of used experts, and rows that are not finite. */
static void probe_route(struct probe *p) {
    enum { EXPERTS = 40 };
    uint32_t chosen[EXPERTS];
    float weights[EXPERTS], *z = probe_room(p, EXPERTS);
    for (uint32_t used = 1; used <= EXPERTS; used++) {
        for (uint32_t i = 0; i < EXPERTS; i++)
            z[i] = used % 3 == 0 ? (float)(probe_u32(p) % 5) : probe_value(p, 4);
        if (used % 16 == 5)
            z[used] = krn_float(0x7f800000u);
        krn_route(z, EXPERTS, used, used % 2 != 0, chosen, weights);
        XXH3_64bits_update(&p->hash, chosen, used * sizeof *chosen);
        probe_hash(p, weights, used);
    }
}

static void probe_finite(struct probe *p) {
    float *x = probe_floats(p, 70, 120);
    for (uint32_t i = 0; i <= 70; i++) {
        float keep = x[i % 70];
        if (i < 70)
            x[i] = krn_float(i % 2 != 0 ? 0xff800000u : 0x7f800001u);
        float good = p->fn->finite(x, 70) ? 1.0f : 0.0f;
        probe_hash(p, &good, 1);
        x[i % 70] = keep;
    }
}

static void probe_draw(struct probe *p) {
    enum { VOCAB = 1531 };
    float *z = probe_room(p, VOCAB), *row = probe_floats(p, VOCAB, 4);
    void *scratch = probe_room(p, krn_draw_scratch(VOCAB) / sizeof(float));
    const struct krn_count counts[] = {{3, 1, 0}, {700, 0, 2}, {1530, 2, 5}};
    const struct krn_bias bias[] = {{9, 4.5f}, {10, -100.0f}};
    uint32_t mask[(VOCAB + 31) / 32];
    for (unsigned i = 0; i < sizeof mask / sizeof mask[0]; i++)
        mask[i] = probe_u32(p);
    for (unsigned i = 0; i < 64; i++) {
        struct krn_sampling s = {.temperature = i % 4 == 0 ? 0.0f : 0.25f * (float)(i % 7 + 1),
                                 .top_k = i % 3 == 1 ? 40 : 0,
                                 .top_p = i % 5 < 2 ? 0.9f : 1.0f,
                                 .min_p = i % 7 == 3 ? 0.05f : 0.0f,
                                 .repetition = i % 2 != 0 ? 1.3f : 1.0f,
                                 .presence = 0.5f,
                                 .frequency = 0.25f,
                                 .n_top = 5,
                                 .seed = 7 * i,
                                 .flags = KRN_DRAW_LOGPROB | KRN_DRAW_HASH_LOGITS};
        struct krn_top top[5];
        struct krn_drawn drawn;
        memcpy(z, row, sizeof(float) * VOCAB);
        z[i] = i % 16 == 15 ? krn_float(0x7f800000u) : 4.0f;
        struct krn_draw d = {.logits = z,
                             .vocab = VOCAB,
                             .pos = 1000 + i,
                             .sampling = &s,
                             .counts = counts,
                             .n_counts = 3,
                             .bias = bias,
                             .n_bias = i % 2 * 2,
                             .mask = i % 8 == 6 ? mask : NULL,
                             .scratch = scratch,
                             .top = top};
        p->fn->draw(&d, &drawn);
        uint32_t id[2] = {drawn.token, drawn.finite};
        XXH3_64bits_update(&p->hash, id, sizeof id);
        XXH3_64bits_update(&p->hash, &drawn.logits_hash, sizeof drawn.logits_hash);
        probe_hash(p, &drawn.logprob, 1);
        for (uint32_t k = 0; k < drawn.n_top; k++) {
            XXH3_64bits_update(&p->hash, &top[k].id, sizeof top[k].id);
            probe_hash(p, &top[k].logprob, 1);
        }
    }
}

static const struct krn_golden golden[] = {
#define GOLDEN(name, digest) {#name, digest},
#include "kernels/golden.def"
#undef GOLDEN
};

static void (*const probes[])(struct probe *) = {
#define GOLDEN(name, digest) probe_##name,
#include "kernels/golden.def"
#undef GOLDEN
};

const struct krn_golden *krn_golden_all(unsigned *n) {
    *n = sizeof golden / sizeof golden[0];
    return golden;
}

size_t krn_golden_bytes(void) {
    return (size_t)PROBE_FLOATS * sizeof(float) + KRN_SCRATCH_BYTES;
}

uint64_t krn_golden_run(const struct krn_rowfn *fn, unsigned i, void *memory) {
    struct probe p = {.fn = fn, .seed = 100 + i, .memory = memory};
    p.scratch = p.memory + PROBE_FLOATS;
    XXH3_64bits_reset(&p.hash);
    probes[i](&p);
    return XXH3_64bits_digest(&p.hash);
}

enum status krn_selftest(const struct krn_rowfn *fn, struct status_note *note) {
    krn_fpenv_check();
    void *memory = aligned_alloc(64, krn_golden_bytes());
    if (memory == NULL)
        return status_say(note, STATUS_NO_MEMORY,
                          "the self-test of the row functions needs %zu bytes", krn_golden_bytes());
    enum status s = STATUS_OK;
    for (unsigned i = 0; i < sizeof golden / sizeof golden[0] && s == STATUS_OK; i++) {
        uint64_t got = krn_golden_run(fn, i, memory);
        if (got != golden[i].digest)
            s = status_say(note, STATUS_UNSUPPORTED,
                           "row function %s of table %s gives digest %016llx instead of %016llx on "
                           "this machine",
                           golden[i].name, fn->isa, (unsigned long long)got,
                           (unsigned long long)golden[i].digest);
    }
    free(memory);
    return s;
}
