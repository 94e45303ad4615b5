/* SPDX-License-Identifier: Apache-2.0
 * prove passes on the model that ships and on a small one of each family, and fails on the right
 * axis when one row's addition order is changed there.
 */
#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>

#include "kernels/model.h"
#include "tests/kernels/scratch_dir.h"
#include "tests/programs/command.h"

static const char *const prove_axes[] = {"company", "memory",  "drafts",
                                         "pieces",  "threads", "trouble"};
enum { PROVE_N = 6 };
static const bool prove_shared[] = {true, false, false, true, false, true};

static struct command_result prove_out;

/* What every axis compares at least, whatever the time, decides most tests here; only where more
 * random sessions may show more is there time for them. */
static json_t *prove_json(const char *options, int code) {
    command_run(&prove_out, "prove --quiet --seconds 0.5 --json - %s", options);
    ck_assert_msg(prove_out.code == code, "exit code %d: %s", prove_out.code, prove_out.text);
    json_error_t error;
    json_t *j = json_loads(prove_out.text, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(j != NULL, "%s in %s", error.text, prove_out.text);
    return j;
}

static json_int_t prove_number(const json_t *j, const char *axis, const char *field) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(j, "axes"), i,
                       row) if (strcmp(json_string_value(json_object_get(row, "axis")), axis) ==
                                0) return json_integer_value(json_object_get(row, field));
    ck_abort_msg("axis %s is missing", axis);
    return 0;
}

START_TEST(prove_passes_and_writes_its_receipt) {
    json_t *j = prove_json("--seed 5 --seconds 3", 0);
    ck_assert(json_is_true(json_object_get(j, "pass")));
    for (uint32_t i = 0; i < PROVE_N; i++) {
        ck_assert_int_gt(prove_number(j, prove_axes[i], "cases"), 0);
        ck_assert_int_gt(prove_number(j, prove_axes[i], "rows"), 0);
        ck_assert_int_eq(prove_number(j, prove_axes[i], "differ"), 0);
    }
    ck_assert_int_gt(prove_number(j, "ranks", "rows"), 0); /* 2 and 4 CPU ranks in this process */
    ck_assert_int_eq(prove_number(j, "ranks", "differ"), 0);
    ck_assert_uint_eq(strlen(json_string_value(json_object_get(j, "sha256"))), 64);
    ck_assert_uint_eq(strlen(json_string_value(json_object_get(j, "model"))), 32);
    ck_assert_str_eq(json_string_value(json_object_get(j, "profile")), "portable");
    ck_assert_int_gt(json_integer_value(json_object_get(json_object_get(j, "oracle"), "rows")), 0);
    ck_assert_ptr_nonnull(json_object_get(json_object_get(j, "machine"), "isa"));
    json_decref(j);
}
END_TEST

static int entries(const char *folder) {
    DIR *d = opendir(folder);
    int n = 0;
    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        closedir(d);
    return n - 2; /* itself and its parent */
}

/* With tiers the memory axis goes through them: RAM, disk, and an engine that was opened anew. */
START_TEST(prove_goes_through_the_tiers) {
    char folder[] = "/tmp/rh-prove-XXXXXX", options[256];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(options, sizeof options,
             "--axes memory --device cpu --seconds 1 --ram-cache 4M --disk-cache %s/store "
             "--disk-budget 512M",
             folder);
    json_t *j = prove_json(options, 0);
    ck_assert_int_gt(prove_number(j, "memory", "from_disk"), 0);
    ck_assert_int_gt(prove_number(j, "memory", "from_ram"), 0);
    ck_assert_int_eq(prove_number(j, "memory", "differ"), 0);
    json_decref(j);
    snprintf(options, sizeof options, "%s/store", folder);
    ck_assert_int_eq(entries(options), 0);
    snprintf(options, sizeof options, "rm -rf %s", folder);
    ck_assert_int_eq(system(options), 0);
}
END_TEST

/* Its sessions are not left among a user's: not at the end, and not when it is interrupted or
 * killed in the middle. */
