/* SPDX-License-Identifier: Apache-2.0
 * The command line: what each program prints, exit codes, and one clear sentence for everything
 * that is wrong.
 */
#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/programs/command.h"

static struct command_result cli;

/* Each command, the exit code, and what the one line on standard error must say. */
static const struct {
    const char *args;
    int code;
    const char *says;
} cli_bad[] = {
    {"", 64, "usage"},
    {"nonsense", 64, "'nonsense' is no program"},
    {"run --nonsense", 64, "'--nonsense' is unknown to run"},
    {"run --listen x hello", 64, "'--listen' is no option of run"},
    {"run --max-tokens", 64, "--max-tokens needs a value"},
    {"run --max-tokens 0 hello", 64, "--max-tokens '0' is not a whole number from 1"},
    {"run --max-tokens -3 hello", 64, "--max-tokens '-3'"},
    {"run --max-tokens 1e3 hello", 64, "--max-tokens '1e3'"},
    {"run --max-tokens 99999999999999999999999 hello", 64,
     "--max-tokens '99999999999999999999999'"},
    {"run --greedy=yes hello", 64, "--greedy takes no value"},
    {"run --temperature nan hello", 64, "--temperature 'nan'"},
    {"run --temperature inf hello", 64, "--temperature 'inf'"},
    {"run --top-p 1.5 hello", 64, "--top-p '1.5' is not a number from 0 to 1"},
    {"run --draft 17 hello", 64, "--draft '17'"},
    {"run --stop '' hello", 64, "--stop has 0 bytes"},
    {"run --threads 0 hello", 64, "--threads '0'"},
    {"run ''", 64, "prompt 1 is empty"},
    {"run hello ''", 64, "prompt 2 is empty"},
    {"run --file /dev/null", 64, "prompt 1 is empty"},
    {"run --context 5000 hello", 71,
     "a context of 5000 tokens was asked for; the model was made for 4096"},
    {"run --kv-bytes 1K hello", 71, "holds no page"},
    {"run --device-cache 0% hello", 64, "'0%' is no size and no percentage from 1% to 100%"},
    {"run --device-cache 5%5 hello", 64, "'5%5' is not a whole number"},
    {"run --profile cuda-bf16-sm90 --device cpu hello", 64, "runs on a GPU: --device cuda"},
    {"run --device cuda --threads 2 hello", 64, "--threads is of the CPU device"},
    {"run --device cuda --isa scalar hello", 64, "--isa names a CPU's instructions"},
    {"run --virtual-ranks 3 hello", 64, "3"},
    {"run --profile fast hello", 64, "portable"},
    {"run --ranks 3 hello", 64, "3 ranks were asked for"},
    {"run --exchange quick hello", 64, "no exchange 'quick'; there are auto, nccl and host"},
    {"run --ranks 2 --exchange nccl --device cpu hello", 64, "--exchange nccl is of ranks on GPUs"},
    {"run --weights thin hello", 64, "weights cannot be 'thin'; they are auto, packed or wide"},
    {"run --weights packed --device cpu hello", 64, "--weights packed is of a GPU's memory; "},
    {"bench --shape fable-5m --weights wide --device cpu", 64,
     "--weights wide is of a GPU's memory"},
    {"run --isa riscv hello", 64, "riscv"},
    {"run --graphs 49 hello", 64, "--graphs is \"49\"; it is on, off or 0 to 48"},
    {"run --graphs 8 --device cpu hello", 64, "the device cpu has none"},
    {"run --model /nonexistent hello", 66, "/nonexistent"},
    {"run --model /etc/passwd hello", 65, "/etc/passwd"},
    {"run --file /nonexistent", 66, "/nonexistent cannot be read"},
    {"run --tokens /nonexistent", 66, "/nonexistent cannot be read"},
    {"run --thinking off hello", 64, "--thinking goes with --as-chat"},
    {"run --template-date 2024-07-26 hello", 64, "--template-date goes with --as-chat"},
    {"run --as-chat --thinking no hello", 64, "--thinking 'no' is neither on nor off"},
    {"run --as-chat --thinking off hello", 64, "(fable) has no switch for thinking"},
    {"chat --template-date 2024-07-26", 64, "(fable) has no place for a date"},
    {"chat --template-date yesterday", 64, "\"yesterday\" is not a day as 2024-07-26"},
    {"prove --axes company,nonsense", 64, "'nonsense' is no axis"},
    {"prove --perturb nonsense", 64, "'nonsense' is no axis"},
    {"prove --json /nonexistent/x", 74, "/nonexistent/x cannot be written"},
    {"bench --json /nonexistent/x", 74, "/nonexistent/x cannot be written"},
    {"prove --seconds 0", 64, "--seconds '0'"},
    {"info --model /nonexistent", 66, "/nonexistent"},
};

