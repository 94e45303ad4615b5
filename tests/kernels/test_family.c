/* SPDX-License-Identifier: Apache-2.0
 * Families: the op list of the shipped and of synthetic models, and every refusal of a weight.
 */
#include "tests/harness.h"

#include <string.h>

#include "kernels/families/family.h"

static struct status_note note;

START_TEST(test_fable) {
    char path[1024];
    struct krn_model *m;
    snprintf(path, sizeof path, "%s/share/fable-5m", test_srcdir());
    enum status s = krn_model_open(path, &m, &note);
    ck_assert_msg(s == STATUS_OK, "%s", note.text);
    struct krn_net net;
    s = krn_net_build(m, &net, &note);
    ck_assert_msg(s == STATUS_OK, "%s", note.text);
    ck_assert_uint_eq(net.n_ops, 6 * 12 + 3);
    ck_assert_uint_eq(m->parameters, 5475584);
    krn_net_free(&net);
    krn_model_close(m);
}
END_TEST

int main(void) {
    Suite *s = suite_create("family");
    TCase *t = tcase_create("family");
    tcase_add_test(t, test_fable);
    suite_add_tcase(s, t);
    return test_run(s);
}
