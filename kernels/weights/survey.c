/* SPDX-License-Identifier: Apache-2.0
 * Surveys of both layouts.
 */
#include "kernels/weights/survey.h"

#include <stdio.h>
#include <string.h>

#include "kernels/weights/gguf_model.h"

static void add_entry(struct krn_survey *s, const struct krn_entry *e) {
    uint32_t i = 0;
    uint64_t elements = 1;
    while (i < s->n_types &&
           (strcmp(s->types[i].word, e->dtype) != 0 || s->types[i].readable != e->usable))
        i++;
    if (i == KRN_SURVEY_TYPES)
        return;
    if (i == s->n_types) {
        s->n_types++;
        s->types[i].word = e->dtype;
        s->types[i].readable = e->usable;
    }
    s->types[i].tensors++;
    s->types[i].bytes += e->bytes;
    s->tensors++;
    for (uint32_t d = 0; d < e->n_dims && d < KRN_DIMS_MAX; d++)
        elements *= e->dims[d]; /* the table's parser has seen that it fits */
    if (e->n_dims >= 1 && e->n_dims <= KRN_DIMS_MAX)
        s->parameters += elements;
}

static void add_table(struct krn_survey *s, const struct krn_table *t) {
    for (uint32_t i = 0; i < t->n; i++)
        add_entry(s, &t->entries[i]);
}

static void survey_gguf(const struct krn_gguf *g, struct krn_survey *s) {
    struct status_note unused;
    struct krn_gguf_reader r = {.g = g, .note = &unused};
    const struct krn_gguf_value *v = krn_gguf_find(g, "general.architecture");
    char name[64], key[96];
    add_table(s, &g->table);
    if (v == NULL || v->type != KRN_GGUF_TEXT)
        return;
    size_t n = v->count < sizeof name - 1 ? (size_t)v->count : sizeof name - 1;
    memcpy(name, v->at, n);
    name[n] = '\0';
    krn_quote(s->architecture, name);
    snprintf(key, sizeof key, "%s.context_length", name);
    s->context = krn_gguf_number_or(&r, key, 0, 0, UINT64_MAX);
}

static void survey_config(const char *dir, struct krn_survey *s) {
    char path[KRN_PATH_MAX];
    struct krn_file file = {0};
    struct status_note unused;
    json_t *root = NULL;
    if (krn_path_join(path, dir, "config.json", &unused) == STATUS_OK &&
        krn_file_open(path, KRN_JSON_FILE_MAX, &file, &unused) == STATUS_OK &&
        krn_json_object("config.json", file.bytes, (size_t)file.size, &root, &unused) ==
            STATUS_OK) {
        const json_t *list = json_object_get(root, "architectures");
        const char *name = json_string_value(json_array_get(list, 0));
        json_int_t context = json_integer_value(json_object_get(root, "max_position_embeddings"));
        if (name != NULL)
            krn_quote(s->architecture, name);
        s->context = context > 0 ? (uint64_t)context : 0;
        json_decref(root);
    }
    krn_file_close(&file);
}

enum status krn_survey(const char *path, struct krn_survey *out, struct status_note *note) {
    char gguf[KRN_PATH_MAX], label[KRN_LABEL_BYTES];
    struct krn_survey s = {0};
    TRY(krn_gguf_path(path, gguf, note));
    if (gguf[0] == '\0') {
        struct krn_shards shards;
        TRY(krn_shards_open(path, &shards, note));
        for (uint32_t i = 0; i < shards.n; i++)
            add_table(&s, &shards.tables[i]);
        krn_shards_close(&shards);
        survey_config(path, &s);
    } else {
        struct krn_file file;
        struct krn_gguf g;
        TRY(krn_file_open(gguf, UINT64_MAX, &file, note));
        enum status status =
            krn_gguf_parse(krn_label(label, gguf), file.bytes, file.size, &g, note);
        if (status == STATUS_OK) {
            survey_gguf(&g, &s);
            krn_gguf_free(&g);
        }
        krn_file_close(&file);
        TRY(status);
    }
    *out = s;
    return STATUS_OK;
}
