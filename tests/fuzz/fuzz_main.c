/* SPDX-License-Identifier: Apache-2.0
 * Runs a fuzz target (LLVMFuzzerTestOneInput) without a fuzzer: over the files and folders of the
 * arguments, or over tests/fuzz/corpus/NAME when the program is fuzz_NAME; then over seeded
 * mutations of them. With a fuzzer this file is left out:
 *   clang -fsanitize=fuzzer,address,undefined ... tests/fuzz/fuzz_NAME.c and the libraries
 *   afl-clang-fast -fsanitize=fuzzer ... likewise
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "actors/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MUTATIONS = 300, PATH_BYTES = 4096 };

static unsigned long files_run;

static uint64_t next_random(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* An input in memory of exactly its size, so that a sanitizer sees one byte too many. */
static void run_one(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size > 0 ? size : 1);
    CHECK(exact != NULL);
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

/* Bytes changed, doubled, taken out, or the rest cut off. */
static size_t mutate(uint8_t *data, size_t size, uint64_t *random) {
    static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, '0', '9', '"', '{', '[', ',', ':', '\\'};
    unsigned changes = 1 + (unsigned)(next_random(random) % 4);
    for (unsigned i = 0; i < changes; i++) {
        if (size == 0)
            break;
        size_t at = (size_t)(next_random(random) % size);
        switch (next_random(random) % 5) {
        case 0:
            data[at] ^= (uint8_t)(1U << next_random(random) % 8);
            break;
        case 1:
            data[at] = odd[next_random(random) % sizeof odd];
            break;
        case 2:
            memmove(data + at, data + at + 1, size - at - 1);
            size--;
            break;
        case 3: /* the caller keeps room for this */
            memmove(data + at + 1, data + at, size - at);
            size++;
            break;
        default:
            size = next_random(random) % 8 == 0 ? at : size;
        }
    }
    return size;
}

static void run_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(EXIT_FAILURE);
    }
    fseek(f, 0, SEEK_END);
    long end = ftell(f);
    CHECK(end >= 0);
    size_t size = (size_t)end;
    rewind(f);
    uint8_t *data = malloc(size + 8), *changed = malloc(size + 8);
    CHECK(data != NULL && changed != NULL);
    CHECK(fread(data, 1, size, f) == size);
    fclose(f);
    run_one(data, size);
    files_run++;
    uint64_t random = size;
    for (size_t i = 0; i < size; i++)
        random = random * 31 + data[i];
    for (int i = 0; i < MUTATIONS; i++) {
        memcpy(changed, data, size);
        run_one(changed, mutate(changed, size, &random));
    }
    free(data);
    free(changed);
}

static void run_path(const char *path) {
    struct dirent **entries = NULL;
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        run_file(path);
        return;
    }
    int n = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char inner[PATH_BYTES];
        snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            run_path(inner);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        run_path(argv[i]);
    if (argc == 1) {
        char path[PATH_BYTES];
        const char *dir = getenv("RH_SRCDIR");
        const char *name = strrchr(argv[0], '/');
        name = strstr(name != NULL ? name : argv[0], "fuzz_");
        CHECK(name != NULL);
        snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", dir != NULL ? dir : ".", name + 5);
        run_path(path);
    }
    printf("checks: %lu passed, 0 failed, 0 skipped\n", files_run);
    return files_run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
