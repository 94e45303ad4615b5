/* SPDX-License-Identifier: Apache-2.0
 * A short proof on a published model, SmolLM2-135M-Instruct in Q4_1, in each profile: what holds on
 * the small model that ships must hold there too. Without the file (tests/fetch_smollm2 puts it
 * into build-models, or where ROUNDHOUSE_SMOLLM2 says) this is skipped.
 */
#include <string.h>
#include <unistd.h>

#include "tests/programs/command.h"

static struct command_result out;

static void prove(const char *profile) {
    char path[1024];
    const char *given = getenv("ROUNDHOUSE_SMOLLM2");
    snprintf(path, sizeof path, "%s/build-models/SmolLM2-135M-Instruct.Q4_1.gguf", test_srcdir());
    given = given != NULL ? given : path;
    if (access(given, R_OK) != 0)
        TEST_SKIP("no SmolLM2-135M-Instruct.Q4_1.gguf here; tests/fetch_smollm2 fetches it");
    const char *scale = getenv("RH_TEST_SCALE");
    if (scale != NULL && strcmp(scale, "small") == 0)
        TEST_SKIP("a model of 135 million parameters is for full scale");
    command_run_for(&out, 400,
                    "prove --model '%s' --profile %s --seconds 1 --quiet "
                    "--axes company,memory,drafts,pieces,trouble 2>&1",
                    given, profile);
    ck_assert_msg(out.code == 0, "%s: exit %d: %s", profile, out.code, out.text);
    ck_assert_ptr_nonnull(strstr(out.text, "pass: not a bit differs"));
    ck_assert_ptr_nonnull(strstr(out.text, profile));
}

START_TEST(prove_holds_on_a_published_model) {
    static const char *const profiles[] = {"portable", "q8"};
    prove(profiles[_i]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("published");
    TCase *tcase = tcase_create("published");
    tcase_set_timeout(tcase, 900);
    tcase_add_loop_test(tcase, prove_holds_on_a_published_model, 0, 2);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
