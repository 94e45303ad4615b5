/* SPDX-License-Identifier: Apache-2.0
 * Checked parsing of a safetensors header. Every sum and product is overflow-checked, nothing is
 * read before its bounds are known, and each refusal names file, tensor and value.
 */
#include "kernels/weights/safetensors.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/weights/json.h"

static const struct {
    const char *word;
    uint32_t bits;
    int type; /* enum krn_dtype, or -1: known and not usable */
} dtypes[] = {
    {"F32", 32, KRN_F32}, {"F16", 16, KRN_F16}, {"BF16", 16, KRN_BF16}, {"F64", 64, -1},
    {"C64", 64, -1},      {"BOOL", 8, -1},      {"U8", 8, -1},          {"I8", 8, -1},
    {"F8_E4M3", 8, -1},   {"F8_E5M2", 8, -1},   {"F8_E8M0", 8, -1},     {"F6_E2M3", 6, -1},
    {"F6_E3M2", 6, -1},   {"F4", 4, -1},        {"U16", 16, -1},        {"I16", 16, -1},
    {"U32", 32, -1},      {"I32", 32, -1},      {"U64", 64, -1},        {"I64", 64, -1},
};

uint32_t krn_dtype_bytes(enum krn_dtype type) {
    return type == KRN_F32 ? 4 : 2;
}

const char *krn_dtype_word(enum krn_dtype type) {
    CHECK((unsigned)type < KRN_DTYPES);
    return dtypes[type].word; /* the table begins with the usable types in their order */
}

struct parse {
    const char *file;
    uint64_t data_start, data_bytes;
    struct status_note *note;
};

__attribute__((format(printf, 3, 4))) static enum status
tensor_fault(const struct parse *p, const char *name, const char *format, ...) {
    char quoted[KRN_QUOTE_BYTES];
    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return status_say(p->note, STATUS_BAD_FILE, "%s: tensor %s: %s", p->file,
                      krn_quote(quoted, name), text);
}

static bool number_u64(const json_t *value, uint64_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static enum status entry_dtype(const struct parse *p, const char *name, const json_t *value,
                               struct krn_entry *e, uint32_t *bits) {
    if (!json_is_string(value))
        return tensor_fault(p, name, "dtype is %s", value == NULL ? "missing" : "not a string");
    const char *word = json_string_value(value);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(dtypes[i].word, word) != 0)
            continue;
        e->dtype = dtypes[i].word;
        e->usable = dtypes[i].type >= 0;
        e->type = e->usable ? (enum krn_dtype)dtypes[i].type : KRN_F32;
        *bits = dtypes[i].bits;
        return STATUS_OK;
    }
    char quoted[KRN_QUOTE_BYTES];
    return tensor_fault(p, name, "unknown dtype \"%s\"", krn_quote(quoted, word));
}

/* Reads the shape and gives the bytes that it asks for. */
static enum status entry_shape(const struct parse *p, const char *name, const json_t *value,
                               uint32_t bits, struct krn_entry *e, uint64_t *bytes) {
    if (!json_is_array(value))
        return tensor_fault(p, name, "shape is %s", value == NULL ? "missing" : "not a list");
    uint64_t elements = 1;
    size_t n = json_array_size(value);
    for (size_t i = 0; i < n; i++) {
        uint64_t dim;
        if (!number_u64(json_array_get(value, i), &dim))
            return tensor_fault(p, name, "dimension %zu of its shape is not a whole number", i);
        if (__builtin_mul_overflow(elements, dim, &elements))
            return tensor_fault(p, name, "its shape overflows at dimension %zu (%" PRIu64 ")", i,
                                dim);
        if (i < KRN_DIMS_MAX)
            e->dims[i] = dim;
    }
    uint64_t total_bits;
    if (__builtin_mul_overflow(elements, (uint64_t)bits, &total_bits))
        return tensor_fault(p, name, "%" PRIu64 " elements of %s overflow", elements, e->dtype);
    if (total_bits % 8 != 0)
        return tensor_fault(p, name, "%" PRIu64 " elements of %s are not whole bytes", elements,
                            e->dtype);
    e->n_dims = (uint32_t)n;
    e->usable = e->usable && n >= 1 && n <= KRN_DIMS_MAX;
    *bytes = total_bits / 8;
    return STATUS_OK;
}

static enum status entry_offsets(const struct parse *p, const char *name, const json_t *value,
                                 uint64_t bytes, struct krn_entry *e) {
    uint64_t begin, end;
    if (!json_is_array(value) || json_array_size(value) != 2)
        return tensor_fault(p, name, "data_offsets is %s",
                            value == NULL ? "missing" : "not a list of two");
    if (!number_u64(json_array_get(value, 0), &begin) ||
        !number_u64(json_array_get(value, 1), &end))
        return tensor_fault(p, name, "data_offsets holds something else than whole numbers");
    if (begin > end)
        return tensor_fault(p, name, "data_offsets %" PRIu64 " to %" PRIu64 " run backwards", begin,
                            end);
    if (end > p->data_bytes)
        return tensor_fault(p, name, "data_offsets end at %" PRIu64 " of %" PRIu64 " data bytes",
                            end, p->data_bytes);
    if (end - begin != bytes)
        return tensor_fault(p, name,
                            "its shape takes %" PRIu64 " bytes of %s, data_offsets hold %" PRIu64,
                            bytes, e->dtype, end - begin);
    e->offset = p->data_start + begin; /* at most the file's size */
    e->bytes = bytes;
    return STATUS_OK;
}

