/* SPDX-License-Identifier: Apache-2.0
 * Prints the golden digests that each table of this machine gives: "table function digest" a line.
 * Built by clang_golden.sh with several compilers; `golden_print best` writes the lines of
 * tests/golden/rowfn.txt, `golden_print bf16` the digest of each form of amx-bf16's products.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/q8_entries.h"
#include "kernels/selftest.h"
#include "tests/kernels/kit.h"

/* In place of actors/check.c, which knows the actors: this program is row functions alone. */
_Noreturn void check_failed(const char *file, int line, const char *cond) {
    fprintf(stderr, "%s:%d: %s does not hold\n", file, line, cond);
    abort();
}

static void print(const struct krn_rowfn *fn, bool named, void *memory) {
    unsigned n;
    const struct krn_golden *golden = krn_golden_all(&n);
    for (unsigned i = 0; i < n; i++) {
        if (named)
            printf("%s ", fn->isa);
        printf("%s %016" PRIx64 "\n", golden[i].name, krn_golden_run(fn, i, memory));
    }
}

static void print_bf16(void) {
    static const char *const names[] = {"scalar", "avx2", "avx512", "amx", "neon"};
    void *memory = kit_alloc(krn_bf16_golden_bytes());
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (krn_bf16_named(names[i]) != NULL)
            printf("%s %016" PRIx64 "\n", names[i],
                   krn_bf16_golden_run(krn_bf16_named(names[i]), memory));
    free(memory);
}

static void print_q8(void) {
    void *memory = kit_alloc(krn_q8_golden_bytes());
    for (unsigned i = 0; krn_q8_at(i) != NULL; i++)
        printf("%s %016" PRIx64 "\n", krn_q8_at(i)->isa, krn_q8_golden_run(krn_q8_at(i), memory));
    free(memory);
}

int main(int argc, char **argv) {
    const struct krn_rowfn *table[4];
    unsigned n_tables = kit_tables(table);
    void *memory = kit_alloc(krn_golden_bytes());
    if (argc == 2 && strcmp(argv[1], "best") == 0) {
        print(table[n_tables - 1], false, memory);
    } else if (argc == 2 && strcmp(argv[1], "bf16") == 0) {
        print_bf16();
    } else if (argc == 2 && strcmp(argv[1], "q8") == 0) {
        print_q8();
    } else {
        for (unsigned t = 0; t < n_tables; t++)
            print(table[t], true, memory);
    }
    free(memory);
    return 0;
}
