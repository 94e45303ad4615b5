/* SPDX-License-Identifier: Apache-2.0
 * Units of blocked weights (kernels/cuda/block_unit.h) on the host: every bit of a file's blocks
 * returns as the value that numerics.md 12 says, rounded to bf16, at the place where the tensor
 * core wants it: every format, segments, columns inside of a row, woven gates, rows and columns
 * that are not there. And the shapes of launches over them.
 */
#include "tests/harness.h"

#include <ctype.h>

#include "kernels/cuda/block_value.h"
#include "kernels/cuda/product_blocks.h"
#include "kernels/step16.h"
#include "tests/kernels/kit_blocks.h"

struct packed {
    struct krn_cuda_pack_blocks a;
    unsigned char *bytes;
};

static struct packed pack(const struct krn_tensor *t, const struct krn_tensor *up, uint32_t col0,
                          uint32_t k, uint32_t segments) {
    const struct krn_format *f = krn_format_of(t->dtype);
    uint32_t n = (uint32_t)t->dims[0], all = up == NULL ? n : 2 * n;
    uint64_t size = krn_unit_matrix_bytes(t->dtype, all, k, segments);
    struct packed p = {.bytes = aligned_alloc(16, (size + 15) / 16 * 16)};
    ck_assert(p.bytes != NULL && krn_cuda_blocks_fit(t->dtype, col0, k, segments));
    memset(p.bytes, 0xee, size);
    p.a = (struct krn_cuda_pack_blocks){
        .x = {(krn_cuda_ptr_t)t->data, up == NULL ? 0 : (krn_cuda_ptr_t)up->data},
        .out = (krn_cuda_ptr_t)p.bytes,
        .row_bytes = t->dims[1] / f->block * f->bytes,
        .type = t->dtype,
        .spread = up != NULL,
        .rows = n,
        .units = krn_unit_rows(all),
        .blocks = krn_bf16_blocks(k, segments),
        .k = k,
        .segments = segments,
        .col0 = col0};
    for (uint32_t u = 0; u < p.a.units; u++)
        for (uint32_t i = 0; i < p.a.blocks * KRN_UNIT_LANES; i++)
            krn_unit_pack(&p.a, t->dtype, u, i / KRN_UNIT_LANES, i % KRN_UNIT_LANES);
    return p;
}

/* Packed row r, column `in` of block kb, as bits. */
static uint16_t value(const struct packed *p, uint32_t r, uint32_t kb, uint32_t in) {
    const struct krn_unit_form f = krn_unit_form(p->a.type);
    const unsigned char *unit =
        p->bytes + (size_t)(r / 16 * p->a.blocks + kb) * krn_unit_bytes(p->a.type);
    uint32_t lane = r % 8 * 4 + in % 8 / 2, step = in / 16, reg = r % 16 / 8 + in % 16 / 8 * 2;
    struct krn_unit_lane l = {.plane = {0}};
    uint32_t v[4];
    krn_unit_load(p->a.type, unit, lane, &l);
    float factor[2], added[2];
    for (uint32_t row = 0; row < 2; row++)
        krn_unit_scale(f, &l, row, step, &factor[row], &added[row]);
    krn_unit_step(p->a.type, &l, step, factor, added, v);
    return (uint16_t)(v[reg] >> 16 * (in % 2));
}

static bool same(uint16_t a, uint16_t b) {
    bool nan = (a & 0x7fff) > 0x7f80, zero = (a & 0x7fff) == 0;
    return a == b || (nan && (b & 0x7fff) > 0x7f80) || (zero && (b & 0x7fff) == 0);
}

static void check(const struct packed *p, const struct krn_tensor *t, const struct krn_tensor *up) {
    uint32_t n = (uint32_t)t->dims[0], ld = (uint32_t)t->dims[1],
             segment_k = p->a.k / p->a.segments;
    float *row = kit_alloc(ld * sizeof *row);
    for (uint32_t r = 0; r < p->a.units * KRN_UNIT_ROWS; r++) {
        uint32_t from = up == NULL ? r : r / 16 * 8 + r % 8;
        const struct krn_tensor *of = up != NULL && r % 16 >= 8 ? up : t;
        if (from < n)
            krn_unpack(t->dtype, of->data, (uint64_t)from * ld, ld, row);
        for (uint32_t at = 0; at < p->a.blocks * KRN_BF16_SIDE; at++) {
            uint32_t a_segment = p->a.blocks / p->a.segments * KRN_BF16_SIDE;
            uint32_t in = at % a_segment, column = p->a.col0 + at / a_segment * segment_k + in;
            uint16_t want = 0;
            if (from < n && in < segment_k)
                want = krn_step16_bf16(row[column]);
            uint16_t got = value(p, r, at / KRN_BF16_SIDE, at % KRN_BF16_SIDE);
            ck_assert_msg(same(got, want), "type %u, row %u, column %u: %04x for %04x", p->a.type,
                          r, at, got, want);
        }
    }
    free(row);
}

