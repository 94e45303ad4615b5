/* SPDX-License-Identifier: Apache-2.0
 * F8_E4M3 with scales (fp8.h), as published: one a matrix, one a row, or one a block of rows and
 * columns.
 */
#include "kernels/weights/fp8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/approx.h"

enum { BLOCK_MAX = 1 << 16 };

static const char section[] = "quantization_config";

/* A list of two sizes, rows and columns, the same for all matrices. */
static void read_block(struct krn_fields *f, const json_t *list, struct krn_config *c) {
    for (uint32_t i = 0; i < 2; i++) {
        const json_t *n = json_array_get(list, i);
        json_int_t size = json_is_integer(n) ? json_integer_value(n) : 0;
        if (json_array_size(list) != 2 || size < 1 || size > BLOCK_MAX) {
            krn_field_fault(f, STATUS_BAD_MODEL, section,
                            "has a block that is not two sizes from 1 to %d", BLOCK_MAX);
            return;
        }
        if (c->fp8_block[i] != 0 && c->fp8_block[i] != size)
            krn_field_fault(f, STATUS_BAD_MODEL, section,
                            "has blocks of more than one size; this build knows one for all");
        c->fp8_block[i] = (uint32_t)size;
    }
}

static const char *text_of(const json_t *object, const char *key, const char *absent) {
    const json_t *value = json_object_get(object, key);
    if (value == NULL || json_is_null(value))
        return absent;
    return json_is_string(value) ? json_string_value(value) : "something else than text";
}

static bool is_set(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return value != NULL && !json_is_null(value) && !json_is_false(value);
}

/* One group of compressed-tensors: eight-bit floats, symmetric, in one of the three shapes. */
static void read_group(struct krn_fields *f, const json_t *group, struct krn_config *c) {
    char quoted[KRN_QUOTE_BYTES];
    const json_t *w = json_object_get(group, "weights");
    const char *type = text_of(w, "type", "no type"), *strategy = text_of(w, "strategy", "tensor");
    bool block = strcmp(strategy, "block") == 0;
    if (strcmp(type, "float") != 0 || json_integer_value(json_object_get(w, "num_bits")) != 8)
        krn_field_fault(f, STATUS_BAD_MODEL, section,
                        "has weights of %s; this build knows floats of 8 bits",
                        krn_quote(quoted, type));
    else if (json_is_false(json_object_get(w, "symmetric")) || is_set(w, "actorder"))
        krn_field_fault(f, STATUS_BAD_MODEL, section,
                        "has weights with zero points or in another order; this build knows scales "
                        "alone");
    else if (!block && strcmp(strategy, "tensor") != 0 && strcmp(strategy, "channel") != 0)
        krn_field_fault(f, STATUS_BAD_MODEL, section,
                        "has scales by %s; this build knows tensor, channel and block",
                        krn_quote(quoted, strategy));
    if (block)
        read_block(f, json_object_get(w, "block_structure"), c);
}

static void read_compressed(struct krn_fields *f, const json_t *q, struct krn_config *c) {
    char quoted[KRN_QUOTE_BYTES];
    const char *format = text_of(q, "format", "float-quantized"), *key;
    const json_t *groups = json_object_get(q, "config_groups");
    json_t *group;
    if (strcmp(format, "float-quantized") != 0 && strcmp(format, "naive-quantized") != 0)
        krn_field_fault(f, STATUS_BAD_MODEL, section,
                        "has the format %s; this build knows float-quantized",
                        krn_quote(quoted, format));
    if (is_set(q, "kv_cache_scheme"))
        krn_field_fault(f, STATUS_BAD_MODEL, section,
                        "sets kv_cache_scheme; this build rounds keys and values by its profile "
                        "alone");
    if (is_set(q, "sparsity_config") &&
        strcmp(text_of(json_object_get(q, "sparsity_config"), "format", "dense"), "dense") != 0)
        krn_field_fault(f, STATUS_BAD_MODEL, section,
                        "sets sparsity_config; this build knows dense matrices");
    if (json_object_size(groups) == 0)
        krn_field_fault(f, STATUS_BAD_MODEL, section, "has no config_groups");
    json_object_foreach((json_t *)(uintptr_t)groups, key, group) read_group(f, group, c);
}

