/* SPDX-License-Identifier: Apache-2.0
 * Attention over fp32 and bf16 keys and values: every table and form against the oracle over
 * contiguous keys; positions around every border, shuffled pages, NaN in every slot that no row may
 * see, windows, head shards and cuts.
 */
#include "tests/harness.h"

#include "kernels/cpu/bf16.h"
#include "kernels/oracle_rows.h"
#include "tests/kernels/kit.h"

enum { TABLES = 8 };

/* Row functions; from n_f32 on they are those of bf16's forms. */
static const struct krn_rowfn *table[TABLES];
static struct krn_rowfn half_table[5];
static unsigned n_f32, n_tables;
static void *scratch;

/* A sequence with its keys in shuffled pages of a poisoned pool and, for the oracle, side by side.
 */
struct bed {
    uint32_t context, kv_heads, head_dim;
    struct krn_kv kv;
    uint32_t *pages, n_pages;
    float *keys, *values;
    bool half; /* keys and values are kept as bf16 */
};

static bool is_half(const struct krn_rowfn *fn) {
    return fn >= half_table && fn < half_table + 5;
}

static void bed_write(struct bed *b, const struct krn_rowfn *fn, uint32_t pos) {
    size_t width = (size_t)b->kv_heads * b->head_dim;
    for (uint32_t h = 0; h < b->kv_heads; h++)
        fn->kv_write(&b->kv, b->pages, pos, h, b->keys + pos * width + h * b->head_dim,
                     b->values + pos * width + h * b->head_dim);
}

static void bed_open(struct bed *b, struct kit_rand *r, uint32_t context, uint32_t kv_heads,
                     uint32_t head_dim, uint32_t page_tokens, enum kit_values kind, bool half) {
    size_t width = (size_t)kv_heads * head_dim;
    uint32_t n = (context + page_tokens - 1) / page_tokens + 3;
    uint64_t layer = (uint64_t)page_tokens * width * 2 * sizeof(float);
    *b = (struct bed){.context = context, .kv_heads = kv_heads, .head_dim = head_dim, .n_pages = n};
    b->kv = (struct krn_kv){.page_bytes = 2 * layer,
                            .layer_off = layer,
                            .page_tokens = page_tokens,
                            .kv_heads = kv_heads,
                            .head_dim = head_dim};
    b->kv.pool = kit_alloc(n * b->kv.page_bytes);
    float *all = (float *)(void *)b->kv.pool;
    /* what an earlier owner of the page may have left: NaN, or keys that would win every maximum */
    float poison = krn_float(kit_below(r, 2) != 0 ? 0xffffffffu : 0x447a447au);
    for (size_t i = 0; i < n * b->kv.page_bytes / sizeof(float); i++)
        all[i] = poison;
    b->pages = kit_alloc(n * sizeof *b->pages);
    for (uint32_t i = 0; i < n; i++)
        b->pages[i] = i;
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = kit_below(r, i + 1), t = b->pages[i];
        b->pages[i] = b->pages[j];
        b->pages[j] = t;
    }
    b->keys = kit_floats(context * width);
    b->values = kit_floats(context * width);
    kit_fill(r, b->keys, context * width, kind);
    kit_fill(r, b->values, context * width, kind);
    b->half = half;
}

static void bed_close(struct bed *b) {
    free(b->kv.pool);
    free(b->pages);
    free(b->keys);
    free(b->values);
}

struct ask {
    uint32_t heads, window, segment;
    float scale;
};

/* Rows at first_pos ... of a sequence of which only these positions and those before are written:
 * as one span, and cut into single rows and single units. */