START_TEST(every_value_returns) {
    static const struct {
        uint32_t n, ld, col0, k, segments, kind;
    } shapes[] = {{16, 256, 0, 256, 1, 0},
                  {37, 512, 0, 512, 4, 3},
                  {48, 1024, 256, 512, 8, 2},
                  {5, 768, 512, 256, 2, 1},
                  {24, 512, 64, 384, 2, 3}};
    const enum krn_dtype type = (enum krn_dtype)_i;
    struct kit_rand r = {.seed = 400 + (uint64_t)_i};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct krn_tensor t = kit_blocked(&r, type, shapes[i].n, shapes[i].ld, shapes[i].kind);
        struct krn_tensor up = kit_blocked(&r, type, shapes[i].n, shapes[i].ld, shapes[i].kind);
        struct packed p = pack(&t, NULL, shapes[i].col0, shapes[i].k, shapes[i].segments);
        check(&p, &t, NULL);
        free(p.bytes);
        if (shapes[i].n % 8 == 0) {
            p = pack(&t, &up, shapes[i].col0, shapes[i].k, shapes[i].segments);
            check(&p, &t, &up);
            free(p.bytes);
        }
        free((void *)(uintptr_t)t.data);
        free((void *)(uintptr_t)up.data);
    }
}
END_TEST

/* Segments of half units, where the scales of a unit are its halves'. */
START_TEST(half_units) {
    struct kit_rand r = {.seed = 9};
    static const enum krn_dtype types[] = {KRN_Q8_0, KRN_Q4_0, KRN_Q4_1,
                                           KRN_Q5_0, KRN_Q5_1, KRN_IQ4_NL};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct krn_tensor t = kit_blocked(&r, types[i], 16, 192, 3);
        struct packed p = pack(&t, NULL, 0, 192, 2);
        check(&p, &t, NULL);
        free(p.bytes);
        p = pack(&t, NULL, 32, 96, 1);
        check(&p, &t, NULL);
        free(p.bytes);
        free((void *)(uintptr_t)t.data);
    }
    ck_assert(!krn_cuda_blocks_fit(KRN_Q4_K, 0, 192, 2));
    ck_assert(!krn_cuda_blocks_fit(KRN_Q4_K, 32, 64, 1));
    ck_assert(!krn_cuda_blocks_fit(KRN_Q8_0, 16, 64, 1));
    ck_assert(!krn_cuda_blocks_fit(KRN_BF16, 0, 256, 1));
    ck_assert(!krn_cuda_blocks_fit(KRN_Q8_0, 0, 96, 2));
}
END_TEST

/* Every launch fits the machine, and its blocks own every output once. */
START_TEST(launch_shapes) {
    const struct krn_cuda_machine m = {.sms = 132, .major = 9, .shared_max = 232448};
    static const uint32_t outputs[] = {1, 40, 576, 4096, 6144, 28672, 128256};
    for (uint32_t type = KRN_DTYPES; type < KRN_TYPES; type++)
        for (uint32_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++)
            for (uint32_t v = 1; v <= 8; v *= 2)
                for (uint32_t rows = 1; rows <= KRN_BLOCKS_ROWS; rows += 9) {
                    struct krn_cuda_product_blocks a = {.type = type,
                                                        .p = {.rows = rows,
                                                              .n = outputs[i],
                                                              .segments = v,
                                                              .k_blocks = v * (1 + i * 5)}};
                    struct krn_cuda_call call;
                    ck_assert(krn_cuda_product_blocks_call(&a, &m, &call));
                    uint32_t owned = call.grid[0] * a.units * KRN_UNIT_ROWS;
                    ck_assert(owned >= outputs[i] && owned - outputs[i] < a.units * KRN_UNIT_ROWS);
                    ck_assert(a.units % a.warps == 0 && a.stages >= 4);
                    ck_assert(a.parts <= v && a.p.k_blocks / v % a.span == 0);
                    ck_assert(call.shared <= m.shared_max && call.grid[1] == 1);
                    uint32_t halves = strstr(call.kernel, "_halves") != NULL ? 2 : 1;
                    ck_assert_uint_eq(call.block[0], 32 * (a.warps * a.parts * halves + 4));
                    ck_assert(call.block[0] <= (halves == 2 ? 640 : rows <= 16 ? 576 : 384));
                    char name[KRN_CUDA_NAME_MAX], word[16];
                    snprintf(word, sizeof word, "%s", krn_format_of(type)->word);
                    for (char *c = word; *c != '\0'; c++)
                        *c = (char)tolower(*c);
                    uint32_t room = rows <= 8 ? 8 : rows <= 16 ? 16 : rows <= 32 ? 32 : 64;
                    snprintf(name, sizeof name, "krn_product_%s_%u%s", word, room,
                             halves == 2 ? "_halves" : "");
                    ck_assert_str_eq(call.kernel, name);
                }
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda/blocks");
    TCase *t = tcase_create("blocks");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, every_value_returns, KRN_DTYPES, KRN_TYPES);
    tcase_add_test(t, half_units);
    tcase_add_test(t, launch_shapes);
    suite_add_tcase(s, t);
    return test_run(s);
}
