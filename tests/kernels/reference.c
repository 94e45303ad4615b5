/* SPDX-License-Identifier: Apache-2.0
 * Loading of the reference outputs.
 */
#include "tests/kernels/reference.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "kernels/weights/json.h"
#include "kernels/weights/safetensors.h"
#include "kernels/weights/shards.h"
#include "tests/harness.h"

enum { FILES = 3 };

struct store {
    struct krn_file files[FILES], text;
    struct krn_table tables[FILES];
    json_t *prompts, *heldout;
};

__attribute__((format(printf, 1, 2))) static _Noreturn void wrong(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "reference outputs: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(EXIT_FAILURE);
}

static struct krn_file open_file(const char *name) {
    char path[KRN_PATH_MAX];
    struct krn_file file;
    struct status_note note;
    snprintf(path, sizeof path, "%s/tests/reference/fable-5m/%s", test_srcdir(), name);
    if (krn_file_open(path, UINT64_MAX, &file, &note) != STATUS_OK)
        wrong("%s", note.text);
    return file;
}

static json_t *open_json(const char *name) {
    struct krn_file file = open_file(name);
    json_error_t error;
    json_t *root = json_loadb((const char *)file.bytes, file.size, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        wrong("%s: %s", name, error.text);
    krn_file_close(&file);
    return root;
}

/* The data of a tensor that must have this type and number of elements. */
static const void *tensor(const struct store *store, int file, const char *name, const char *dtype,
                          uint64_t elements) {
    for (uint32_t i = 0; i < store->tables[file].n; i++) {
        const struct krn_entry *e = &store->tables[file].entries[i];
        if (strcmp(e->name, name) != 0)
            continue;
        if (strcmp(e->dtype, dtype) != 0 || e->bytes != elements * 4)
            wrong("tensor %s is not %llu of %s", name, (unsigned long long)elements, dtype);
        const void *data = store->files[file].bytes + e->offset;
        if ((uintptr_t)data % 4 != 0)
            wrong("tensor %s is not aligned", name);
        return data;
    }
    wrong("tensor %s is missing", name);
}

static const json_t *field(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (value == NULL)
        wrong("field %s is missing", key);
    return value;
}

static const char *text_field(const json_t *object, const char *key) {
    const char *text = json_string_value(field(object, key));
    if (text == NULL)
        wrong("field %s is not a string", key);
    return text;
}

static void read_ids(const json_t *list, uint32_t *out, size_t n) {
    if (json_array_size(list) != n)
        wrong("a list has %zu entries, %zu are expected", json_array_size(list), n);
    for (size_t i = 0; i < n; i++) {
        json_int_t id = json_integer_value(json_array_get(list, i));
        if (id < 0 || id >= REFERENCE_VOCAB)
            wrong("an id is outside the vocabulary");
        out[i] = (uint32_t)id;
    }
}

static void read_floats(const json_t *list, float *out, size_t n) {
    if (json_array_size(list) != n)
        wrong("a list has %zu entries, %zu are expected", json_array_size(list), n);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)json_number_value(json_array_get(list, i));
}

static void read_greedy(const json_t *object, struct reference_greedy *out) {
    read_ids(field(object, "ids"), out->ids, REFERENCE_STEPS);
    read_ids(field(object, "second"), out->second, REFERENCE_STEPS);
    read_floats(field(object, "margin"), out->margin, REFERENCE_STEPS);
}

static void read_prompt(const struct store *store, const json_t *object,
                        struct reference_prompt *out) {
    enum { LOGITS = REFERENCE_PROMPTS * REFERENCE_VOCAB };
    out->name = text_field(object, "name");
    out->text = text_field(object, "text");
    out->add_bos = json_is_true(field(object, "add_bos"));
    const json_t *ids = field(object, "ids");
    out->n_ids = (uint32_t)json_array_size(ids);
    out->ids = calloc(out->n_ids, sizeof *out->ids);
    if (out->ids == NULL || out->n_ids == 0)
        wrong("prompt %s has no ids", out->name);
    read_ids(ids, out->ids, out->n_ids);
    const json_t *f32 = field(object, "greedy_f32");
    read_greedy(f32, &out->f32);
    read_floats(field(f32, "top_logit"), out->top_logit, REFERENCE_STEPS);
    read_greedy(field(object, "greedy_bf16_gpu"), &out->bf16_gpu);
    json_int_t row = json_integer_value(field(object, "first_logits_row"));
    if (row < 0 || row >= REFERENCE_PROMPTS)
        wrong("prompt %s has no row of logits", out->name);
    const float *logits = tensor(store, 0, "first_logits_f32", "F32", LOGITS);
    const float *logits_gpu = tensor(store, 0, "first_logits_bf16_gpu", "F32", LOGITS);
    out->first_logits = logits + row * REFERENCE_VOCAB;
    out->first_logits_bf16_gpu = logits_gpu + row * REFERENCE_VOCAB;
}

