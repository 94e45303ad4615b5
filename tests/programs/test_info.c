/* SPDX-License-Identifier: Apache-2.0
 * roundhouse info on GGUF files: quantisation by type, what this build cannot run and why, and one
 * line for a broken file.
 */
#include "tests/programs/command.h"

#include <jansson.h>

#include "tests/kernels/gguf_make.h"
#include "tests/kernels/scratch_dir.h"

static struct command_result cli;

/* A small model of Q4_1 matrices with an output matrix of a type that no build reads. */
static void write_model(const char *path, bool readable, size_t cut) {
    const struct krn_config c = {.vocab = 40,
                                 .hidden = 64,
                                 .layers = 1,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .head_dim = 16,
                                 .ffn = 96,
                                 .context = 128,
                                 .norm_eps = 1e-5F,
                                 .tied = true,
                                 .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000}};
    struct krn_model *made = NULL;
    struct status_note note;
    struct gguf_make make;
    static unsigned char output[40 * 2 * 36];
    size_t n;
    ck_assert_int_eq(krn_model_synthetic(&c, KRN_F32, 9, &made, &note), STATUS_OK);
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, &c);
    gguf_model_tensors(&make, made, KRN_Q4_1, true);
    if (!readable)
        gguf_tensor(&make, "output.weight", 9, 2, (const uint64_t[]){64, 40}, output,
                    sizeof output);
    unsigned char *bytes = gguf_end(&make, &n);
    n -= cut;
    FILE *f = fopen(path, "wb");
    ck_assert(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    free(bytes);
    krn_model_close(made);
}

static json_int_t number(const json_t *root, const char *type, const char *key) {
    return json_integer_value(
        json_object_get(json_object_get(json_object_get(root, "types"), type), key));
}

START_TEST(test_types) {
    char dir[64], path[128];
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/small.gguf", dir);
    write_model(path, _i == 0, 0);
    command_run(&cli, "info --json %s", path);
    ck_assert_int_eq(cli.code, 0);
    json_t *root = json_loads(cli.text, 0, NULL);
    ck_assert_ptr_nonnull(root);
    ck_assert_int_eq(number(root, "q4_1", "tensors"), 8);
    ck_assert_int_eq(number(root, "q4_1", "bytes"),
                     (40 * 64 + 64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 96 * 64) / 32 * 20);
    ck_assert_int_eq(number(root, "f32", "tensors"), 3);
    ck_assert_int_eq(number(root, "q8_1", "tensors"), _i);
    ck_assert_int_eq(number(root, "q8_1", "bytes"), _i * 40 * 2 * 36);
    char *cannot = json_dumps(json_object_get(root, "cannot"), 0);
    ck_assert_int_eq(strstr(cannot, "lm_head.weight is Q8_1") != NULL, _i == 1);
    free(cannot);
    json_decref(root);
    command_run(&cli, "info %s", dir);
    ck_assert_int_eq(cli.code, 0);
    ck_assert_ptr_nonnull(strstr(cli.text, "q4_1           8 tensors"));
    ck_assert_int_eq(strstr(cli.text, "not readable here") != NULL, _i == 1);
    scratch_remove(dir);
}
END_TEST