static void check_span(struct bed *b, struct kit_rand *r, const struct ask *ask,
                       const struct krn_rowfn *fn, uint32_t first_pos, uint32_t rows) {
    size_t width = (size_t)ask->heads * b->head_dim, kvw = (size_t)b->kv_heads * b->head_dim;
    float *q = kit_floats(rows * width), *want = kit_floats(rows * width),
          *got = kit_floats(rows * width);
    float *keys = kit_floats(b->context * kvw), *values = kit_floats(b->context * kvw);
    memcpy(keys, b->keys, b->context * kvw * sizeof *keys);
    memcpy(values, b->values, b->context * kvw * sizeof *values);
    if (b->half) {
        krn_oracle_round_bf16(keys, (uint32_t)(b->context * kvw));
        krn_oracle_round_bf16(values, (uint32_t)(b->context * kvw));
    }
    kit_fill(r, q, rows * width, KIT_TAME);
    for (uint32_t i = 0; i < rows; i++) {
        struct krn_oracle_attend o = {.q = q + i * width,
                                      .keys = keys,
                                      .values = values,
                                      .pos = first_pos + i,
                                      .heads = ask->heads,
                                      .kv_heads = b->kv_heads,
                                      .head_dim = b->head_dim,
                                      .window = ask->window,
                                      .segment = ask->segment,
                                      .scale = ask->scale,
                                      .out = want + i * width};
        (b->half ? krn_oracle_attend_bf16 : krn_oracle_attend)(&o);
    }
    struct krn_span span = {
        .first_row = 0, .rows = rows, .first_pos = first_pos, .pages = b->pages};
    struct krn_attend a = {.q = q,
                           .ldq = width,
                           .out = got,
                           .ldo = width,
                           .spans = &span,
                           .n_spans = 1,
                           .kv = b->kv,
                           .heads = ask->heads,
                           .scale = ask->scale,
                           .window = ask->window,
                           .segment = ask->segment};
    memset(got, 0xff, rows * width * sizeof(float));
    fn->attend(&a, 0, b->kv_heads, scratch);
    kit_equal(got, want, rows * width, "%s span at %u, %u rows, %u heads, window %u, segment %u",
              fn->isa, first_pos, rows, ask->heads, ask->window, ask->segment);
    struct krn_span lone[KRN_SPAN_ROWS];
    for (uint32_t i = 0; i < rows; i++)
        lone[i] = (struct krn_span){i, 1, first_pos + i, b->pages};
    a.spans = lone;
    a.n_spans = rows;
    memset(got, 0xff, rows * width * sizeof(float));
    for (uint32_t u = rows * b->kv_heads; u-- > 0;)
        fn->attend(&a, u, u + 1, scratch);
    kit_equal(got, want, rows * width, "%s lone rows at %u", fn->isa, first_pos);
    free(q);
    free(want);
    free(got);
    free(keys);
    free(values);
}

/* Grows a sequence row by row or span by span; every slot beyond is still NaN. */
static void check_growth(struct kit_rand *r, const struct krn_rowfn *fn, const struct ask *ask,
                         uint32_t context, uint32_t kv_heads, uint32_t head_dim,
                         uint32_t page_tokens, uint32_t step_max, enum kit_values kind) {
    struct bed b;
    bed_open(&b, r, context, kv_heads, head_dim, page_tokens, kind, is_half(fn));
    for (uint32_t pos = 0; pos < context;) {
        uint32_t rows = 1 + kit_below(r, step_max);
        if (rows > context - pos)
            rows = context - pos;
        for (uint32_t i = 0; i < rows; i++)
            bed_write(&b, fn, pos + i);
        check_span(&b, r, ask, fn, pos, rows);
        pos += rows;
    }
    bed_close(&b);
}

START_TEST(every_position) {
    struct kit_rand r = {11, 0};
    for (unsigned t = 0; t < n_tables; t++) {
        check_growth(&r, table[t], &(struct ask){2, 0, 128, 0.25f}, 300, 1, 16, 64, 1, KIT_TAME);
        check_growth(&r, table[t], &(struct ask){4, 0, 128, 0.25f}, 420, 2, 32, 128, KRN_SPAN_ROWS,
                     KIT_TAME);
    }
}
END_TEST