static enum status entry_parse(const struct parse *p, const char *name, const json_t *value,
                               struct krn_entry *e) {
    uint32_t bits = 0;
    uint64_t bytes = 0;
    if (name[0] == '\0')
        return tensor_fault(p, name, "its name is empty");
    if (strlen(name) > KRN_NAME_MAX)
        return tensor_fault(p, name, "its name has %zu bytes, at most %d are allowed", strlen(name),
                            KRN_NAME_MAX);
    if (!json_is_object(value))
        return tensor_fault(p, name, "its entry is not an object");
    const char *key;
    json_t *field;
    json_object_foreach((json_t *)(uintptr_t)value, key, field) {
        char quoted[KRN_QUOTE_BYTES];
        if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 &&
            strcmp(key, "data_offsets") != 0)
            return tensor_fault(p, name, "unknown field \"%s\"", krn_quote(quoted, key));
    }
    TRY(entry_dtype(p, name, json_object_get(value, "dtype"), e, &bits));
    TRY(entry_shape(p, name, json_object_get(value, "shape"), bits, e, &bytes));
    return entry_offsets(p, name, json_object_get(value, "data_offsets"), bytes, e);
}

static enum status metadata_check(const struct parse *p, const json_t *value) {
    if (!json_is_object(value))
        return status_say(p->note, STATUS_BAD_FILE, "%s: __metadata__ is not an object", p->file);
    const char *key;
    json_t *text;
    json_object_foreach((json_t *)(uintptr_t)value, key, text) {
        char quoted[KRN_QUOTE_BYTES];
        if (!json_is_string(text))
            return status_say(p->note, STATUS_BAD_FILE, "%s: __metadata__ field %s is not a string",
                              p->file, krn_quote(quoted, key));
    }
    return STATUS_OK;
}

/* Data order; an empty tensor goes before a full one that starts at the same byte. */
static int entry_order(const void *a, const void *b) {
    const struct krn_entry *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* No overlap, no hole, nothing left at the end. */
static enum status coverage_check(const struct parse *p, const struct krn_table *table) {
    uint64_t expected = p->data_start;
    for (uint32_t i = 0; i < table->n; i++) {
        const struct krn_entry *e = &table->entries[i];
        char before[KRN_QUOTE_BYTES];
        if (e->offset < expected)
            return tensor_fault(p, e->name, "its data overlaps the data of %s",
                                krn_quote(before, table->entries[i - 1].name));
        if (e->offset > expected)
            return tensor_fault(p, e->name, "%" PRIu64 " bytes before its data belong to no tensor",
                                e->offset - expected);
        expected += e->bytes;
    }
    uint64_t end = p->data_start + p->data_bytes;
    if (expected == end)
        return STATUS_OK;
    if (table->n == 0)
        return status_say(p->note, STATUS_BAD_FILE, "%s: no tensors for %" PRIu64 " data bytes",
                          p->file, end - expected);
    return tensor_fault(p, table->entries[table->n - 1].name,
                        "%" PRIu64 " bytes after its data belong to no tensor", end - expected);
}

static enum status table_fill(const struct parse *p, const json_t *root, struct krn_table *table) {
    const char *key;
    json_t *value;
    size_t name_bytes = 0, n = 0;
    json_object_foreach((json_t *)(uintptr_t)root, key, value) {
        name_bytes += strlen(key) + 1; /* all of them fit in the header */
        n++;
    }
    if (n > KRN_TENSORS_MAX)
        return status_say(p->note, STATUS_BAD_FILE, "%s: %zu tensors, at most %d are allowed",
                          p->file, n, KRN_TENSORS_MAX);
    table->entries = calloc(n + 1, sizeof *table->entries);
    table->names = malloc(name_bytes + 1);
    if (table->entries == NULL || table->names == NULL)
        return status_say(p->note, STATUS_NO_MEMORY, "%s: no memory for %zu tensor names", p->file,
                          n);
    char *name = table->names;
    json_object_foreach((json_t *)(uintptr_t)root, key, value) {
        if (strcmp(key, "__metadata__") == 0) {
            TRY(metadata_check(p, value));
            continue;
        }
        struct krn_entry *e = &table->entries[table->n];
        TRY(entry_parse(p, key, value, e));
        size_t bytes = strlen(key) + 1;
        memcpy(name, key, bytes);
        e->name = name;
        name += bytes;
        table->n++;
    }
    if (table->n > 1)
        qsort(table->entries, table->n, sizeof *table->entries, entry_order);
    return coverage_check(p, table);
}

enum status krn_table_parse(const char *file, const unsigned char *bytes, uint64_t size,
                            struct krn_table *out, struct status_note *note) {
    *out = (struct krn_table){0};
    if (size < 8)
        return status_say(note, STATUS_BAD_FILE,
                          "%s: %" PRIu64 " bytes are too few for a safetensors file", file, size);
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--)
        header = header << 8 | bytes[i];
    if (header > KRN_HEADER_MAX)
        return status_say(note, STATUS_BAD_FILE,
                          "%s: header length %" PRIu64 " is over the format's limit of %d", file,
                          header, KRN_HEADER_MAX);
    if (header > size - 8)
        return status_say(note, STATUS_BAD_FILE,
                          "%s: header length %" PRIu64 " is beyond the file's %" PRIu64 " bytes",
                          file, header, size);
    if (header == 0 || bytes[8] != '{')
        return status_say(note, STATUS_BAD_FILE, "%s: the header does not begin with {", file);
    struct parse p = {
        .file = file, .data_start = 8 + header, .data_bytes = size - 8 - header, .note = note};
    json_t *root;
    TRY(krn_json_object(file, bytes + 8, (size_t)header, &root, note));
    enum status status = table_fill(&p, root, out);
    json_decref(root);
    if (status != STATUS_OK)
        krn_table_free(out);
    return status;
}

void krn_table_free(struct krn_table *table) {
    free(table->entries);
    free(table->names);
    *table = (struct krn_table){0};
}