void krn_fp8_config(struct krn_fields *f, struct krn_config *c) {
    char quoted[KRN_QUOTE_BYTES];
    const json_t *q = krn_field(f, section);
    if (q == NULL)
        return;
    const char *method = text_of(q, "quant_method", "unnamed");
    c->fp8 = true;
    if (strcmp(method, "fp8") == 0) {
        const char *format = text_of(q, "fmt", "e4m3");
        if (strcmp(format, "e4m3") != 0)
            krn_field_fault(f, STATUS_BAD_MODEL, section, "has fp8 of %s; this build knows e4m3",
                            krn_quote(quoted, format));
        if (is_set(q, "weight_block_size"))
            read_block(f, json_object_get(q, "weight_block_size"), c);
    } else if (strcmp(method, "compressed-tensors") == 0) {
        read_compressed(f, q, c);
    } else if (strcmp(method, "fbgemm_fp8") != 0) {
        krn_field_fault(f, STATUS_BAD_MODEL, section,
                        "asks for %s; this build knows F32, F16 and BF16 weights, and F8_E4M3 by "
                        "fp8, fbgemm_fp8 and compressed-tensors",
                        krn_quote(quoted, method));
    }
}

static bool ends_in(const char *name, const char *tail) {
    size_t n = strlen(name), t = strlen(tail);
    return n > t && strcmp(name + n - t, tail) == 0;
}

bool krn_fp8_is(const struct krn_config *c, const struct krn_entry *e) {
    return c->fp8 && strcmp(e->dtype, "F8_E4M3") == 0 && e->n_dims == 2 &&
           ends_in(e->name, ".weight");
}

uint32_t krn_fp8_count(const struct krn_config *c, const struct krn_shards *shards) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < shards->n; s++)
        for (uint32_t i = 0; i < shards->tables[s].n; i++)
            n += krn_fp8_is(c, &shards->tables[s].entries[i]);
    return n;
}

bool krn_fp8_is_scale(const struct krn_config *c, const struct krn_shards *shards,
                      const struct krn_entry *e) {
    char matrix[KRN_NAME_MAX + 1];
    const char *end = strrchr(e->name, '.');
    if (!c->fp8 || end == NULL ||
        (strcmp(end, ".weight_scale") != 0 && strcmp(end, ".weight_scale_inv") != 0))
        return false;
    snprintf(matrix, sizeof matrix, "%.*s.weight", (int)(end - e->name), e->name);
    const struct krn_place *of = krn_shards_find(shards, matrix, "");
    return of != NULL && krn_fp8_is(c, of->entry);
}

/* The scale at row r and column k, and how they lie. */
struct scales {
    const struct krn_entry *e;
    const unsigned char *data;
    uint64_t rows, columns; /* that share one */
    uint64_t across;        /* scales in a row of them */
};

static float scale_at(const struct scales *s, uint64_t i) {
    uint16_t half;
    float x;
    if (strcmp(s->e->dtype, "F32") == 0) {
        memcpy(&x, s->data + 4 * i, sizeof x);
        return x;
    }
    memcpy(&half, s->data + 2 * i, sizeof half);
    return strcmp(s->e->dtype, "BF16") == 0 ? krn_widen_bf16(half) : krn_widen_f16(half);
}

/* numerics.md 12: sign, four bits of exponent over 7, three of significand; no infinity. */
static float e4m3(unsigned char b) {
    uint32_t size = b & 0x7fu;
    if (size == 0x7f)
        return krn_float(0x7fc00000u);
    float x = krn_float(size << 20) * 0x1p120f; /* exact, subnormals too */
    return b >> 7 != 0 ? -x : x;
}