START_TEST(every_shape) {
    struct kit_rand r = {12, 0};
    static const uint32_t heads[][2] = {{1, 1}, {3, 1}, {8, 8}, {8, 2}, {6, 2}, {9, 1}, {71, 1}};
    for (unsigned t = 0; t < n_tables; t++)
        for (unsigned i = 0; i < sizeof heads / sizeof heads[0]; i++)
            for (uint32_t d = 16; d <= 256; d += i < 2 ? 16 : 112)
                check_growth(&r, table[t], &(struct ask){heads[i][0], 0, 64, 0.125f},
                             heads[i][0] > 16 ? 40 : 90, heads[i][1], d, 64, KRN_SPAN_ROWS,
                             KIT_TAME);
}
END_TEST

START_TEST(windows) {
    struct kit_rand r = {13, 0};
    static const uint32_t window[] = {1, 2, 5, 15, 16, 63, 64, 65, 100, 128, 200, 1000};
    for (unsigned t = 0; t < n_tables; t++)
        for (unsigned i = 0; i < sizeof window / sizeof window[0]; i++)
            check_growth(&r, table[t], &(struct ask){4, window[i], 128, 0.25f}, 290, 2, 16, 64, 16,
                         KIT_TAME);
}
END_TEST

START_TEST(hostile_values) {
    struct kit_rand r = {14, 0};
    for (unsigned t = 0; t < n_tables; t++)
        for (int kind = 0; kind < KIT_VALUES; kind++)
            check_growth(&r, table[t], &(struct ask){4, kind % 2 != 0 ? 70 : 0, 128, 0.25f}, 150, 2,
                         16, 64, KRN_SPAN_ROWS, (enum kit_values)kind);
}
END_TEST

/* A value that is not finite reaches the rows that see it and no row before them. */
START_TEST(later_values_stay_unseen) {
    struct kit_rand r = {18, 0};
    enum { CONTEXT = 90, D = 48, WIDTH = 2 * D };
    for (unsigned t = 0; t < n_tables; t++)
        for (uint32_t bad = 60; bad < 80; bad += 7) {
            struct bed b;
            struct ask ask = {4, 0, 64, 0.25f};
            bed_open(&b, &r, CONTEXT, 2, D, 64, KIT_TAME, t >= n_f32);
            b.values[bad * WIDTH + 3] = bad % 2 != 0 ? NAN : INFINITY;
            b.values[bad * WIDTH + D + 17] = -INFINITY;
            for (uint32_t pos = 0; pos < CONTEXT; pos++)
                bed_write(&b, table[t], pos);
            check_span(&b, &r, &ask, table[t], 58, KRN_SPAN_ROWS);
            ask.window = 20;
            check_span(&b, &r, &ask, table[t], 58, KRN_SPAN_ROWS);
            bed_close(&b);
        }
}
END_TEST

/* The default segment, around its border. */
START_TEST(long_context) {
    struct kit_rand r = {15, 0};
    enum { CONTEXT = 2100 };
    for (unsigned t = 0; t < n_tables; t++) {
        struct bed b;
        struct ask ask = {2, 0, 1024, 0.25f};
        bed_open(&b, &r, CONTEXT, 1, 32, 64, KIT_TAME, t >= n_f32);
        for (uint32_t pos = 0; pos < CONTEXT; pos++)
            bed_write(&b, table[t], pos);
        static const uint32_t at[] = {1008, 1015, 1023, 1024, 1040, 2040, 2047, 2048, 2060};
        for (unsigned i = 0; i < sizeof at / sizeof at[0]; i++)
            check_span(&b, &r, &ask, table[t], at[i], 1 + i * 5 % KRN_SPAN_ROWS);
        bed_close(&b);
    }
}
END_TEST

/* Scores of any size: probabilities that flush to zero and maxima that move late. */
START_TEST(sharp_scores) {
    struct kit_rand r = {16, 0};
    for (unsigned t = 0; t < n_tables; t++)
        check_growth(&r, table[t], &(struct ask){4, 0, 64, 60.0f}, 200, 2, 16, 64, KRN_SPAN_ROWS,
                     KIT_TAME);
}
END_TEST

/* A rank owns a run of query heads and their KV heads; with more ranks than KV heads these are
 * copied. */
