/* SPDX-License-Identifier: Apache-2.0
 * Checked parsing of a GGUF file's table. Every count is compared with what the rest of the file
 * can hold before anything is allocated or multiplied, and each refusal names file, key or tensor,
 * and value.
 */
#include "kernels/weights/gguf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/quant/quant.h"
#include "kernels/weights/json.h"

enum {
    KEY_BYTES_MIN = 8 + 1 + 4 + 1,           /* length, one byte, type, value */
    TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 4 + 8 /* length, one byte, rank, dimension, type, offset */
};

/* Tensor types by their number in the file; type -1: known and not usable. */
static const struct {
    const char *word; /* NULL: no such number */
    uint32_t block, bytes;
    int type;
} types[] = {
    [0] = {"F32", 1, 4, KRN_F32},
    [1] = {"F16", 1, 2, KRN_F16},
    [2] = {"Q4_0", 32, 18, KRN_Q4_0},
    [3] = {"Q4_1", 32, 20, KRN_Q4_1},
    [6] = {"Q5_0", 32, 22, KRN_Q5_0},
    [7] = {"Q5_1", 32, 24, KRN_Q5_1},
    [8] = {"Q8_0", 32, 34, KRN_Q8_0},
    [9] = {"Q8_1", 32, 36, -1},
    [10] = {"Q2_K", 256, 84, -1},
    [11] = {"Q3_K", 256, 110, -1},
    [12] = {"Q4_K", 256, 144, KRN_Q4_K},
    [13] = {"Q5_K", 256, 176, KRN_Q5_K},
    [14] = {"Q6_K", 256, 210, KRN_Q6_K},
    [15] = {"Q8_K", 256, 292, -1},
    [16] = {"IQ2_XXS", 256, 66, -1},
    [17] = {"IQ2_XS", 256, 74, -1},
    [18] = {"IQ3_XXS", 256, 98, -1},
    [19] = {"IQ1_S", 256, 50, -1},
    [20] = {"IQ4_NL", 32, 18, KRN_IQ4_NL},
    [21] = {"IQ3_S", 256, 110, -1},
    [22] = {"IQ2_S", 256, 82, -1},
    [23] = {"IQ4_XS", 256, 136, -1},
    [24] = {"I8", 1, 1, -1},
    [25] = {"I16", 1, 2, -1},
    [26] = {"I32", 1, 4, -1},
    [27] = {"I64", 1, 8, -1},
    [28] = {"F64", 1, 8, -1},
    [29] = {"IQ1_M", 256, 56, -1},
    [30] = {"BF16", 1, 2, KRN_BF16},
    [34] = {"TQ1_0", 256, 54, -1},
    [35] = {"TQ2_0", 256, 66, -1},
    [39] = {"MXFP4", 32, 17, -1},
};