/* What shape the scales have: a matrix's own, one a row, or blocks. */
static bool scales_fit(const struct krn_config *c, const struct krn_entry *w, struct scales *s) {
    const struct krn_entry *e = s->e;
    uint64_t n = w->dims[0], k = w->dims[1], count = 1;
    for (uint32_t i = 0; i < e->n_dims && i < KRN_DIMS_MAX; i++)
        count *= e->dims[i];
    if (c->fp8_block[0] != 0) {
        s->rows = c->fp8_block[0];
        s->columns = c->fp8_block[1];
        s->across = (k + s->columns - 1) / s->columns;
        return e->n_dims == 2 && e->dims[0] == (n + s->rows - 1) / s->rows &&
               e->dims[1] == s->across;
    }
    s->columns = k;
    s->across = 1;
    s->rows = count == 1 ? n : 1;
    return e->n_dims <= 2 && (count == 1 || (count == n && e->dims[0] == n));
}

static enum status scales_of(const struct krn_config *c, const struct krn_shards *shards,
                             const struct krn_file *files, const struct krn_entry *w,
                             struct scales *s, struct status_note *note) {
    char quoted[KRN_QUOTE_BYTES];
    krn_quote(quoted, w->name);
    const struct krn_place *inverse = krn_shards_find(shards, w->name, "_scale_inv");
    const struct krn_place *plain = krn_shards_find(shards, w->name, "_scale");
    const struct krn_place *one = inverse != NULL ? inverse : plain;
    if (one == NULL || (inverse != NULL && plain != NULL))
        return status_say(note, STATUS_BAD_MODEL,
                          "tensor %s is F8_E4M3 with %s scales: one of weight_scale and "
                          "weight_scale_inv is expected",
                          quoted, one == NULL ? "no" : "two");
    s->e = one->entry;
    if (strcmp(s->e->dtype, "F32") != 0 && strcmp(s->e->dtype, "BF16") != 0 &&
        strcmp(s->e->dtype, "F16") != 0)
        return status_say(note, STATUS_BAD_MODEL,
                          "tensor %s is F8_E4M3 with scales of %s; this build knows F32, BF16 and "
                          "F16",
                          quoted, s->e->dtype);
    if (!scales_fit(c, w, s))
        return status_say(note, STATUS_BAD_MODEL,
                          "tensor %s of shape [%" PRIu64 ", %" PRIu64 "] has %" PRIu64
                          " bytes of scales in %u dimensions, which is neither one, nor one a row, "
                          "nor one for each block of quantization_config",
                          quoted, w->dims[0], w->dims[1], s->e->bytes, s->e->n_dims);
    s->data = files[one->shard].bytes + s->e->offset;
    return STATUS_OK;
}

enum status krn_fp8_widen(struct krn_model *model, const struct krn_shards *shards,
                          const struct krn_file *files, const struct krn_file *file,
                          const struct krn_entry *e, const char *name, struct status_note *note) {
    struct scales s = {0};
    uint64_t n = e->dims[0], k = e->dims[1], bytes;
    float values[256];
    TRY(scales_of(&model->config, shards, files, e, &s, note));
    float *out = NULL;
    if (!__builtin_mul_overflow(e->bytes, sizeof *out, &bytes))
        out = krn_store_block(model, bytes);
    if (out == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the %" PRIu64 " values of %s",
                          e->bytes, name);
    for (uint32_t i = 0; i < 256; i++)
        values[i] = e4m3((unsigned char)i);
    for (uint64_t r = 0; r < n; r++) {
        const unsigned char *row = file->bytes + e->offset + r * k;
        for (uint64_t at = 0; at < k; at += s.columns) {
            float scale = scale_at(&s, r / s.rows * s.across + at / s.columns);
            uint64_t end = k - at < s.columns ? k : at + s.columns;
            for (uint64_t i = at; i < end; i++)
                out[r * k + i] = scale * values[row[i]];
        }
    }
    struct krn_tensor *t = (struct krn_tensor *)(uintptr_t)&model->tensors[model->n_tensors++];
    *t = (struct krn_tensor){
        .name = name, .dtype = KRN_F32, .n_dims = 2, .dims = {n, k}, .data = out, .bytes = bytes};
    return STATUS_OK;
}
