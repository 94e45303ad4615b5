/* SPDX-License-Identifier: Apache-2.0
 * The start-up self-test of cuda-bf16-sm90: every kernel of bf16 weights and attention, at several
 * row counts, on seeded inputs, against the profile's model in integers (kernels/step16.h and the
 * oracle made of it); not yet those that read packed blocks (numerics.md 16.2a). The model is what
 * every other GPU of the capability computes, so one that differs, or a driver that compiles
 * otherwise, is refused. Lies in the memory that packing stages rows in, which is free before.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "gpu/selftest_cuda.h"
#include "kernels/approx.h"
#include "kernels/oracle_rows.h"
#include "kernels/step16.h"

enum {
    ROWS = 200,
    N = 56,
    K = 96,
    SEGMENTS = 2,
    KEYS = 140,
    HEADS = 4,
    KV_HEADS = 2,
    SEGMENT = 64, /* of attention */
    PAGES = (KEYS + KRN_TILE - 1) / KRN_TILE,
    ITEMS = 256,
    EVERY = 9 /* rows of the prompt between two that are compared */
};

struct selftest {
    struct cuda *c;
    struct status_note *note;
    enum status status;
    uint64_t seed;
    gpu_cu_ptr_t at; /* the next free byte on the device */
    float x[ROWS * K], y[ROWS * N], truth[ROWS * N];
    uint16_t x_bits[ROWS * K], w[N * K];
    float q[KEYS * HEADS * KRN_HEAD_MAX], out[KEYS * HEADS * KRN_HEAD_MAX];
    float keys[KEYS * KV_HEADS * KRN_HEAD_MAX], values[KEYS * KV_HEADS * KRN_HEAD_MAX];
    float row[HEADS * KRN_HEAD_MAX];
    struct krn_cuda_attend_table table;
    struct krn_cuda_attend_span spans[KEYS];
};

static uint32_t any_bits(struct selftest *t) {
    uint64_t z = t->seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 16);
}

/* Sign and significand at random, size within 2^-spread and 2^spread. */
static float any_value(struct selftest *t, uint32_t spread) {
    uint32_t u = any_bits(t), e = 127 - spread + any_bits(t) % (2 * spread + 1);
    return krn_float((u & 0x807fffffu) | e << 23);
}

static gpu_cu_ptr_t take(struct selftest *t, uint64_t bytes) {
    gpu_cu_ptr_t at = (t->at + 1023) / 1024 * 1024;
    t->at = at + bytes;
    CHECK(t->at <= t->c->row_major + CUDA_STAGING);
    return at;
}

static void said(struct selftest *t, gpu_cu_t r) {
    if (t->status == STATUS_OK)
        t->status = gpu_cuda_said(t->c, r, "testing the tensor cores", t->note);
}

static void put(struct selftest *t, gpu_cu_ptr_t to, const void *from, uint64_t bytes) {
    struct gpu_cu_stream *in = t->c->streams[GPU_STREAM_IN];
    CHECK(bytes <= CUDA_STAGING);
    memcpy(t->c->staging, from, bytes);
    said(t, t->c->driver->copy_in(to, t->c->staging, bytes, in));
    said(t, t->c->driver->stream_synchronize(in));
}

static void get(struct selftest *t, void *to, gpu_cu_ptr_t from, uint64_t bytes) {
    struct gpu_cu_stream *in = t->c->streams[GPU_STREAM_IN];
    CHECK(bytes <= CUDA_STAGING);
    said(t, t->c->driver->copy_out(t->c->staging, from, bytes, in));
    said(t, t->c->driver->stream_synchronize(in));
    memcpy(to, t->c->staging, bytes);
}

static void launch(struct selftest *t, const struct krn_cuda_call *call) {
    if (t->status == STATUS_OK)
        t->status = gpu_launch(t->c->launcher, t->c->streams[GPU_STREAM_IN], call, t->note);
}

