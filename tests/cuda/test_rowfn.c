/* SPDX-License-Identifier: Apache-2.0
 * Kernels of the portable profile give the bits of the CPU's tables: the golden digests, and every
 * kind of shape against the best table of this machine.
 */
#include "tests/harness.h"

#include "kernels/approx.h"
#include "kernels/cuda/bf16_tile.h"
#include "kernels/cuda/fill.h"
#include "kernels/cuda/norm.h"
#include "kernels/fill.h"
#include "kernels/selftest.h"
#include "tests/cuda/rowfn_cuda.h"
#include "tests/cuda/where.h"
#include "tests/kernels/kit.h"

static const struct krn_rowfn *cuda, *cpu;

START_TEST(kernels_give_the_golden_digests) {
    unsigned n;
    const struct krn_golden *golden = krn_golden_all(&n);
    void *memory = kit_alloc(krn_golden_bytes());
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(golden[i].name, "mix") == 0)
            continue; /* no kernel: mixtures of experts run on the CPU */
        ck_assert_msg(krn_golden_run(cuda, i, memory) == golden[i].digest, "%s differs",
                      golden[i].name);
    }
    free(memory);
}
END_TEST

/* Every number of rows, tail of outputs and inputs, type and number of segments. */
START_TEST(products) {
    static const uint32_t ks[] = {16, 33, 96, 200, 1040}, rows[] = {1, 2, 3, 7, 8, 16, 17, 45, 130};
    struct kit_rand r = {.seed = 11};
    void *scratch = kit_alloc(KRN_SCRATCH_BYTES);
    for (uint32_t i = 0; i < 120; i++) {
        enum krn_dtype dtype = (enum krn_dtype)(i % KRN_DTYPES);
        enum kit_values kind = (enum kit_values)(i / 3 % KIT_VALUES);
        uint32_t n = 1 + kit_below(&r, 300), k = ks[i % 5], m = rows[i % 9];
        uint32_t segments = k % 8 == 0 ? 1u << kit_below(&r, 4) : 1, ldx = k + kit_below(&r, 3);
        struct krn_tensor w = kit_tensor(&r, dtype, n, k, kind);
        struct krn_packed packed = kit_pack(&w);
        float *x = kit_floats((size_t)m * ldx), *bias = kit_floats(n);
        float *y = kit_floats((size_t)m * n), *z = kit_floats((size_t)m * n);
        kit_fill(&r, x, (size_t)m * ldx, kind);
        kit_fill(&r, bias, n, KIT_TAME);
        kit_fill(&r, y, (size_t)m * n, KIT_TAME);
        memcpy(z, y, (size_t)m * n * sizeof *y);
        struct krn_product p = {.x = x,
                                .ldx = ldx,
                                .rows = m,
                                .w = &packed,
                                .segments = segments,
                                .bias = kit_below(&r, 2) != 0 ? bias : NULL,
                                .add = kit_below(&r, 2) != 0,
                                .y = y,
                                .ldy = n};
        cpu->product(&p, 0, packed.n_blocks, scratch);
        p.y = z;
        cuda->product(&p, 0, packed.n_blocks, scratch);
        kit_equal(z, y, (size_t)m * n, "rows %u, n %u, k %u, segments %u, type %d", m, n, k,
                  segments, (int)dtype);
        free((void *)(uintptr_t)w.data);
        free((void *)(uintptr_t)packed.data);
        free(x);
        free(bias);
        free(y);
        free(z);
    }
    free(scratch);
}
END_TEST

/* Norms and gates of many lengths and values. */
START_TEST(rows) {
    struct kit_rand r = {.seed = 12};
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t n = i < 40 ? i + 1 : 1 + kit_below(&r, 5000);
        enum kit_values kind = (enum kit_values)(i % KIT_VALUES);
        float *x = kit_floats(n), *w = kit_floats(n), *y = kit_floats(n), *z = kit_floats(n);
        kit_fill(&r, x, n, kind);
        kit_fill(&r, w, n, KIT_TAME);
        cpu->norm(x, w, y, n, 1e-6f);
        cuda->norm(x, w, z, n, 1e-6f);
        kit_equal(z, y, n, "norm of %u", n);
        ck_assert(cpu->finite(x, n) == cuda->finite(x, n));
        for (uint32_t gelu = 0; gelu < 2; gelu++) {
            memcpy(y, x, n * sizeof *x);
            memcpy(z, x, n * sizeof *x);
            (gelu != 0 ? cpu->gate_gelu : cpu->gate)(y, w, n);
            (gelu != 0 ? cuda->gate_gelu : cuda->gate)(z, w, n);
            kit_equal(z, y, n, "gate of %u", n);
        }
        free(x);
        free(w);
        free(y);
        free(z);
    }
}
END_TEST