START_TEST(cli_bad_words_get_one_clear_line) {
    command_run(&cli, "%s 2>&1 >/dev/null </dev/null", cli_bad[_i].args);
    ck_assert_msg(cli.code == cli_bad[_i].code, "'%s': exit code %d, wanted %d: %s",
                  cli_bad[_i].args, cli.code, cli_bad[_i].code, cli.text);
    ck_assert_msg(strstr(cli.text, cli_bad[_i].says) != NULL, "'%s' says: %s", cli_bad[_i].args,
                  cli.text);
    if (_i > 0) {
        const char *end = strchr(cli.text, '\n');
        ck_assert_msg(end != NULL && end[1] == '\0', "'%s' says more than one line: %s",
                      cli_bad[_i].args, cli.text);
    }
}
END_TEST

/* Where there is no GPU that can run it, why is said. */
START_TEST(cli_gpu_profile_says_why_not) {
    command_run(&cli, "run --profile cuda-bf16-sm90 --max-tokens 1 --quiet hello 2>&1");
    if (cli.code == 0)
        TEST_SKIP("this machine runs the profile");
    ck_assert_int_eq(cli.code, 64);
    const char *says = "roundhouse run: profile cuda-bf16-sm90 runs on a GPU alone: ";
    ck_assert_msg(strncmp(cli.text, says, strlen(says)) == 0 && strlen(cli.text) > strlen(says) + 9,
                  "%s", cli.text);
}
END_TEST

/* Tokens that a share of the memory holds. */
static uint64_t device_cache_tokens(unsigned percent) {
    static const char says[] = "session memory for ";
    command_run(&cli,
                "run --device cpu --device-cache %u%% --threads 1 --max-tokens 1 --greedy hello "
                "2>&1 >/dev/null",
                percent);
    const char *at = strstr(cli.text, says);
    ck_assert_msg(cli.code == 0 && at != NULL, "exit code %d: %s", cli.code, cli.text);
    return strtoull(at + sizeof says - 1, NULL, 10);
}

START_TEST(cli_device_cache_is_a_share_of_the_memory) {
    uint64_t one = device_cache_tokens(1), two = device_cache_tokens(2);
    ck_assert_uint_ge(two, 2 * one); /* whole pages of 64 tokens */
    ck_assert_uint_le(two, 2 * one + 64);
}
END_TEST

START_TEST(cli_help_names_every_program) {
    static const char *const names[] = {"run",   "chat", "serve",    "ctl",        "prove",
                                        "bench", "info", "tokenize", "detokenize", "show"};
    command_run(&cli, "--help");
    ck_assert_int_eq(cli.code, 0);
    for (uint32_t i = 0; i < 10; i++)
        ck_assert_msg(strstr(cli.text, names[i]) != NULL, "%s is missing", names[i]);
    for (uint32_t i = 0; i < 10; i++) {
        command_run(&cli, "%s --help", names[i]);
        ck_assert_int_eq(cli.code, 0);
        ck_assert_ptr_nonnull(strstr(cli.text, "usage: roundhouse"));
    }
}
END_TEST

/* A full disk behind standard output is a failure, not silence. */
START_TEST(cli_output_that_cannot_be_written_is_said) {
    static const char *const args[] = {"run --greedy --max-tokens 3 --quiet hello",
                                       "run --greedy --max-tokens 3 --quiet --json hello", "info",
                                       "info --json", "tokenize hello"};
    for (uint32_t i = 0; i < 5; i++) {
        command_run(&cli, "%s 2>&1 >/dev/full", args[i]);
        ck_assert_msg(cli.code == 74, "'%s': exit code %d", args[i], cli.code);
        ck_assert_ptr_nonnull(strstr(cli.text, "standard output cannot be written"));
    }
}
END_TEST

START_TEST(cli_run_takes_text_files_and_standard_input_alike) {
    const char *text = "Once upon a time there was a little bear who";
    static char first[sizeof cli.text];
    char path[] = "/tmp/roundhouse-cli-XXXXXX";
    command_run(&cli, "run --greedy --max-tokens 20 --quiet \"%s\"", text);
    ck_assert_int_eq(cli.code, 0);
    ck_assert_uint_gt(cli.bytes, 20);
    snprintf(first, sizeof first, "%s", cli.text);
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    command_run(&cli, "run --greedy --max-tokens 20 --quiet --file %s", path);
    ck_assert_str_eq(cli.text, first);
    command_run(&cli, "run --greedy --max-tokens 20 --quiet <%s", path);
    ck_assert_str_eq(cli.text, first);
    command_run(&cli, "run --greedy --max-tokens 20 --quiet --file - <%s", path);
    ck_assert_str_eq(cli.text, first);
    unlink(path);
}
END_TEST

