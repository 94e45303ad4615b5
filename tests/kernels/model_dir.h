/* SPDX-License-Identifier: Apache-2.0
 * A model directory that a test spoils: written whole by krn_model_save, then changed in one place.
 * Opening it must fail with the expected status and words and leave nothing behind.
 */
#ifndef TESTS_KERNELS_MODEL_DIR_H
#define TESTS_KERNELS_MODEL_DIR_H

#include "tests/harness.h"

#include <dirent.h>
#include <stdint.h>
#include <string.h>

#include "kernels/families/family.h"
#include "tests/kernels/scratch_dir.h"

enum { MODEL_DIR_WORDS = 4 };

static struct status_note note;

#define OK(expr) ck_assert_msg((expr) == STATUS_OK, "%s", note.text)

static inline struct krn_config small_config(void) {
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

static inline void join(char *path, const char *dir, const char *name) {
    snprintf(path, 512, "%s/%s", dir, name);
}

static inline void write_file(const char *dir, const char *name, const void *bytes, size_t n) {
    char path[512];
    join(path, dir, name);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

/* The caller frees it; *n may be NULL. Terminated. */
static inline char *read_file(const char *dir, const char *name, size_t *n) {
    char path[512];
    join(path, dir, name);
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    char *bytes = malloc(1 << 20);
    ck_assert_ptr_nonnull(bytes);
    size_t size = fread(bytes, 1, (1 << 20) - 1, f);
    bytes[size] = '\0';
    fclose(f);
    if (n != NULL)
        *n = size;
    return bytes;
}

/* A valid directory of a small model. */
static inline void make_model_dir(char *dir, uint32_t shards) {
    struct krn_config c = small_config();
    struct krn_model *m = NULL;
    scratch_make(dir);
    OK(krn_model_synthetic(&c, KRN_F16, 11, &m, &note));
    OK(krn_model_save(m, dir, shards, &note));
    krn_model_close(m);
}

/* Mappings of files below dir. */
static inline int mappings_of(const char *dir) {
    char line[1024];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f) != NULL)
        n += dir[0] != '\0' && strstr(line, dir) != NULL;
    fclose(f);
    return n;
}

static inline int open_files(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(d);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

static inline void check_line(const char *const *words, const char *what) {
    ck_assert_msg(strchr(note.text, '\n') == NULL, "%s: not one line: %s", what, note.text);
    for (const unsigned char *c = (const unsigned char *)note.text; *c != '\0'; c++)
        ck_assert_msg(*c >= 0x20, "%s: a control character in: %s", what, note.text);
    for (int i = 0; i < MODEL_DIR_WORDS && words[i] != NULL; i++)
        ck_assert_msg(strstr(note.text, words[i]) != NULL, "%s: no \"%s\" in: %s", what, words[i],
                      note.text);
}

/* Opening fails as expected and leaves nothing behind. */
static inline void check_refused(const char *dir, enum status expected, const char *const *words,
                                 const char *what) {
    struct krn_model *const untouched = (struct krn_model *)(void *)&note;
    struct krn_model *m = untouched;
    int before = open_files();
    memset(&note, 0, sizeof note);
    enum status s = krn_model_open(dir, &m, &note);
    ck_assert_msg(s == expected, "%s: status %s, expected %s: %s", what, status_name(s),
                  status_name(expected), note.text);
    ck_assert_ptr_eq(m, untouched);
    ck_assert_int_eq(mappings_of(dir), 0);
    ck_assert_int_eq(open_files(), before);
    check_line(words, what);
}

#endif
