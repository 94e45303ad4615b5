/* SPDX-License-Identifier: Apache-2.0
 * Every allocation of opening, making, building and saving fails once: the answer is NO_MEMORY in
 * one line, nothing stays allocated or mapped, and what was saved before the fault is never taken
 * for a whole model with other weights.
 */
#include "tests/kernels/model_dir.h"

#include <jansson.h>

#include "tests/kernels/gguf_make.h"

/* The linker sends the library's calls here (--wrap); libc's own are not counted. */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t align, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t n);
void __wrap_free(void *p);

static long calls, fail_at = -1, live;

static bool fails(void) {
    return calls++ == fail_at;
}

static void *counted(void *p) {
    live += p != NULL;
    return p;
}

void *__wrap_malloc(size_t n) {
    return fails() ? NULL : counted(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size) {
    return fails() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_aligned_alloc(size_t align, size_t n) {
    return fails() ? NULL : counted(__real_aligned_alloc(align, n));
}

void __wrap_free(void *p) {
    live -= p != NULL;
    __real_free(p);
}

enum step { OPEN, OPEN_GGUF, SYNTHETIC, BUILD, SAVE, STEPS };

static char dir[64], saved[64], gguf[512];
static struct krn_model *given;

/* Nothing of Check in here: it allocates too, and is counted like everybody. */
static enum status run(enum step step, bool *made) {
    struct krn_config c = small_config();
    struct krn_model *m = NULL;
    struct krn_net net = {0};
    enum status s;
    switch (step) {
    case OPEN:
        s = krn_model_open(dir, &m, &note);
        break;
    case OPEN_GGUF:
        s = krn_model_open(gguf, &m, &note);
        break;
    case SYNTHETIC:
        s = krn_model_synthetic(&c, KRN_F16, 2, &m, &note);
        break;
    case BUILD:
        s = krn_net_build(given, &net, &note);
        break;
    default:
        s = krn_model_save(given, saved, 2, &note);
        break;
    }
    *made = step == SAVE ? s == STATUS_OK : m != NULL || net.ops != NULL;
    krn_net_free(&net);
    krn_model_close(m);
    return s;
}

/* What a save left is the whole model, or is refused; after a success it is the model. */
static void check_saved(enum status s) {
    struct krn_model *m = NULL;
    enum status opened = krn_model_open(saved, &m, &note);
    ck_assert(s != STATUS_OK || opened == STATUS_OK);
    if (opened == STATUS_OK)
        ck_assert_mem_eq(m->fingerprint, given->fingerprint, sizeof m->fingerprint);
    krn_model_close(m);
    scratch_remove(saved);
}

static void write_gguf(void) {
    struct gguf_make make;
    size_t n;
    gguf_begin(&make, 3, 1); /* misaligned tensors are copied */
    gguf_key_text(&make, "general.name", "x");
    gguf_model_keys(&make, &given->config);
    gguf_model_tensors(&make, given, KRN_F16, true);
    unsigned char *bytes = gguf_end(&make, &n);
    write_file(dir, "model.gguf", bytes, n);
    free(bytes);
    join(gguf, dir, "model.gguf");
}

START_TEST(test_each_allocation) {
    const enum step step = (enum step)_i;
    bool last = false;
    long n = 0;
    /* The parser's own allocations are left out: a starved jansson drops bytes of a text unseen. */
    if (step == SAVE)
        json_set_alloc_funcs(__wrap_malloc, __wrap_free);
    else
        json_set_alloc_funcs(__real_malloc, __real_free);
    make_model_dir(dir, 2);
    OK(krn_model_open(dir, &given, &note));
    write_gguf();
    snprintf(saved, sizeof saved, "%s", dir);
    saved[strlen(saved) - 1] = '+';
    for (; !last; n++) {
        int mapped = mappings_of(dir), files = open_files();
        bool made = false;
        memset(&note, 0, sizeof note);
        long before = live;
        calls = 0;
        fail_at = n;
        enum status s = run(step, &made);
        fail_at = -1;
        long stay = live - before, asked = calls;
        ck_assert_msg(s == STATUS_OK || s == STATUS_NO_MEMORY, "allocation %ld: %s: %s", n,
                      status_name(s), note.text);
        if (s != STATUS_OK)
            check_line((const char *[MODEL_DIR_WORDS]){"no memory"}, "note");
        ck_assert_msg(stay == 0, "allocation %ld: %ld stay allocated", n, stay);
        ck_assert_int_eq(made, s == STATUS_OK);
        ck_assert_msg(s != STATUS_OK || asked == n, "allocation %ld: its fault went unnoticed", n);
        last = asked <= n;
        ck_assert_int_eq(mappings_of(dir), mapped);
        ck_assert_int_eq(open_files(), files);
        if (step == SAVE)
            check_saved(s);
    }
    printf("%d: %ld allocations\n", (int)step, n - 1);
    krn_model_close(given);
    scratch_remove(dir);
}
END_TEST

int main(void) {
    Suite *s = suite_create("weights_memory");
    TCase *t = tcase_create("memory");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_each_allocation, 0, STEPS);
    suite_add_tcase(s, t);
    return test_run(s);
}