START_TEST(cli_run_json_is_one_line_a_session) {
    char path[] = "/tmp/roundhouse-cli-XXXXXX", logits[] = "/tmp/roundhouse-cli-XXXXXX";
    int fd = mkstemp(path);
    const char *lines = "[0, 500, 600]\n\n[0]\n[0, 1, 2, 3]\n";
    ck_assert_int_eq(write(fd, lines, strlen(lines)), (ssize_t)strlen(lines));
    close(fd);
    close(mkstemp(logits));
    command_run(&cli,
                "run --tokens %s --max-tokens 9 --greedy --ignore-eos --json --logits-first %s",
                path, logits);
    ck_assert_int_eq(cli.code, 0);
    char *line = strtok(cli.text, "\n");
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(line);
        json_t *j = json_loads(line, 0, NULL);
        ck_assert_ptr_nonnull(j);
        ck_assert_int_eq(json_integer_value(json_object_get(j, "session")), i);
        ck_assert_uint_eq(json_array_size(json_object_get(j, "ids")), 9);
        ck_assert_str_eq(json_string_value(json_object_get(j, "stop")), "length");
        ck_assert_uint_eq(strlen(json_string_value(json_object_get(j, "sha256"))), 64);
        json_decref(j);
        line = strtok(NULL, "\n");
    }
    ck_assert_ptr_null(line);
    struct stat st;
    ck_assert_int_eq(stat(logits, &st), 0);
    ck_assert_int_eq(st.st_size, 3 * 4096 * 4);
    unlink(path);
    unlink(logits);
}
END_TEST

START_TEST(cli_bad_sessions_leave_the_good_ones_alone) {
    char path[] = "/tmp/roundhouse-cli-XXXXXX";
    int fd = mkstemp(path);
    const char *lines = "[0, 500]\n[]\n[4096]\n[0, 500]\n";
    ck_assert_int_eq(write(fd, lines, strlen(lines)), (ssize_t)strlen(lines));
    close(fd);
    command_run(&cli, "run --tokens %s --max-tokens 4 --greedy --ignore-eos --json", path);
    ck_assert_int_eq(cli.code, 1);
    static const char *const stops[] = {"length", "refused", "refused", "length"};
    static const char *const errors[] = {NULL, "empty_prompt", "bad_token", NULL};
    char *line = strtok(cli.text, "\n");
    for (int i = 0; i < 4; i++) {
        json_t *j = json_loads(line, 0, NULL);
        ck_assert_str_eq(json_string_value(json_object_get(j, "stop")), stops[i]);
        const char *error = json_string_value(json_object_get(j, "error"));
        ck_assert((error == NULL) == (errors[i] == NULL));
        if (error != NULL)
            ck_assert_str_eq(error, errors[i]);
        json_decref(j);
        line = strtok(NULL, "\n");
    }
    static const char *const bad[] = {"[1, 2", "{}", "[1.5]", "[-1]", "[4294967296]", "[\"a\"]"};
    for (uint32_t i = 0; i < 6; i++) {
        FILE *f = fopen(path, "w");
        fprintf(f, "[0]\n%s\n", bad[i]);
        fclose(f);
        command_run(&cli, "run --tokens %s --json 2>&1", path);
        ck_assert_int_eq(cli.code, 64);
        ck_assert_msg(strstr(cli.text, "line 2") != NULL, "%s", cli.text);
    }
    unlink(path);
}
END_TEST

START_TEST(cli_prompt_longer_than_the_context_is_refused_before_work) {
    command_run(
        &cli, "run --json --context 64 --max-tokens 5 \"$(printf 'word %%.0s' $(seq 100))\" 2>&1");
    ck_assert_int_eq(cli.code, 1);
    ck_assert_ptr_nonnull(strstr(cli.text, "prompt_too_long"));
    ck_assert_ptr_nonnull(strstr(cli.text, "at most 63 fit"));
}
END_TEST