/* Bytes of a value or list element; 0 for text and lists. */
static const uint8_t value_bytes[KRN_GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct parse {
    struct krn_gguf *g;
    uint64_t at;
    struct status_note *note;
    char word[KRN_QUOTE_BYTES]; /* the key or tensor at hand, quoted */
};

static uint64_t left(const struct parse *p) {
    return p->g->size - p->at;
}

static uint64_t little(const unsigned char *at, unsigned n) {
    uint64_t value = 0;
    for (unsigned i = n; i > 0; i--)
        value = value << 8 | at[i - 1];
    return value;
}

static bool take(struct parse *p, unsigned n, uint64_t *out) {
    if (left(p) < n)
        return false;
    *out = little(p->g->bytes + p->at, n);
    p->at += n;
    return true;
}

/* kind: "key" or "tensor". */
__attribute__((format(printf, 3, 4))) static enum status
fault(const struct parse *p, const char *kind, const char *format, ...) {
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return status_say(p->note, STATUS_BAD_FILE, "%s: %s %s: %s", p->g->file, kind, p->word, text);
}

static void quote(char out[KRN_QUOTE_BYTES], const unsigned char *text, uint64_t n) {
    char copy[KRN_QUOTE_BYTES];
    size_t bytes = n < sizeof copy - 1 ? (size_t)n : sizeof copy - 1;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    krn_quote(out, copy);
}

/* The name of the index-th key or tensor: at most max bytes, no zero among them. */
static enum status take_name(struct parse *p, const char *kind, uint64_t index, uint64_t max,
                             const unsigned char **name, uint64_t *bytes) {
    snprintf(p->word, sizeof p->word, "%" PRIu64, index);
    if (!take(p, 8, bytes))
        return fault(p, kind, "the file ends before its name");
    if (*bytes == 0)
        return fault(p, kind, "its name is empty");
    if (*bytes > max)
        return fault(p, kind, "its name has %" PRIu64 " bytes, at most %" PRIu64 " are allowed",
                     *bytes, max);
    if (*bytes > left(p))
        return fault(p, kind, "its name of %" PRIu64 " bytes ends beyond the file", *bytes);
    *name = p->g->bytes + p->at;
    if (memchr(*name, 0, (size_t)*bytes) != NULL)
        return fault(p, kind, "its name holds a zero byte");
    p->at += *bytes;
    quote(p->word, *name, *bytes);
    return STATUS_OK;
}

static enum status skip_text(struct parse *p, uint64_t *bytes) {
    if (!take(p, 8, bytes))
        return fault(p, "key", "the file ends before its text");
    if (*bytes > left(p))
        return fault(p, "key", "a text of %" PRIu64 " bytes ends beyond the file", *bytes);
    p->at += *bytes;
    return STATUS_OK;
}

static enum status take_list(struct parse *p, struct krn_gguf_value *v) {
    uint64_t element;
    if (!take(p, 4, &element) || !take(p, 8, &v->count))
        return fault(p, "key", "the file ends before its list");
    if (element >= KRN_GGUF_TYPES)
        return fault(p, "key", "its list holds values of unknown type %" PRIu64, element);
    if (element == KRN_GGUF_LIST)
        return fault(p, "key", "a list of lists, which the format does not define");
    v->element = (enum krn_gguf_type)element;
    v->at = p->g->bytes + p->at;
    uint64_t least = element == KRN_GGUF_TEXT ? 8 : value_bytes[element];
    if (v->count > left(p) / least)
        return fault(p, "key", "its list of %" PRIu64 " elements ends beyond the file", v->count);
    if (element != KRN_GGUF_TEXT) {
        p->at += v->count * least;
        return STATUS_OK;
    }
    for (uint64_t i = 0; i < v->count; i++) {
        uint64_t bytes;
        TRY(skip_text(p, &bytes));
    }
    return STATUS_OK;
}

static enum status take_value(struct parse *p, struct krn_gguf_value *v) {
    uint64_t type;
    if (!take(p, 4, &type))
        return fault(p, "key", "the file ends before its type");
    if (type >= KRN_GGUF_TYPES)
        return fault(p, "key", "its value has the unknown type %" PRIu64, type);
    v->type = (enum krn_gguf_type)type;
    v->count = 1;
    if (type == KRN_GGUF_LIST)
        return take_list(p, v);
    if (type == KRN_GGUF_TEXT) {
        TRY(skip_text(p, &v->count));
        v->at = p->g->bytes + p->at - v->count;
        return STATUS_OK;
    }
    v->at = p->g->bytes + p->at;
    if (left(p) < value_bytes[type])
        return fault(p, "key", "the file ends before its value");
    p->at += value_bytes[type];
    if (type == KRN_GGUF_BOOL && v->at[0] > 1)
        return fault(p, "key", "its truth value is %u, neither 0 nor 1", v->at[0]);
    return STATUS_OK;
}

static int name_order(const unsigned char *a, uint64_t an, const unsigned char *b, uint64_t bn) {
    int order = memcmp(a, b, (size_t)(an < bn ? an : bn));
    return order != 0 ? order : (an > bn) - (an < bn);
}

static int value_order(const void *a, const void *b) {
    const struct krn_gguf_value *x = a, *y = b;
    return name_order(x->key, x->key_bytes, y->key, y->key_bytes);
}

static enum status take_keys(struct parse *p, uint64_t n) {
    struct krn_gguf *g = p->g;
    if (n > KRN_GGUF_KEYS_MAX || n > left(p) / KEY_BYTES_MIN)
        return status_say(p->note, STATUS_BAD_FILE,
                          "%s: %" PRIu64 " keys, more than its %" PRIu64
                          " bytes or the limit of %d allow",
                          g->file, n, g->size, KRN_GGUF_KEYS_MAX);
    g->values = calloc((size_t)n + 1, sizeof *g->values);
    if (g->values == NULL)
        return status_say(p->note, STATUS_NO_MEMORY, "%s: no memory for %" PRIu64 " keys", g->file,
                          n);
    for (uint64_t i = 0; i < n; i++) {
        struct krn_gguf_value *v = &g->values[i];
        TRY(take_name(p, "key", i, KRN_GGUF_KEY_MAX, &v->key, &v->key_bytes));
        TRY(take_value(p, v));
        g->n_values++;
    }
    qsort(g->values, g->n_values, sizeof *g->values, value_order);
    for (uint32_t i = 1; i < g->n_values; i++) {
        if (value_order(&g->values[i - 1], &g->values[i]) == 0) {
            quote(p->word, g->values[i].key, g->values[i].key_bytes);
            return fault(p, "key", "it occurs twice");
        }
    }
    return STATUS_OK;
}

static enum status take_alignment(struct parse *p) {
    struct krn_gguf *g = p->g;
    const struct krn_gguf_value *v = krn_gguf_find(g, "general.alignment");
    g->alignment = KRN_GGUF_ALIGNMENT;
    if (v == NULL)
        return STATUS_OK;
    snprintf(p->word, sizeof p->word, "general.alignment");
    if (v->type != KRN_GGUF_U32)
        return fault(p, "key", "its value is not of type u32");
    g->alignment = little(v->at, 4);
    if (g->alignment == 0 || (g->alignment & (g->alignment - 1)) != 0)
        return fault(p, "key", "%" PRIu64 " is not a power of two", g->alignment);
    return STATUS_OK;
}

/* Shape, and with it the bytes that the tensor asks for. */
static enum status take_shape(struct parse *p, struct krn_entry *e) {
    uint64_t n, dim, elements = 1, type;
    if (!take(p, 4, &n))
        return fault(p, "tensor", "the file ends before its shape");
    if (n < 1 || n > KRN_DIMS_MAX)
        return fault(p, "tensor", "it has %" PRIu64 " dimensions, 1 to %d are allowed", n,
                     KRN_DIMS_MAX);
    e->n_dims = (uint32_t)n;
    for (uint64_t i = 0; i < n; i++) { /* innermost first in the file */
        if (!take(p, 8, &dim))
            return fault(p, "tensor", "the file ends before its shape");
        if (dim == 0)
            return fault(p, "tensor", "dimension %" PRIu64 " is zero", i);
        if (__builtin_mul_overflow(elements, dim, &elements))
            return fault(p, "tensor", "its shape overflows at dimension %" PRIu64 " (%" PRIu64 ")",
                         i, dim);
        e->dims[n - 1 - i] = dim;
    }
    if (!take(p, 4, &type))
        return fault(p, "tensor", "the file ends before its type");
    if (type >= sizeof types / sizeof types[0] || types[type].word == NULL)
        return fault(p, "tensor", "its type %" PRIu64 " is unknown", type);
    uint64_t inner = e->dims[n - 1];
    e->dtype = types[type].word;
    /* vectors stay plain: no row function reads blocks of them */
    e->usable = types[type].type >= 0 && (n > 1 || types[type].block == 1);
    e->type = e->usable ? (enum krn_dtype)types[type].type : KRN_F32;
    if (inner % types[type].block != 0)
        return fault(p, "tensor", "its rows of %" PRIu64 " are not whole blocks of %u of %s", inner,
                     types[type].block, e->dtype);
    if (__builtin_mul_overflow(elements / types[type].block, (uint64_t)types[type].bytes,
                               &e->bytes))
        return fault(p, "tensor", "%" PRIu64 " elements of %s overflow", elements, e->dtype);
    return STATUS_OK;
}

static enum status take_tensors(struct parse *p, uint64_t n) {
    struct krn_table *table = &p->g->table;
    if (n > KRN_TENSORS_MAX || n > left(p) / TENSOR_BYTES_MIN)
        return status_say(p->note, STATUS_BAD_FILE,
                          "%s: %" PRIu64 " tensors, more than its %" PRIu64
                          " bytes or the limit of %d allow",
                          p->g->file, n, p->g->size, KRN_TENSORS_MAX);
    table->entries = calloc((size_t)n + 1, sizeof *table->entries);
    table->names = malloc((size_t)n * (KRN_GGUF_NAME_MAX + 1) + 1);
    if (table->entries == NULL || table->names == NULL)
        return status_say(p->note, STATUS_NO_MEMORY, "%s: no memory for %" PRIu64 " tensor names",
                          p->g->file, n);
    char *to = table->names;
    for (uint64_t i = 0; i < n; i++) {
        struct krn_entry *e = &table->entries[i];
        const unsigned char *name;
        uint64_t bytes;
        TRY(take_name(p, "tensor", i, KRN_GGUF_NAME_MAX, &name, &bytes));
        e->name = memcpy(to, name, (size_t)bytes);
        to += bytes;
        *to++ = '\0';
        TRY(take_shape(p, e));
        if (!take(p, 8, &e->offset))
            return fault(p, "tensor", "the file ends before its offset");
        table->n++;
    }
    return STATUS_OK;
}

static int entry_name_order(const void *a, const void *b) {
    const struct krn_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int entry_data_order(const void *a, const void *b) {
    const struct krn_entry *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void word_of(struct parse *p, const struct krn_entry *e) {
    krn_quote(p->word, e->name);
}

/* value + padding; no overflow: both are below 2^63 (a file's size, a u32). */
static uint64_t padded(const struct parse *p, uint64_t value) {
    return (value + p->g->alignment - 1) & ~(p->g->alignment - 1);
}

/* Offsets count from the start of the data: inside the file, aligned, no overlap, no hole. */
static enum status place_tensors(struct parse *p) {
    struct krn_table *table = &p->g->table;
    qsort(table->entries, table->n, sizeof *table->entries, entry_name_order);
    for (uint32_t i = 1; i < table->n; i++) {
        word_of(p, &table->entries[i]);
        if (strcmp(table->entries[i - 1].name, table->entries[i].name) == 0)
            return fault(p, "tensor", "it occurs twice");
    }
    qsort(table->entries, table->n, sizeof *table->entries, entry_data_order);
    uint64_t start = padded(p, p->at), end = 0;
    uint64_t room = start < p->g->size ? p->g->size - start : 0;
    for (uint32_t i = 0; i < table->n; i++) {
        struct krn_entry *e = &table->entries[i];
        char before[KRN_QUOTE_BYTES];
        word_of(p, e);
        if (e->offset % p->g->alignment != 0)
            return fault(p, "tensor", "its offset %" PRIu64 " is no multiple of %" PRIu64,
                         e->offset, p->g->alignment);
        if (e->offset > room || e->bytes > room - e->offset)
            return fault(p, "tensor",
                         "its %" PRIu64 " bytes at %" PRIu64 " end beyond the %" PRIu64
                         " bytes of data",
                         e->bytes, e->offset, room);
        if (e->offset < end)
            return fault(p, "tensor", "its data overlaps the data of %s",
                         krn_quote(before, table->entries[i - 1].name));
        if (e->offset > padded(p, end))
            return fault(p, "tensor", "%" PRIu64 " bytes before its data belong to no tensor",
                         e->offset - end);
        end = e->offset + e->bytes;
        e->offset += start;
    }
    if (room > padded(p, end))
        return status_say(p->note, STATUS_BAD_FILE,
                          "%s: %" PRIu64 " bytes at its end belong to no tensor", p->g->file,
                          room - end);
    return STATUS_OK;
}

static enum status parse_all(struct parse *p) {
    struct krn_gguf *g = p->g;
    uint64_t version, tensors, keys;
    if (!krn_gguf_magic(g->bytes, g->size))
        return status_say(p->note, STATUS_BAD_FILE, "%s: does not begin as a GGUF file", g->file);
    p->at = 4;
    if (!take(p, 4, &version) || !take(p, 8, &tensors) || !take(p, 8, &keys))
        return status_say(p->note, STATUS_BAD_FILE,
                          "%s: %" PRIu64 " bytes are too few for a GGUF file", g->file, g->size);
    if (version == 2U << 24 || version == 3U << 24)
        return status_say(p->note, STATUS_BAD_FILE,
                          "%s: a big-endian GGUF file; this build reads little-endian ones",
                          g->file);
    if (version != 2 && version != 3)
        return status_say(p->note, STATUS_BAD_FILE,
                          "%s: GGUF version %" PRIu64 "; this build reads versions 2 and 3",
                          g->file, version);
    TRY(take_keys(p, keys));
    TRY(take_alignment(p));
    TRY(take_tensors(p, tensors));
    return place_tensors(p);
}

bool krn_gguf_magic(const unsigned char *bytes, uint64_t size) {
    return size >= 4 && memcmp(bytes, "GGUF", 4) == 0;
}

enum status krn_gguf_parse(const char *file, const unsigned char *bytes, uint64_t size,
                           struct krn_gguf *out, struct status_note *note) {
    *out = (struct krn_gguf){.file = file, .bytes = bytes, .size = size};
    struct parse p = {.g = out, .note = note};
    enum status status = parse_all(&p);
    if (status != STATUS_OK)
        krn_gguf_free(out);
    return status;
}

void krn_gguf_free(struct krn_gguf *g) {
    krn_table_free(&g->table);
    free(g->values);
    *g = (struct krn_gguf){0};
}

const struct krn_gguf_value *krn_gguf_find(const struct krn_gguf *g, const char *key) {
    const struct krn_gguf_value wanted = {.key = (const unsigned char *)key,
                                          .key_bytes = strlen(key)};
    if (g->n_values == 0)
        return NULL;
    return bsearch(&wanted, g->values, g->n_values, sizeof *g->values, value_order);
}

const unsigned char *krn_gguf_next_text(const unsigned char **cursor, uint64_t *bytes) {
    const unsigned char *text = *cursor + 8;
    *bytes = little(*cursor, 8);
    *cursor = text + *bytes;
    return text;
}
