/* SPDX-License-Identifier: Apache-2.0
 * Models written and read again: the same fingerprint whatever the sharding, the mapping and the
 * alignment.
 */
#include "tests/harness.h"

#include <math.h>
#include <string.h>

#include "kernels/families/family.h"
#include "tests/kernels/scratch_dir.h"

static struct status_note note;

#define OK(expr) ck_assert_msg((expr) == STATUS_OK, "%s", note.text)

static struct krn_config small_config(void) {
    return (struct krn_config){.vocab = 96,
                               .hidden = 48,
                               .layers = 2,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 16,
                               .ffn = 80,
                               .context = 128,
                               .norm_eps = 1e-5F,
                               .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000.0}};
}

START_TEST(test_round_trip) {
    const enum krn_dtype dtype = (enum krn_dtype)(_i % KRN_DTYPES);
    struct krn_config c = small_config();
    c.tied = (_i / KRN_DTYPES) % 2 == 0;
    c.attn_bias = c.attn_out_bias = (_i / KRN_DTYPES) % 2 == 1;
    c.mlp_bias = _i % 2 == 1;
    struct krn_model *made, *read;
    OK(krn_model_synthetic(&c, dtype, 7, &made, &note));
    made->config.temperature = 0.0F;
    static const uint32_t shards[] = {1, 2, 3, 7};
    for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++) {
        char dir[64];
        scratch_make(dir);
        OK(krn_model_save(made, dir, shards[i], &note));
        OK(krn_model_open(dir, &read, &note));
        ck_assert_uint_eq(read->n_tensors, made->n_tensors);
        ck_assert_uint_eq(read->parameters, made->parameters);
        ck_assert_mem_eq(read->fingerprint, made->fingerprint, sizeof made->fingerprint);
        struct krn_net net;
        OK(krn_net_build(read, &net, &note));
        krn_net_free(&net);
        krn_model_close(read);
        scratch_remove(dir);
    }
    krn_model_close(made);
}
END_TEST

int main(void) {
    Suite *s = suite_create("weights");
    TCase *t = tcase_create("weights");
    tcase_add_loop_test(t, test_round_trip, 0, 2 * KRN_DTYPES);
    suite_add_tcase(s, t);
    return test_run(s);
}