START_TEST(cli_chat_resumes_each_turn) {
    command_run(&cli, "chat --greedy --max-tokens 12 2>&1 <<'END'\nTell me a short story.\n\nWhat "
                      "happened next?\nEND\n");
    ck_assert_msg(cli.code == 0, "%s", cli.text);
    const char *turn = strstr(cli.text, "  [");
    ck_assert_ptr_nonnull(turn);
    ck_assert_int_eq(atoi(turn + 3), 0);
    ck_assert_ptr_nonnull(strstr(turn, "prompt tokens resumed"));
    turn = strstr(turn + 1, "  [");
    ck_assert_ptr_nonnull(turn);
    ck_assert_int_gt(atoi(turn + 3), 10);
}
END_TEST

START_TEST(cli_bench_writes_its_json) {
    command_run(&cli, "bench --seconds 1 --quiet --json -");
    ck_assert_int_eq(cli.code, 0);
    json_t *j = json_loads(cli.text, 0, NULL);
    ck_assert_msg(j != NULL, "%s", cli.text);
    static const char *const arrays[] = {"cold", "decode", "ttft", "host_us"};
    static const uint32_t n[] = {3, 4, 2, 4};
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(json_array_size(json_object_get(j, arrays[i])), n[i]);
    ck_assert_int_gt(json_integer_value(json_object_get(j, "peak_bytes")), 0);
    ck_assert(json_real_value(json_object_get(j, "load_s")) > 0);
    ck_assert_str_eq(json_string_value(json_object_get(j, "weights")), ""); /* a GPU's choice */
    ck_assert_int_gt(json_integer_value(json_object_get(j, "weights_bytes")), 5000000);
    json_decref(j);
}
END_TEST

/* Every place that a session can come from was met, every figure is there, and the picture is
 * whole; its directory is gone again. */