/* A whole file of an architecture that no build knows, and a directory of one. */
START_TEST(test_unknown) {
    char dir[64], path[128];
    const uint64_t dims[2] = {32, 5};
    static const unsigned char data[5 * 34];
    struct gguf_make make;
    size_t n;
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/small.gguf", dir);
    gguf_begin(&make, 3, 32);
    gguf_key_text(&make, "general.architecture", "mamba");
    gguf_key_u32(&make, "mamba.context_length", 777);
    gguf_tensor(&make, "token_embd.weight", 8, 2, dims, data, sizeof data);
    gguf_tensor(&make, "blk.0.ssm_a", 0, 1, dims, data, 128);
    unsigned char *bytes = gguf_end(&make, &n);
    FILE *f = fopen(path, "wb");
    ck_assert(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    free(bytes);
    command_run(&cli, "info --json %s", path);
    ck_assert_int_eq(cli.code, 0);
    json_t *root = json_loads(cli.text, 0, NULL);
    ck_assert_ptr_nonnull(root);
    ck_assert_str_eq(json_string_value(json_object_get(root, "architecture")), "mamba");
    ck_assert_int_eq(json_integer_value(json_object_get(root, "context")), 777);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "parameters")), 192);
    ck_assert_int_eq(number(root, "q8_0", "tensors"), 1);
    ck_assert_int_eq(number(root, "f32", "bytes"), 128);
    ck_assert_ptr_null(json_object_get(root, "family"));
    char *cannot = json_dumps(json_object_get(root, "cannot"), JSON_ENCODE_ANY);
    ck_assert_ptr_nonnull(strstr(cannot, "this build knows gemma3, llama, qwen2"));
    free(cannot);
    json_decref(root);
    command_run(&cli, "info %s", path);
    ck_assert_int_eq(cli.code, 0);
    ck_assert_ptr_nonnull(strstr(cli.text, "architecture   mamba\n"));
    ck_assert_ptr_nonnull(strstr(cli.text, "q8_0           1 tensors"));
    ck_assert_ptr_null(strstr(cli.text, "fingerprint"));
    command_run(&cli, "run --model %s x 2>&1", path);
    ck_assert_int_ne(cli.code, 0);
    ck_assert_ptr_eq(strchr(cli.text, '\n'), cli.text + cli.bytes - 1);
    scratch_remove(dir);
}
END_TEST

/* A mixture: experts and what this build cannot run of it, by the tensor's name. */
START_TEST(test_mixture) {
    char dir[64], path[128];
    const struct krn_config c = {.family = "qwen3_moe",
                                 .vocab = 40,
                                 .hidden = 64,
                                 .layers = 1,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .head_dim = 16,
                                 .ffn = 64,
                                 .context = 128,
                                 .norm_eps = 1e-5F,
                                 .tied = true,
                                 .experts = 5,
                                 .experts_used = 2,
                                 .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000}};
    struct krn_model *made = NULL;
    struct status_note note;
    ck_assert_int_eq(krn_model_synthetic(&c, KRN_F16, 9, &made, &note), STATUS_OK);
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/hf", dir);
    ck_assert_int_eq(krn_model_save(made, path, 1, &note), STATUS_OK);
    krn_model_close(made);
    command_run(&cli, "info %s", path);
    ck_assert_int_eq(cli.code, 0);
    ck_assert_ptr_nonnull(strstr(cli.text, "architecture   Qwen3MoeForCausalLM\n"));
    ck_assert_ptr_nonnull(strstr(cli.text, "experts        5\n"));
    ck_assert_ptr_nonnull(strstr(cli.text, "experts_used   2\n"));
    scratch_remove(dir);
}
END_TEST

START_TEST(test_broken) {
    char dir[64], path[128];
    scratch_make(dir);
    snprintf(path, sizeof path, "%s/small.gguf", dir);
    write_model(path, true, 100);
    command_run(&cli, "info %s 2>&1", path);
    ck_assert_int_ne(cli.code, 0);
    ck_assert_ptr_nonnull(strstr(cli.text, "small.gguf: tensor "));
    ck_assert_ptr_eq(strchr(cli.text, '\n'), cli.text + cli.bytes - 1);
    scratch_remove(dir);
}
END_TEST

int main(void) {
    Suite *s = suite_create("info");
    TCase *t = tcase_create("info");
    tcase_set_timeout(t, 0);
    tcase_add_loop_test(t, test_types, 0, 2);
    tcase_add_test(t, test_unknown);
    tcase_add_test(t, test_mixture);
    tcase_add_test(t, test_broken);
    suite_add_tcase(s, t);
    return test_run(s);
}
