/* SPDX-License-Identifier: Apache-2.0
 * Launch shapes of cuda-bf16 without a GPU: whatever the shape of a product, the launch fits the
 * device and its kernel's limits; whatever the sequences, attention's spans cover each row once and
 * its items each segment once.
 */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attend_bf16.h"
#include "kernels/cuda/product_bf16.h"
#include "tests/harness.h"

static const struct krn_cuda_machine h200 = {132, 9, 0, 232448};
static const struct krn_cuda_machine small = {20, 8, 0, 101376};

static uint32_t threads_max(const char *kernel) {
    if (strstr(kernel, "few_8") || strstr(kernel, "few_16"))
        return 512;
    if (strstr(kernel, "few_") || strstr(kernel, "many_"))
        return 384;
    return strstr(kernel, "stream_") ? 640 : 128;
}

static void check_call(const struct krn_cuda_product_bf16 *a, const struct krn_cuda_machine *m,
                       const struct krn_cuda_call *call) {
    uint32_t cluster = call->cluster[0] != 0 ? call->cluster[0] : 1;
    ck_assert_uint_le(call->block[0], threads_max(call->kernel));
    ck_assert_uint_le(call->shared, m->shared_max);
    ck_assert_uint_gt(call->grid[0] * call->grid[1], 0);
    ck_assert_uint_eq(call->grid[0] % cluster, 0);
    if (strstr(call->kernel, "few_") != NULL) {
        uint32_t loaders = call->block[0] / 32 - a->warps * a->parts;
        ck_assert_uint_ge(a->stages, loaders);
        ck_assert_uint_ge(loaders, 4);
        ck_assert_uint_eq(a->units % a->warps, 0);
        ck_assert_uint_ge(call->grid[0] * a->units * 16, a->n);
        ck_assert_uint_eq(a->segments % a->parts, 0);
    }
    if (strstr(call->kernel, "stream_") != NULL) {
        ck_assert_uint_ge(call->grid[0] * a->units * 16, a->n);
        ck_assert_uint_eq(a->units % a->warps, 0);
        ck_assert_uint_ge(a->stages, call->block[0] / 32 - (a->rows + 63) / 64 * 4);
    }
    if (strstr(call->kernel, "many_") != NULL)
        ck_assert_uint_ge(a->stages, 4);
}

START_TEST(test_products) {
    static const uint32_t rows[] = {1,  7,   8,   9,   16,  17,  32,  33,  63,   64,
                                    65, 100, 128, 129, 200, 256, 257, 512, 2048, 8192};
    static const uint32_t ks[] = {64, 256, 704, 4096, 14336};
    uint32_t ran = 0, refused = 0;
    for (uint32_t n = 8; n < 140000; n += n < 300 ? 8 : n / 7)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (size_t i = 0; i < sizeof ks / sizeof *ks; i++)
                for (uint32_t v = 1; v <= 8; v *= 2)
                    for (enum krn_cuda_product_path p = KRN_BF16_AUTO; p < KRN_BF16_PATHS; p++) {
                        struct krn_cuda_call call;
                        struct krn_cuda_product_bf16 a = {.rows = rows[r],
                                                          .n = n,
                                                          .ldy = n,
                                                          .segments = v,
                                                          .k_blocks = krn_bf16_blocks(ks[i], v)};
                        struct krn_cuda_product_bf16 b = a;
                        if (krn_cuda_product_bf16_call(&a, &h200, p, &call)) {
                            check_call(&a, &h200, &call);
                            ran++;
                        } else {
                            ck_assert(p != KRN_BF16_AUTO && p != KRN_BF16_GENERIC);
                            refused++;
                        }
                        if (krn_cuda_product_bf16_call(&b, &small, p, &call)) {
                            ck_assert_str_eq(call.kernel, "krn_product_bf16");
                            check_call(&b, &small, &call);
                        } else
                            ck_assert(p != KRN_BF16_AUTO && p != KRN_BF16_GENERIC);
                    }
    ck_assert_uint_gt(ran, 10000);
    ck_assert_uint_gt(refused, 1000);
}
END_TEST

enum { ROWS_MAX = 4096, SEQS_MAX = 64 };