static void compare(struct selftest *t, const float *got, const float *truth, uint32_t n,
                    const char *what, uint32_t rows) {
    for (uint32_t i = 0; i < n && t->status == STATUS_OK; i++)
        if (krn_bits(got[i]) != krn_bits(truth[i]))
            t->status = status_say(
                t->note, STATUS_UNSUPPORTED,
                "profile %s: %s of %u rows on %s gives %a where the profile has %a: the tensor "
                "cores here are not its own; take --profile portable",
                t->c->config.profile.name, what, rows, t->c->name, (double)got[i],
                (double)truth[i]);
}

static gpu_cu_ptr_t pack(struct selftest *t, const void *from, uint32_t type, uint32_t rows,
                         uint32_t segments) {
    uint64_t bytes = (uint64_t)rows * K * (type == KRN_ROWS_BF16 ? 2 : 4);
    struct krn_cuda_rows_bf16 a = {.x = take(t, bytes),
                                   .out = take(t, krn_bf16_bytes(rows, K, segments)),
                                   .type = type,
                                   .rows = rows,
                                   .ldx = K,
                                   .k = K,
                                   .segments = segments,
                                   .out_rows = krn_bf16_row_tiles(rows) * KRN_BF16_SIDE};
    struct krn_cuda_call call;
    put(t, a.x, from, bytes);
    krn_cuda_rows_bf16_call(&a, &call);
    launch(t, &call);
    return a.out;
}

static void fill_products(struct selftest *t) {
    for (uint32_t i = 0; i < ROWS * K; i++)
        t->x[i] = any_value(t, i / K % 3 == 0 ? 12 : 3);
    for (uint32_t i = 0; i < N * K; i++)
        t->w[i] = krn_step16_bf16(any_value(t, i / K % 4 == 0 ? 12 : 3));
    for (uint32_t i = 0; i < K; i++) { /* sums that cancel, subnormals */
        t->x[K + i] = i % 2 != 0 ? -t->x[K + i - 1] : t->x[K + i];
        t->x[2 * K + i] *= 0x1p-120f;
    }
    for (uint32_t i = 0; i < ROWS * K; i++)
        t->x_bits[i] = krn_step16_bf16(t->x[i]);
}

static void test_products(struct selftest *t, uint32_t segments) {
    static const uint32_t counts[] = {1, 9, 33, 64, 130, ROWS};
    uint32_t len = K / segments;
    gpu_cu_ptr_t begin = t->at;
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t n = 0; n < N; n++) {
            float sum = krn_step16_chain(0.0f, t->x_bits + r * K, t->w + n * K, len);
            if (segments == 2)
                sum =
                    sum + krn_step16_chain(0.0f, t->x_bits + r * K + len, t->w + n * K + len, len);
            t->truth[r * N + n] = sum;
        }
    struct krn_cuda_product_bf16 a = {.x = pack(t, t->x, KRN_ROWS_F32, ROWS, segments),
                                      .w = pack(t, t->w, KRN_ROWS_BF16, N, segments),
                                      .y = take(t, sizeof t->y),
                                      .work = t->c->product_work,
                                      .n = N,
                                      .ldy = N,
                                      .k_blocks = krn_bf16_blocks(K, segments),
                                      .segments = segments};
    for (uint32_t path = KRN_BF16_AUTO; path < KRN_BF16_PATHS; path++)
        for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            struct krn_cuda_call call;
            a.rows = counts[i];
            if (!krn_cuda_product_bf16_call(&a, &t->c->machine, (enum krn_cuda_product_path)path,
                                            &call))
                continue;
            launch(t, &call);
            get(t, t->y, a.y, (uint64_t)a.rows * N * sizeof(float));
            compare(t, t->y, t->truth, a.rows * N, call.kernel, a.rows);
        }
    t->at = begin;
}

