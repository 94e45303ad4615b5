/* SPDX-License-Identifier: Apache-2.0
 * The keys tokenizer.* of a GGUF file as the tables that a tokenizer is made of. Only their types
 * and sizes are looked at here; what they say is judged where the tokenizer is made.
 */
#include "lanes/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/weights/file.h"
#include "kernels/weights/gguf_model.h"
#include "kernels/weights/json.h"
#include "lanes/text/tables.h"

struct vocabulary {
    struct krn_gguf_reader r;
    struct lane_tables tables;
    struct lane_text_slice *tokens, *merges;
    int32_t *types;
    float *scores;
};

static struct lane_text_slice read_text(struct vocabulary *v, const char *key) {
    const struct krn_gguf_value *value = krn_gguf_find(v->r.g, key);
    if (value == NULL)
        return (struct lane_text_slice){NULL, 0};
    if (value->type != KRN_GGUF_TEXT)
        krn_gguf_fault(&v->r, STATUS_BAD_FILE, key, "is not a text");
    return (struct lane_text_slice){(const char *)value->at, value->count};
}

static enum lane_said read_bool(struct vocabulary *v, const char *key) {
    const struct krn_gguf_value *value = krn_gguf_find(v->r.g, key);
    if (value == NULL)
        return LANE_UNSAID;
    if (value->type != KRN_GGUF_BOOL)
        krn_gguf_fault(&v->r, STATUS_BAD_FILE, key, "is neither true nor false");
    return value->at[0] != 0 ? LANE_YES : LANE_NO;
}

static int64_t read_id(struct vocabulary *v, const char *key) {
    if (krn_gguf_find(v->r.g, key) == NULL)
        return -1;
    return (int64_t)krn_gguf_number(&v->r, key, 0, INT32_MAX);
}

/* A list of elements of this type; NULL when the key is absent or, with a fault, wrong. */
static const struct krn_gguf_value *read_list(struct vocabulary *v, const char *key,
                                              enum krn_gguf_type element) {
    const struct krn_gguf_value *value = krn_gguf_find(v->r.g, key);
    if (value == NULL)
        return NULL;
    if (value->type == KRN_GGUF_LIST && value->element == element && value->count < UINT32_MAX)
        return value;
    krn_gguf_fault(&v->r, STATUS_BAD_FILE, key, "is not a list of the right type");
    return NULL;
}

static struct lane_text_slice *read_texts(struct vocabulary *v, const char *key, uint32_t *n) {
    const struct krn_gguf_value *value = read_list(v, key, KRN_GGUF_TEXT);
    *n = value == NULL ? 0 : (uint32_t)value->count;
    if (*n == 0)
        return NULL;
    struct lane_text_slice *out = malloc(*n * sizeof *out);
    if (out == NULL) {
        krn_gguf_fault(&v->r, STATUS_NO_MEMORY, key, "needs more memory than there is");
        *n = 0;
        return NULL;
    }
    const unsigned char *cursor = value->at;
    for (uint32_t i = 0; i < *n; i++) {
        uint64_t bytes;
        out[i].bytes = (const char *)krn_gguf_next_text(&cursor, &bytes);
        out[i].n = bytes;
    }
    return out;
}

/* One element of four bytes for each token, copied, for it may lie at any address in the file. */
static void *read_each(struct vocabulary *v, const char *key, enum krn_gguf_type element) {
    const struct krn_gguf_value *value = read_list(v, key, element);
    if (value == NULL)
        return NULL;
    if (value->count != v->tables.n_tokens || value->count == 0) {
        krn_gguf_fault(&v->r, STATUS_BAD_FILE, key, "has not one element for each token");
        return NULL;
    }
    void *out = malloc(value->count * 4);
    if (out == NULL)
        krn_gguf_fault(&v->r, STATUS_NO_MEMORY, key, "needs more memory than there is");
    else
        memcpy(out, value->at, value->count * 4);
    return out;
}

static void read_tables(struct vocabulary *v) {
    struct lane_tables *t = &v->tables;
    t->model = read_text(v, "tokenizer.ggml.model");
    t->pre = read_text(v, "tokenizer.ggml.pre");
    t->chat_template = read_text(v, "tokenizer.chat_template");
    t->tokens = v->tokens = read_texts(v, "tokenizer.ggml.tokens", &t->n_tokens);
    t->merges = v->merges = read_texts(v, "tokenizer.ggml.merges", &t->n_merges);
    t->types = v->types = read_each(v, "tokenizer.ggml.token_type", KRN_GGUF_I32);
    t->scores = v->scores = read_each(v, "tokenizer.ggml.scores", KRN_GGUF_F32);
    t->bos = read_id(v, "tokenizer.ggml.bos_token_id");
    t->eos = read_id(v, "tokenizer.ggml.eos_token_id");
    t->eot = read_id(v, "tokenizer.ggml.eot_token_id");
    t->unk = read_id(v, "tokenizer.ggml.unknown_token_id");
    t->add_bos = read_bool(v, "tokenizer.ggml.add_bos_token");
    t->add_eos = read_bool(v, "tokenizer.ggml.add_eos_token");
    t->add_space_prefix = read_bool(v, "tokenizer.ggml.add_space_prefix");
    t->remove_extra_whitespaces = read_bool(v, "tokenizer.ggml.remove_extra_whitespaces");
}

static enum status tables_open(const struct krn_gguf *g, struct lane_tokenizer **out,
                               struct status_note *note) {
    struct vocabulary v = {.r = {.g = g, .note = note, .status = STATUS_OK}};
    if (krn_gguf_find(g, "tokenizer.ggml.model") == NULL ||
        krn_gguf_text_is(&v.r, "tokenizer.ggml.model", "none", false))
        return status_say(note, STATUS_NOT_FOUND, "%s: the file has no tokenizer", g->file);
    read_tables(&v);
    enum status status = v.r.status;
    if (status == STATUS_OK)
        status = lane_tokenizer_from_tables(g->file, &v.tables, out, note);
    free(v.tokens);
    free(v.merges);
    free(v.types);
    free(v.scores);
    return status;
}

enum status lane_vocabulary_open(const char *model_path, struct lane_tokenizer **out,
                                 struct status_note *note) {
    char path[KRN_PATH_MAX], label[KRN_LABEL_BYTES];
    struct krn_file file;
    struct krn_gguf g;
    struct status_note unused;
    *out = NULL;
    /* What is wrong with a path is said as of a directory. */
    if (krn_gguf_path(model_path, path, &unused) != STATUS_OK || path[0] == '\0')
        return lane_tokenizer_open(model_path, out, note);
    TRY(krn_file_open(path, UINT64_MAX, &file, note));
    enum status status = krn_gguf_parse(krn_label(label, path), file.bytes, file.size, &g, note);
    if (status == STATUS_OK) {
        status = tables_open(&g, out, note);
        krn_gguf_free(&g);
    }
    krn_file_close(&file);
    return status;
}
