/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: any bytes as a safetensors file. What is accepted must be sound to the last byte,
 * what is refused must say one line.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/weights/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_accepted(const uint8_t *data, size_t size, const struct krn_table *t) {
    uint64_t at = 8;
    for (int i = 0; i < 8; i++)
        at += (uint64_t)data[i] << (8 * i);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct krn_entry *e = &t->entries[i];
        CHECK(e->offset == at && e->bytes <= size - at);
        CHECK(e->name[0] != '\0' && strlen(e->name) <= KRN_NAME_MAX);
        uint64_t sum = 0; /* reads every byte, for a sanitizer to see */
        for (uint64_t b = 0; b < e->bytes; b++)
            sum += data[e->offset + b];
        CHECK(sum <= 255 * e->bytes);
        at += e->bytes;
        if (!e->usable)
            continue;
        uint64_t bytes = krn_dtype_bytes(e->type);
        CHECK(e->n_dims >= 1 && e->n_dims <= KRN_DIMS_MAX);
        CHECK(strcmp(e->dtype, krn_dtype_word(e->type)) == 0);
        for (uint32_t d = 0; d < e->n_dims; d++)
            bytes *= e->dims[d];
        CHECK(bytes == e->bytes);
    }
    CHECK(at == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct krn_table table;
    struct status_note note = {""};
    if (krn_table_parse("f", data, size, &table, &note) == STATUS_OK) {
        check_accepted(data, size, &table);
        krn_table_free(&table);
        return 0;
    }
    CHECK(table.n == 0 && table.entries == NULL && table.names == NULL);
    CHECK(strncmp(note.text, "f: ", 3) == 0);
    for (const unsigned char *c = (const unsigned char *)note.text; *c != '\0'; c++)
        CHECK(*c >= 0x20 && *c < 0x7f);
    return 0;
}