static void read_trace(const struct reference *r, const char *name, struct reference_trace *out) {
    char key[64];
    out->prompt = reference_find(r, name);
    if (out->prompt == NULL)
        wrong("prompt %s is missing", name);
    uint64_t tokens = out->prompt->n_ids;
    snprintf(key, sizeof key, "%s.hidden", name);
    out->hidden =
        tensor(r->store, 1, key, "F32", REFERENCE_BOUNDARIES * tokens * (uint64_t)REFERENCE_HIDDEN);
    snprintf(key, sizeof key, "%s.logits", name);
    out->logits = tensor(r->store, 1, key, "F32", tokens * REFERENCE_VOCAB);
}

static void read_window(const struct reference *r, uint32_t width, struct reference_window *out) {
    const struct store *store = r->store;
    char key[64];
    out->width = width;
    out->rows = REFERENCE_HELDOUT / width;
    uint64_t n = (uint64_t)out->rows * (width - 1);
    snprintf(key, sizeof key, "nll_f32_w%u", width);
    out->nll = tensor(store, 2, key, "F32", n);
    snprintf(key, sizeof key, "margin_f32_w%u", width);
    out->margin = tensor(store, 2, key, "F32", n);
    snprintf(key, sizeof key, "top1_f32_w%u", width);
    out->top = tensor(store, 2, key, "I32", n);
    snprintf(key, sizeof key, "mean_nll_f32_w%u", width);
    out->mean_nll = json_number_value(field(store->heldout, key));
    snprintf(key, sizeof key, "mean_nll_bf16_gpu_w%u", width);
    out->mean_nll_bf16_gpu = json_number_value(field(store->heldout, key));
}

struct reference *reference_open(void) {
    static const char *const names[FILES] = {"logits.safetensors", "hidden.safetensors",
                                             "heldout.safetensors"};
    struct reference *r = calloc(1, sizeof *r);
    struct store *store = calloc(1, sizeof *store);
    struct status_note note;
    if (r == NULL || store == NULL)
        wrong("no memory");
    r->store = store;
    for (int i = 0; i < FILES; i++) {
        store->files[i] = open_file(names[i]);
        if (krn_table_parse(names[i], store->files[i].bytes, store->files[i].size,
                            &store->tables[i], &note) != STATUS_OK)
            wrong("%s", note.text);
    }
    store->text = open_file("heldout.txt");
    store->prompts = open_json("prompts.json");
    store->heldout = open_json("heldout.json");
    if (json_array_size(store->prompts) != REFERENCE_PROMPTS)
        wrong("%zu prompts", json_array_size(store->prompts));
    for (int i = 0; i < REFERENCE_PROMPTS; i++)
        read_prompt(store, json_array_get(store->prompts, (size_t)i), &r->prompts[i]);
    read_trace(r, "p01_once", &r->traces[0]);
    read_trace(r, "p21_chat_about", &r->traces[1]);
    r->heldout = tensor(store, 2, "ids", "I32", REFERENCE_HELDOUT);
    r->heldout_text = (const char *)store->text.bytes;
    r->heldout_bytes = (size_t)store->text.size;
    read_window(r, 2000, &r->windows[0]);
    read_window(r, 4000, &r->windows[1]);
    snprintf(r->model_path, sizeof r->model_path, "%s/share/fable-5m", test_srcdir());
    return r;
}

void reference_close(struct reference *r) {
    struct store *store = r->store;
    for (int i = 0; i < REFERENCE_PROMPTS; i++)
        free(r->prompts[i].ids);
    for (int i = 0; i < FILES; i++) {
        krn_table_free(&store->tables[i]);
        krn_file_close(&store->files[i]);
    }
    krn_file_close(&store->text);
    json_decref(store->prompts);
    json_decref(store->heldout);
    free(store);
    free(r);
}

const struct reference_prompt *reference_find(const struct reference *r, const char *name) {
    for (int i = 0; i < REFERENCE_PROMPTS; i++)
        if (strcmp(r->prompts[i].name, name) == 0)
            return &r->prompts[i];
    return NULL;
}

double reference_error(const float *x, const float *expected, size_t n) {
    double most = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)x[i] - (double)expected[i]);
        most = off > most || isnan(off) ? off : most;
        if (isnan(most))
            return most;
        largest = fmax(largest, fabs((double)expected[i]));
    }
    return most / largest;
}