START_TEST(head_shards) {
    struct kit_rand r = {17, 0};
    enum { HEADS = 8, D = 16, ROWS = 16, FIRST = 120 };
    for (unsigned t = 0; t < n_tables; t++)
        for (uint32_t kv = 1; kv <= 8; kv *= 2) {
            struct bed b;
            bed_open(&b, &r, FIRST + ROWS, kv, D, 64, KIT_TAME, t >= n_f32);
            for (uint32_t pos = 0; pos < FIRST + ROWS; pos++)
                bed_write(&b, table[t], pos);
            float *q = kit_floats(ROWS * HEADS * D), *want = kit_floats(ROWS * HEADS * D),
                  *got = kit_floats(ROWS * HEADS * D);
            kit_fill(&r, q, ROWS * HEADS * D, KIT_TAME);
            struct krn_span span = {0, ROWS, FIRST, b.pages};
            struct krn_attend a = {.q = q,
                                   .ldq = HEADS * D,
                                   .out = want,
                                   .ldo = HEADS * D,
                                   .spans = &span,
                                   .n_spans = 1,
                                   .kv = b.kv,
                                   .heads = HEADS,
                                   .scale = 0.25f,
                                   .window = 0,
                                   .segment = 128};
            table[t]->attend(&a, 0, kv, scratch);
            for (uint32_t world = 1; world <= 8; world *= 2) {
                for (uint32_t rank = 0; rank < world; rank++) {
                    struct bed s;
                    uint32_t mine = kv >= world ? kv / world : 1, first = rank * kv / world;
                    bed_open(&s, &r, FIRST + ROWS, mine, D, 64, KIT_TAME, t >= n_f32);
                    for (uint32_t pos = 0; pos < FIRST + ROWS; pos++) {
                        memcpy(s.keys + pos * mine * D, b.keys + (pos * kv + first) * D,
                               mine * D * sizeof(float));
                        memcpy(s.values + pos * mine * D, b.values + (pos * kv + first) * D,
                               mine * D * sizeof(float));
                        bed_write(&s, table[t], pos);
                    }
                    struct krn_span mine_span = {0, ROWS, FIRST, s.pages};
                    struct krn_attend m = a;
                    m.q = q + rank * (HEADS / world) * D;
                    m.out = got + rank * (HEADS / world) * D;
                    m.spans = &mine_span;
                    m.kv = s.kv;
                    m.heads = HEADS / world;
                    table[t]->attend(&m, 0, mine, scratch);
                    bed_close(&s);
                }
                kit_equal(got, want, ROWS * HEADS * D, "%s world %u of %u KV heads", table[t]->isa,
                          world, kv);
            }
            free(q);
            free(want);
            free(got);
            bed_close(&b);
        }
}
END_TEST

int main(void) {
    static const char *const forms[] = {"scalar", "avx2", "avx512", "amx", "neon"};
    static const char *const names[] = {"bf16 scalar", "bf16 avx2", "bf16 avx512", "bf16 amx",
                                        "bf16 neon"};
    n_tables = n_f32 = kit_tables(table);
    for (unsigned i = 0; i < 5; i++) {
        const struct krn_bf16_fn *form = krn_bf16_named(forms[i]);
        if (form == NULL)
            continue;
        half_table[i] = *krn_rowfn_pick("scalar");
        half_table[i].isa = names[i];
        half_table[i].kv_write = form->kv_write;
        half_table[i].attend = form->attend;
        table[n_tables++] = &half_table[i];
    }
    scratch = kit_alloc(KRN_SCRATCH_BYTES);
    Suite *suite = suite_create("attend");
    TCase *tc = tcase_create("attend");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_position);
    tcase_add_test(tc, every_shape);
    tcase_add_test(tc, windows);
    tcase_add_test(tc, hostile_values);
    tcase_add_test(tc, later_values_stay_unseen);
    tcase_add_test(tc, long_context);
    tcase_add_test(tc, sharp_scores);
    tcase_add_test(tc, head_shards);
    suite_add_tcase(suite, tc);
    int rc = test_run(suite);
    free(scratch);
    return rc;
}