START_TEST(prove_leaves_nothing_behind) {
    static const char *const ends[] = {"TERM", "KILL"};
    char folder[] = "/tmp/rh-prove-XXXXXX", line[512];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        /* Until there are sessions on the disk. */
        snprintf(line, sizeof line,
                 "prove --quiet --seconds 100 --axes memory --device cpu --ram-cache 4M "
                 "--disk-cache %s --disk-budget 512M > /dev/null 2>&1 & P=$!; "
                 "until ls %s/rh-prove-*/segment-00001; do sleep 0.02; done > /dev/null 2>&1; "
                 "kill -%s $(cat /proc/$P/task/$P/children); wait $P; echo $?; "
                 "for i in $(seq 500); do [ \"$(ls -A %s)\" ] || break; sleep 0.02; done",
                 folder, folder, ends[i], folder);
        command_run(&prove_out, "%s", line);
        ck_assert_int_gt(atoi(prove_out.text), 128);
        ck_assert_int_eq(entries(folder), 0);
    }
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(prove_fails_on_the_perturbed_axis) {
    char options[64];
    snprintf(options, sizeof options, "--perturb %s", prove_axes[_i]);
    json_t *j = prove_json(options, 1);
    ck_assert(json_is_false(json_object_get(j, "pass")));
    for (int i = 0; i < PROVE_N; i++) {
        json_int_t differ = prove_number(j, prove_axes[i], "differ");
        if (i == _i)
            ck_assert_int_gt(differ, 0);
        /* Company is a part of pieces and trouble too, and prompts come in pieces where many share
         * a round or are computed again after a failure. All else is its own axis's alone. */
        else if (!prove_shared[_i] || !prove_shared[i])
            ck_assert_msg(differ == 0, "perturbed %s, but %s differs", prove_axes[_i],
                          prove_axes[i]);
    }
    json_decref(j);
}
END_TEST

START_TEST(prove_says_what_a_device_cannot_show) {
    command_run(&prove_out, "prove --quiet --seconds 1 --device cpu --axes graphs 2>&1");
    ck_assert_int_ne(prove_out.code, 0);
    ck_assert_msg(strstr(prove_out.text, "the device cpu has no graphs") != NULL, "%s",
                  prove_out.text);
    command_run(&prove_out, "prove --quiet --device cpu --axes , 2>&1");
    ck_assert(prove_out.code == 64 && strstr(prove_out.text, "names no axis") != NULL);
    command_run(&prove_out, "prove --quiet --device cpu --axes none 2>&1");
    ck_assert(prove_out.code == 64 && strstr(prove_out.text, "on a GPU graphs") != NULL);
    command_run(&prove_out, "prove --quiet --device cpu --perturb ranks 2>&1");
    ck_assert(prove_out.code == 64 && strstr(prove_out.text, "threads, trouble") != NULL);
}
END_TEST

/* Every part of the axis threads is told, as done or as left out; the first is always done. */
static size_t parts_of(const json_t *j, const char *key) {
    const json_t *axis = json_array_get(json_object_get(j, "axes"), 0);
    const json_t *list = json_object_get(axis, key);
    ck_assert_str_eq(json_string_value(json_object_get(axis, "axis")), "threads");
    ck_assert(json_is_array(list));
    return json_array_size(list);
}

START_TEST(prove_says_which_parts_it_had_time_for) {
    json_t *j = prove_json("--axes threads --threads 2 --seconds 0.1", 0);
    size_t done = parts_of(j, "done"), left = parts_of(j, "left_out");
    ck_assert_uint_ge(done, 1);
    ck_assert_str_eq(
        json_string_value(json_array_get(
            json_object_get(json_array_get(json_object_get(j, "axes"), 0), "done"), 0)),
        "1 thread");
    json_decref(j);
    j = prove_json("--axes threads --threads 2 --seconds 1", 0);
    ck_assert_uint_eq(parts_of(j, "done") + parts_of(j, "left_out"), done + left);
    ck_assert_uint_ge(done + left, 4); /* 1, 3 and 5 threads, the plain instruction set */
    json_decref(j);
    command_run(&prove_out, "prove --quiet --axes threads --threads 2 --seconds 0.1");
    ck_assert_msg(prove_out.code == 0 && strstr(prove_out.text, " 1 thread") != NULL, "%s",
                  prove_out.text);
}
END_TEST