/* Positions over several segments, groups of up to 12 heads, windows, stale slots. */
START_TEST(attention) {
    static const uint32_t dims[] = {16, 64, 128, 256}, groups[] = {1, 2, 4, 8, 12};
    struct kit_rand r = {.seed = 13};
    void *scratch = kit_alloc(KRN_SCRATCH_BYTES);
    for (uint32_t i = 0; i < 24; i++) {
        enum { PAGES = 12, TOKENS = 64 };
        uint32_t d = dims[i % 4], heads = groups[i % 5], kv_heads = 1 + i % 2, pages[PAGES];
        uint32_t context = 1 + kit_below(&r, PAGES * TOKENS - KRN_SPAN_ROWS);
        enum kit_values kind = i % 3 == 0 ? KIT_TAME : i % 3 == 1 ? KIT_SPREAD : KIT_HOSTILE;
        size_t floats = (size_t)TOKENS * kv_heads * d * 2, width = (size_t)heads * kv_heads * d;
        float *pool = kit_floats(PAGES * floats), *row = kit_floats(2 * d);
        struct krn_kv kv = {.pool = (unsigned char *)pool,
                            .page_bytes = floats * sizeof(float),
                            .page_tokens = TOKENS,
                            .kv_heads = kv_heads,
                            .head_dim = d};
        for (size_t k = 0; k < PAGES * floats; k++)
            pool[k] = NAN;
        for (uint32_t k = 0; k < PAGES; k++)
            pages[k] = PAGES - 1 - k;
        struct krn_span span = {0, 1 + kit_below(&r, 5), context - 1, pages};
        for (uint32_t pos = 0; pos < context + span.rows; pos++)
            for (uint32_t h = 0; h < kv_heads; h++) {
                kit_fill(&r, row, 2 * d, kind);
                cpu->kv_write(&kv, pages, pos, h, row, row + d);
            }
        float *q = kit_floats(span.rows * width), *y = kit_floats(span.rows * width);
        float *z = kit_floats(span.rows * width);
        kit_fill(&r, q, span.rows * width, KIT_TAME);
        struct krn_attend a = {.q = q,
                               .ldq = width,
                               .out = y,
                               .ldo = width,
                               .spans = &span,
                               .n_spans = 1,
                               .kv = kv,
                               .heads = heads * kv_heads,
                               .scale = krn_attend_scale(d),
                               .window = kit_below(&r, 2) != 0 ? 1 + kit_below(&r, 200) : 0,
                               .segment = i % 2 != 0 ? 128 : 256};
        cpu->attend(&a, 0, kv_heads, scratch);
        a.out = z;
        memset(z, 0xff, span.rows * width * sizeof *z);
        cuda->attend(&a, 0, kv_heads, scratch);
        kit_equal(z, y, span.rows * width, "position %u, window %u, %u heads of %u", context - 1,
                  a.window, heads, d);
        free(pool);
        free(row);
        free(q);
        free(y);
        free(z);
    }
    free(scratch);
}
END_TEST

/* Few different values, so that cuts fall among equals; all filters. */
START_TEST(draws) {
    struct kit_rand r = {.seed = 14};
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t vocab = i % 7 == 0 ? 64 + i : 64 + kit_below(&r, 3000), steps = 1 + i % 40;
        float *z = kit_floats(vocab), *raw = kit_floats(vocab);
        void *scratch = kit_alloc(krn_draw_scratch(vocab));
        for (uint32_t k = 0; k < vocab; k++)
            raw[k] = (float)kit_below(&r, steps) * 0.25f - 2.0f;
        struct krn_sampling s = {.temperature = i % 9 == 0 ? 0.0f : 0.1f * (float)(1 + i % 15),
                                 .top_k = i % 3 == 0 ? kit_below(&r, vocab) : 0,
                                 .top_p = i % 2 == 0 ? 0.05f * (float)kit_below(&r, 21) : 1.0f,
                                 .min_p = i % 5 == 0 ? 0.1f * (float)kit_below(&r, 11) : 0.0f,
                                 .repetition = 1.0f,
                                 .n_top = kit_below(&r, KRN_TOP_MAX + 1),
                                 .seed = kit_u32(&r),
                                 .flags = KRN_DRAW_LOGPROB | KRN_DRAW_HASH_LOGITS};
        struct krn_top top[2][KRN_TOP_MAX];
        struct krn_drawn drawn[2];
        for (int which = 0; which < 2; which++) {
            memcpy(z, raw, vocab * sizeof *z);
            struct krn_draw d = {.logits = z,
                                 .vocab = vocab,
                                 .pos = 1 + i,
                                 .sampling = &s,
                                 .scratch = scratch,
                                 .top = top[which]};
            (which == 0 ? cpu : cuda)->draw(&d, &drawn[which]);
        }
        ck_assert_msg(drawn[0].token == drawn[1].token, "draw %u of %u ids: %u, not %u", i, vocab,
                      drawn[1].token, drawn[0].token);
        ck_assert_mem_eq(&drawn[0], &drawn[1], sizeof drawn[0]);
        ck_assert_mem_eq(top[0], top[1], drawn[0].n_top * sizeof top[0][0]);
        free(z);
        free(raw);
        free(scratch);
    }
}
END_TEST

