/* SPDX-License-Identifier: Apache-2.0
 * Golden digests: one value a row function, the same in tests/golden/rowfn.txt, in the program and
 * from every table.
 */
#include "tests/harness.h"

#include <inttypes.h>

#include "kernels/matmul.h"
#include "kernels/model.h"
#include "kernels/selftest.h"
#include "tests/kernels/kit.h"

START_TEST(tables_give_the_golden_digests) {
    const struct krn_rowfn *table[4];
    unsigned n_tables = kit_tables(table), n;
    const struct krn_golden *golden = krn_golden_all(&n);
    void *memory = kit_alloc(krn_golden_bytes());
    for (unsigned t = 0; t < n_tables; t++) {
        for (unsigned i = 0; i < n; i++)
            ck_assert_msg(krn_golden_run(table[t], i, memory) == golden[i].digest,
                          "%s of table %s differs", golden[i].name, table[t]->isa);
        struct status_note note;
        ck_assert_int_eq(krn_selftest(table[t], &note), STATUS_OK);
    }
    free(memory);
}
END_TEST

START_TEST(file_holds_the_same_values) {
    char path[512], name[32];
    snprintf(path, sizeof path, "%s/tests/golden/rowfn.txt", test_srcdir());
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "cannot open %s", path);
    unsigned n, i = 0;
    const struct krn_golden *golden = krn_golden_all(&n);
    uint64_t digest;
    while (fscanf(f, "%31s %" SCNx64, name, &digest) == 2) {
        ck_assert_uint_lt(i, n);
        ck_assert_str_eq(name, golden[i].name);
        ck_assert_uint_eq(digest, golden[i].digest);
        i++;
    }
    fclose(f);
    ck_assert_uint_eq(i, n);
}
END_TEST

static void broken_gate(float *g, const float *u, uint32_t n) {
    krn_rowfn_pick("scalar")->gate(g, u, n);
    g[n - 1] = krn_float(krn_bits(g[n - 1]) ^ 1u);
}

START_TEST(selftest_names_what_differs) {
    struct krn_rowfn fn = *krn_rowfn_pick("scalar");
    struct status_note note;
    fn.gate = broken_gate;
    ck_assert_int_eq(krn_selftest(&fn, &note), STATUS_UNSUPPORTED);
    ck_assert_msg(strstr(note.text, "row function gate") != NULL, "%s", note.text);
}
END_TEST

/* No profile of a CPU is opened with row functions that give other bits. */
START_TEST(profiles_refuse_a_broken_table) {
    const struct krn_config config = {
        .heads = 4, .kv_heads = 2, .head_dim = 64, .ffn = 256, .hidden = 256};
    struct krn_rowfn fn = *krn_rowfn_pick("scalar");
    fn.gate = broken_gate;
    unsigned refused = 0;
    for (unsigned i = 0; krn_profile_name(i) != NULL; i++) {
        struct krn_profile profile;
        struct krn_matmul matmul;
        struct status_note note = {""};
        ck_assert_int_eq(krn_profile_open(krn_profile_name(i), &config, 0, &profile, &note),
                         STATUS_OK);
        if (krn_profile_gpu(&profile))
            continue;
        ck_assert_int_eq(krn_matmul_open(&profile, &fn, &matmul, &note), STATUS_UNSUPPORTED);
        ck_assert_msg(strstr(note.text, "row function gate") != NULL, "%s", note.text);
        ck_assert_int_eq(krn_matmul_open(&profile, krn_rowfn_pick("scalar"), &matmul, &note),
                         STATUS_OK);
        refused++;
    }
    ck_assert_uint_ge(refused, 3);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("golden");
    TCase *tc = tcase_create("golden");
    tcase_add_test(tc, tables_give_the_golden_digests);
    tcase_add_test(tc, file_holds_the_same_values);
    tcase_add_test(tc, selftest_names_what_differs);
    tcase_add_test(tc, profiles_refuse_a_broken_table);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