START_TEST(prove_takes_a_list_of_axes) {
    json_t *j = prove_json("--axes memory,drafts", 0);
    ck_assert_uint_eq(json_array_size(json_object_get(j, "axes")), 2);
    json_decref(j);
}
END_TEST

/* A small model of each family, without a tokenizer; windows shorter than the sessions. */
static const struct krn_config prove_families[] = {
    {.family = "qwen2", .tied = true, .attn_bias = true, .window = 40, .windowed = {2}},
    {.family = "mistral", .window = 70, .windowed = {3}},
    {.family = "qwen3", .tied = true},
    {.family = "gemma3",
     .tied = true,
     .window = 40,
     .windowed = {1},
     .has_local_rope = true,
     .local_rope = {.kind = KRN_ROPE_PLAIN, .theta = 1000.0},
     .score_scalar = 32},
    {.family = "qwen3_moe", .experts = 12, .experts_used = 4, .experts_norm = true},
    {.family = "qwen3_moe",
     .tied = true,
     .window = 50,
     .windowed = {3},
     .experts = 5,
     .experts_used = 2,
     .dense = {2},
     .dense_ffn = 256},
    {.family = "mixtral",
     .tied = true,
     .window = 90,
     .windowed = {3},
     .experts = 6,
     .experts_used = 2,
     .experts_norm = true},
};

START_TEST(prove_passes_on_every_family) {
    struct status_note note;
    struct krn_model *m;
    char dir[64], options[128];
    struct krn_config c = prove_families[_i];
    c.vocab = 300;
    c.hidden = 64;
    c.layers = 2;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_dim = 32;
    c.ffn = 128;
    c.context = 1024;
    c.norm_eps = 1e-6F;
    c.rope = (struct krn_rope){.kind = KRN_ROPE_PLAIN, .theta = 10000.0};
    scratch_make(dir);
    ck_assert_int_eq(krn_model_synthetic(&c, KRN_BF16, 3, &m, &note), STATUS_OK);
    ck_assert_int_eq(krn_model_save(m, dir, 1, &note), STATUS_OK);
    krn_model_close(m);
    const char *scale = getenv("RH_TEST_SCALE");
    snprintf(options, sizeof options, "--model %s%s", dir,
             scale != NULL && strcmp(scale, "small") == 0 ? "" : " --seconds 1");
    json_t *j = prove_json(options, 0);
    ck_assert(json_is_true(json_object_get(j, "pass")));
    for (uint32_t i = 0; i < PROVE_N; i++) {
        ck_assert_int_gt(prove_number(j, prove_axes[i], "rows"), 0);
        ck_assert_int_eq(prove_number(j, prove_axes[i], "differ"), 0);
    }
    ck_assert_int_gt(prove_number(j, "ranks", "rows"), 0);
    ck_assert_int_eq(prove_number(j, "ranks", "differ"), 0);
    json_decref(j);
    scratch_remove(dir);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("prove");
    TCase *tc = tcase_create("prove");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, prove_passes_and_writes_its_receipt);
    tcase_add_test(tc, prove_goes_through_the_tiers);
    tcase_add_test(tc, prove_leaves_nothing_behind);
    tcase_add_loop_test(tc, prove_fails_on_the_perturbed_axis, 0, PROVE_N);
    tcase_add_test(tc, prove_says_which_parts_it_had_time_for);
    tcase_add_test(tc, prove_takes_a_list_of_axes);
    tcase_add_test(tc, prove_says_what_a_device_cannot_show);
    tcase_add_loop_test(tc, prove_passes_on_every_family, 0,
                        sizeof prove_families / sizeof prove_families[0]);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