/* Parts of a matrix, row-major and in blocks, both types: what the host makes of the same fill. */
START_TEST(fills) {
    struct kit_rand r = {.seed = 21};
    for (uint32_t i = 0; i < 24; i++) {
        uint32_t n = 1 + kit_below(&r, 40), k = 1 + kit_below(&r, 90), ld = k + kit_below(&r, 9);
        bool blocked = i % 2 == 1, wide = i % 4 < 2;
        struct krn_cuda_fill a = {.stream = (uint64_t)kit_u32(&r) << 32 | kit_u32(&r),
                                  .first = kit_below(&r, 1000),
                                  .offset = i % 3 == 0 ? 1.0f : 0.0f,
                                  .reach = 0.01f * (float)(1 + kit_below(&r, 200)),
                                  .rows = n,
                                  .k = k,
                                  .ld = ld,
                                  .dtype = wide ? KRN_F32 : KRN_BF16,
                                  .blocked = blocked};
        uint32_t all = blocked ? (n + 15) / 16 * 16 : n;
        uint64_t bytes = (uint64_t)all * k * (wide ? 4 : 2);
        unsigned char *out = kit_alloc(bytes);
        rowfn_cuda_fill(&a, out, bytes);
        for (uint32_t row = 0; row < all; row++)
            for (uint32_t c = 0; c < k; c++) {
                uint64_t from = a.first + (uint64_t)row * ld + c;
                size_t at =
                    blocked ? ((size_t)(row / 16) * k + c) * 16 + row % 16 : (size_t)row * k + c;
                float want = row < n ? krn_fill_value(a.stream, a.offset, a.reach, from) : 0.0f;
                float has = wide ? ((float *)(void *)out)[at]
                                 : krn_widen_bf16(((uint16_t *)(void *)out)[at]);
                want = wide ? want : krn_widen_bf16(krn_round_bf16(want));
                ck_assert_msg(krn_bits(has) == krn_bits(want), "fill %u, row %u, column %u", i, row,
                              c);
            }
        free(out);
    }
}
END_TEST

/* Norms of many rows, a block taking several: fp32 and packed, short rows and longer than a
 * chunk. */
START_TEST(norms_of_rows) {
    static const uint32_t lengths[] = {64, 80, 1000, 4096, 4608, 9000};
    struct kit_rand r = {.seed = 33};
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t n = lengths[i % 6], count = 1 + kit_below(&r, 9),
                 blocks = 1 + kit_below(&r, count);
        bool wide = i % 2 == 0;
        struct krn_cuda_norm a = {.n = n, .ldx = n + 16, .ldy = n, .eps = 1e-5f};
        uint64_t bytes = krn_bf16_bytes(count, n, 1);
        float *x = kit_floats((size_t)count * a.ldx), *w = kit_floats(n), *want = kit_floats(n);
        float *y = kit_floats((size_t)count * n);
        unsigned char *packed = kit_alloc(bytes);
        for (uint32_t k = 0; k < count * a.ldx; k++)
            x[k] = (float)kit_below(&r, 2000) * 0.01f - 10.0f;
        for (uint32_t k = 0; k < n; k++)
            w[k] = (float)kit_below(&r, 100) * 0.02f;
        memset(packed, 0, bytes);
        rowfn_cuda_norm(&a, x, w, count, blocks, wide ? y : NULL, packed, bytes);
        for (uint32_t row = 0; row < count; row++) {
            cpu->norm(x + (size_t)row * a.ldx, w, want, n, a.eps);
            for (uint32_t k = 0; k < n; k++) {
                uint16_t h;
                memcpy(&h, packed + krn_bf16_place(row, k, n, krn_bf16_blocks(n, 1)), sizeof h);
                ck_assert_msg(h == krn_round_bf16(want[k]), "norm %u, row %u, column %u", i, row,
                              k);
                if (wide)
                    ck_assert(krn_bits(y[(size_t)row * n + k]) == krn_bits(want[k]));
            }
        }
        free(x);
        free(w);
        free(want);
        free(y);
        free(packed);
    }
}
END_TEST

int main(void) {
    struct status_note note;
    if (where_sanitized())
        return 0;
    enum status status = rowfn_cuda_open(!where_gpu(), &cuda, &note);
    if (status != STATUS_OK) {
        printf("skip: %s\nchecks: 0 passed, 0 failed, 1 skipped\n", note.text);
        return 0;
    }
    printf("device: %s\n", rowfn_cuda_device());
    cpu = krn_rowfn_pick(NULL);
    Suite *suite = suite_create("cuda/rowfn");
    TCase *tc = tcase_create("rowfn");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, kernels_give_the_golden_digests);
    tcase_add_test(tc, products);
    tcase_add_test(tc, rows);
    tcase_add_test(tc, attention);
    tcase_add_test(tc, draws);
    tcase_add_test(tc, fills);
    tcase_add_test(tc, norms_of_rows);
    suite_add_tcase(suite, tc);
    int result = test_run(suite);
    rowfn_cuda_close();
    return result;
}