static void check_table(const struct krn_cuda_attend_bf16 *a,
                        const struct krn_cuda_attend_seq *seqs, uint32_t n,
                        const struct krn_cuda_attend_table *t) {
    static unsigned char seen[ROWS_MAX];
    const struct krn_cuda_attend_span *s = (const struct krn_cuda_attend_span *)(t + 1);
    uint32_t group = a->heads / a->kv_heads, items = 0, rows = 0;
    uint32_t narrow = group < KRN_ATTEND_LINES ? group : KRN_ATTEND_LINES;
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < t->n_wide + t->n_narrow; i++) {
        uint32_t most = i < t->n_wide ? KRN_ATTEND_LINES_WIDE : KRN_ATTEND_LINES;
        uint32_t heads = group < most ? group : most, in = SEQS_MAX;
        ck_assert_uint_ge(s[i].rows, 1);
        ck_assert_uint_le(s[i].rows * heads, most);
        for (uint32_t k = 0; k < n; k++)
            if (s[i].first_row >= seqs[k].first_row &&
                s[i].first_row + s[i].rows <= seqs[k].first_row + seqs[k].rows)
                in = k;
        ck_assert_uint_lt(in, SEQS_MAX);
        ck_assert_uint_eq(s[i].first_pos - seqs[in].first_pos, s[i].first_row - seqs[in].first_row);
        ck_assert_uint_eq(s[i].first_page, seqs[in].first_page);
        for (uint32_t r = 0; r < s[i].rows; r++)
            ck_assert_uint_eq(seen[s[i].first_row + r]++, 0);
        rows += s[i].rows;
        if (i < t->n_wide)
            continue;
        uint32_t hi = s[i].first_pos + s[i].rows,
                 each = a->kv_heads * ((group + narrow - 1) / narrow);
        uint32_t lo =
            a->window != 0 && s[i].first_pos + 1 > a->window ? s[i].first_pos + 1 - a->window : 0;
        uint32_t segments = (hi - 1) / a->segment - lo / a->segment + 1;
        ck_assert_uint_eq(s[i].first_item, items);
        items += s[i].split ? segments * each : each;
        if (s[i].split)
            ck_assert_uint_le(items, a->items_max);
    }
    ck_assert_uint_eq(items, t->n_items);
    for (uint32_t k = 0; k < n; k++)
        rows -= seqs[k].rows;
    ck_assert_uint_eq(rows, 0);
}

START_TEST(test_spans) {
    struct krn_cuda_attend_table *t =
        malloc(sizeof *t + ROWS_MAX * sizeof(struct krn_cuda_attend_span));
    uint64_t state = 3;
    bool wide = false, split = false, unsplit = false;
    for (uint32_t i = 0; i < 4000; i++) {
        struct krn_cuda_attend_seq seqs[SEQS_MAX];
        uint32_t n = 1 + i % SEQS_MAX, row = 0;
        static const uint32_t groups[] = {1, 2, 3, 4, 7, 8, 16, 20, 140}, kv[] = {1, 2, 8};
        struct krn_cuda_attend_bf16 a = {.kv_heads = kv[i % 3],
                                         .head_dim = i % 7 == 0 ? 256 : 16 + i % 8 * 16,
                                         .segment = i % 2 ? 512 : 64,
                                         .window = i % 5 == 0 ? 100 : 0,
                                         .items_max = i % 4 == 0 ? 64 : 8192};
        a.heads = a.kv_heads * groups[i % 9];
        for (uint32_t k = 0; k < n; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            uint32_t rows = state >> 60 < 12 ? 1 : 1 + (uint32_t)(state >> 40 & 63);
            seqs[k] = (struct krn_cuda_attend_seq){.first_row = row,
                                                   .rows = rows,
                                                   .first_pos = (uint32_t)(state >> 33 & 4095),
                                                   .first_page = k};
            row += rows;
        }
        ck_assert_uint_le(row, krn_cuda_attend_spans_max(&a, n, row));
        krn_cuda_attend_cut(&a, &h200, seqs, n, t);
        check_table(&a, seqs, n, t);
        wide |= t->n_wide > 0;
        for (uint32_t k = 0; k < t->n_narrow; k++) {
            const struct krn_cuda_attend_span *s =
                (const struct krn_cuda_attend_span *)(t + 1) + t->n_wide + k;
            split |= s->split != 0;
            unsplit |= s->split == 0;
        }
        struct krn_cuda_call calls[2];
        int c = krn_cuda_attend_bf16_calls(&a, &h200, calls);
        ck_assert(c == 2 || t->n_wide == 0);
        for (int k = 0; k < c; k++)
            ck_assert_uint_le(calls[k].shared, h200.shared_max);
        if (c == 2) /* wgmma reads whole panels */
            ck_assert_int_eq(strstr(calls[1].kernel, "wide90") != NULL, a.head_dim % 64 == 0);
    }
    ck_assert(wide && split && unsplit);
    free(t);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("shapes");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, test_products);
    tcase_add_test(tc, test_spans);
    Suite *s = suite_create("launch shapes of cuda-bf16");
    suite_add_tcase(s, tc);
    return test_run(s);
}