START_TEST(cli_bench_tiers) {
    char folder[] = "/tmp/rh-cli-tiers-XXXXXX", command[256], path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t.svg", folder);
    snprintf(command, sizeof command,
             "bench --tiers --context 640 --seconds 1 --quiet --json - --svg %s --disk-cache %s",
             path, folder);
    command_run(&cli, "%s", command);
    ck_assert_msg(cli.code == 0, "%s", cli.text);
    json_t *j = json_loads(cli.text, 0, NULL), *row;
    ck_assert_msg(j != NULL, "%s", cli.text);
    static const char *const names[] = {
        "decode_round_s", "read_B_s",     "restore_share",       "disk_over_bound", "copy_out_B_s",
        "copy_in_B_s",    "decode_alone", "decode_beside_tiers", "beside_B_s"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(json_number_value(json_object_get(j, names[i])) > 0, "%s", names[i]);
    json_t *rows = json_object_get(j, "first_token_s");
    ck_assert_uint_eq(json_array_size(rows), 2); /* 256 tokens and the longest */
    size_t i;
    json_array_foreach(rows, i, row) {
        ck_assert_uint_eq(json_object_size(row), 5);
        ck_assert(json_number_value(json_object_get(row, "device")) > 0);
    }
    ck_assert_int_eq(json_integer_value(json_object_get(j, "missed")), 0);
    json_decref(j);
    char svg[16384];
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(svg, 1, sizeof svg - 1, f);
    fclose(f);
    svg[n] = '\0';
    ck_assert(strncmp(svg, "<svg ", 5) == 0 && strcmp(svg + n - 7, "</svg>\n") == 0);
    static const char *const said[] = {"computed",
                                       "from disk",
                                       "from RAM",
                                       "on the device",
                                       "prompt, tokens",
                                       ">639<",
                                       "prefers-color-scheme: dark"};
    for (size_t k = 0; k < sizeof said / sizeof *said; k++)
        ck_assert_msg(strstr(svg, said[k]) != NULL, "%s", said[k]);
    ck_assert(strstr(svg, "nan") == NULL && strstr(svg, "inf") == NULL);
    /* What cannot be measured leaves the picture that is there, and makes none. */
    command_run(&cli, "bench --tiers --quiet --svg %s --model %s/none 2>&1", path, folder);
    ck_assert(cli.code != 0 && access(path, F_OK) == 0 && unlink(path) == 0);
    command_run(&cli, "bench --tiers --quiet --svg %s --model %s/none 2>&1", path, folder);
    ck_assert(cli.code != 0 && access(path, F_OK) != 0);
    command_run(&cli, "bench --tiers --quiet --svg %s 2>&1", folder);
    ck_assert(cli.code == 74 && strstr(cli.text, "Is a directory") != NULL);
    ck_assert_int_eq(rmdir(folder), 0);
    command_run(&cli, "bench --svg /tmp/x 2>&1");
    ck_assert(cli.code != 0 && strstr(cli.text, "--tiers") != NULL);
}
END_TEST

START_TEST(cli_info_says_what_is_in_a_model) {
    command_run(&cli, "info --json");
    json_t *j = json_loads(cli.text, 0, NULL);
    ck_assert_ptr_nonnull(j);
    ck_assert_int_eq(json_integer_value(json_object_get(j, "parameters")), 5475584);
    ck_assert_str_eq(json_string_value(json_object_get(j, "family")), "llama");
    ck_assert_str_eq(json_string_value(json_object_get(j, "template")), "fable");
    ck_assert_uint_eq(json_array_size(json_object_get(j, "cannot")), 0);
    json_decref(j);
    command_run(&cli, "info --options");
    j = json_loads(cli.text, 0, NULL);
    ck_assert_uint_gt(json_array_size(j), 30);
    json_decref(j);
}
END_TEST

START_TEST(cli_show_says_that_all_equal_their_solo_runs) {
    command_run(&cli, "show --json --quiet");
    ck_assert_msg(cli.code == 0, "%s", cli.text);
    const char *array = strchr(cli.text, '[');
    ck_assert_ptr_nonnull(array);
    json_t *j = json_loads(array, 0, NULL);
    ck_assert_uint_eq(json_array_size(j), 12);
    size_t i;
    json_t *row;
    json_int_t resumed = 0;
    json_array_foreach(j, i, row) {
        ck_assert(json_is_true(json_object_get(row, "equal")));
        resumed += json_integer_value(json_object_get(row, "resumed"));
    }
    ck_assert_int_gt(resumed, 300);
    json_decref(j);
}
END_TEST

/* No file: the same seed makes the same tokens, another seed others; every figure is there. */
START_TEST(cli_bench_shape) {
    char tokens[3][32];
    for (int i = 0; i < 3; i++) {
        command_run(&cli,
                    "bench --shape fable-5m --seed %d --device cpu --context 96 --lanes 8 "
                    "--threads %d --seconds 1 --quiet --json -",
                    i / 2 + 4, 1 + i % 2);
        ck_assert_int_eq(cli.code, 0);
        json_t *j = json_loads(cli.text, 0, NULL);
        ck_assert_ptr_nonnull(j);
        snprintf(tokens[i], sizeof tokens[i], "%s",
                 json_string_value(json_object_get(j, "tokens")));
        json_t *mode = json_array_get(json_object_get(j, "modes"), 0);
        ck_assert_str_eq(json_string_value(json_object_get(mode, "graphs")), "off");
        ck_assert_uint_eq(json_array_size(json_object_get(mode, "cold")), 1);
        ck_assert_uint_eq(json_array_size(json_object_get(mode, "decode")), 2);
        json_t *row = json_array_get(json_object_get(mode, "decode"), 1);
        ck_assert_int_eq(json_integer_value(json_object_get(row, "lanes")), 8);
        ck_assert(json_real_value(json_object_get(row, "tok_s")) > 0);
        json_decref(j);
    }
    ck_assert_str_eq(tokens[0], tokens[1]);
    ck_assert_str_ne(tokens[0], tokens[2]);
    command_run(&cli, "bench --shape llama-9b 2>&1");
    ck_assert_ptr_nonnull(strstr(cli.text, "llama-8b"));
    ck_assert_int_eq(cli.code, 66);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cli");
    TCase *tc = tcase_create("cli");
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, cli_bad_words_get_one_clear_line, 0,
                        sizeof cli_bad / sizeof cli_bad[0]);
    tcase_add_test(tc, cli_bench_shape);
    tcase_add_test(tc, cli_gpu_profile_says_why_not);
    tcase_add_test(tc, cli_device_cache_is_a_share_of_the_memory);
    tcase_add_test(tc, cli_help_names_every_program);
    tcase_add_test(tc, cli_output_that_cannot_be_written_is_said);
    tcase_add_test(tc, cli_run_takes_text_files_and_standard_input_alike);
    tcase_add_test(tc, cli_run_json_is_one_line_a_session);
    tcase_add_test(tc, cli_bad_sessions_leave_the_good_ones_alone);
    tcase_add_test(tc, cli_prompt_longer_than_the_context_is_refused_before_work);
    tcase_add_test(tc, cli_chat_resumes_each_turn);
    tcase_add_test(tc, cli_bench_writes_its_json);
    tcase_add_test(tc, cli_bench_tiers);
    tcase_add_test(tc, cli_info_says_what_is_in_a_model);
    tcase_add_test(tc, cli_show_says_that_all_equal_their_solo_runs);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