/* Keys and values into pages in descending order; returns the pool. */
static gpu_cu_ptr_t put_pages(struct selftest *t, uint32_t d, uint64_t page_bytes) {
    unsigned char *pool = calloc(PAGES, page_bytes);
    gpu_cu_ptr_t at = take(t, PAGES * page_bytes);
    if (pool == NULL) {
        t->status = status_say(t->note, STATUS_NO_MEMORY, "no memory for the GPU's self-test");
        return at;
    }
    for (uint32_t i = 0; i < KEYS * KV_HEADS * d; i++) {
        uint32_t j = i / (KV_HEADS * d), head = i / d % KV_HEADS;
        unsigned char *tile =
            pool + (PAGES - 1 - j / KRN_TILE) * page_bytes + (uint64_t)head * krn_bf16_kv_bytes(d);
        uint16_t k = krn_step16_bf16(any_value(t, 2)), v = krn_step16_bf16(any_value(t, 6));
        memcpy(tile + krn_bf16_kv_at(d, 0, j % KRN_TILE, i % d), &k, sizeof k);
        memcpy(tile + krn_bf16_kv_at(d, 1, j % KRN_TILE, i % d), &v, sizeof v);
        t->keys[i] = krn_widen_bf16(k);
        t->values[i] = krn_widen_bf16(v);
    }
    put(t, at, pool, PAGES * page_bytes);
    free(pool);
    return at;
}

/* One seq of rows that end at KEYS, as one prompt, a few rows, one row. */
static void test_attention(struct selftest *t) {
    static const uint32_t counts[] = {KEYS, 13, 1};
    uint32_t d = t->c->model.head_dim, width = HEADS * d, ids[PAGES];
    uint64_t page_bytes = (uint64_t)KV_HEADS * krn_bf16_kv_bytes(d);
    for (uint32_t i = 0; i < PAGES; i++)
        ids[i] = PAGES - 1 - i;
    for (uint32_t i = 0; i < KEYS * width; i++)
        t->q[i] = any_value(t, 2);
    struct krn_cuda_attend_bf16 a = {.table = take(t, sizeof t->table + sizeof t->spans),
                                     .pages = take(t, sizeof ids),
                                     .q = take(t, (uint64_t)KEYS * width * sizeof(float)),
                                     .out = take(t, (uint64_t)KEYS * width * sizeof(float)),
                                     .pool = put_pages(t, d, page_bytes),
                                     .work = take(t, krn_cuda_attend_work(d, ITEMS)),
                                     .page_bytes = page_bytes,
                                     .page_tokens = KRN_TILE,
                                     .heads = HEADS,
                                     .kv_heads = KV_HEADS,
                                     .head_dim = d,
                                     .ldq = width,
                                     .ldo = width,
                                     .segment = SEGMENT,
                                     .items_max = ITEMS,
                                     .scale = 1.0f / sqrtf((float)d)};
    put(t, a.pages, ids, sizeof ids);
    put(t, a.q, t->q, (uint64_t)KEYS * width * sizeof(float));
    said(t, t->c->driver->fill8(a.work, 0, krn_cuda_attend_work(d, ITEMS),
                                t->c->streams[GPU_STREAM_IN]));
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint32_t first = KEYS - counts[i];
        struct krn_cuda_attend_seq seq = {first, counts[i], first, 0};
        struct krn_cuda_call calls[2];
        krn_cuda_attend_cut(&a, &t->c->machine, &seq, 1, &t->table);
        put(t, a.table, &t->table, sizeof t->table + sizeof t->spans);
        int n = krn_cuda_attend_bf16_calls(&a, &t->c->machine, calls);
        for (int k = 0; k < n; k++)
            launch(t, &calls[k]);
        get(t, t->out, a.out, (uint64_t)KEYS * width * sizeof(float));
        for (uint32_t r = KEYS - 1; r < KEYS && r >= first; r -= EVERY) {
            struct krn_oracle_attend o = {.q = t->q + r * width,
                                          .keys = t->keys,
                                          .values = t->values,
                                          .pos = r,
                                          .heads = HEADS,
                                          .kv_heads = KV_HEADS,
                                          .head_dim = d,
                                          .segment = SEGMENT,
                                          .scale = a.scale,
                                          .out = t->row};
            krn_oracle_attend_cuda(&o);
            compare(t, t->out + r * width, t->row, width, "attention", counts[i]);
        }
    }
}

enum status gpu_cuda_selftest(struct cuda *c, struct status_note *note) {
    struct selftest *t = calloc(1, sizeof *t);
    if (t == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the GPU's self-test");
    t->c = c;
    t->note = note;
    t->at = c->row_major;
    t->seed = 16;
    fill_products(t);
    test_products(t, 1);
    test_products(t, SEGMENTS);
    test_attention(t);
    enum status status = t->status;
    free(t);
    return status;
}
