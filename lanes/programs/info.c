/* SPDX-License-Identifier: Apache-2.0
 * roundhouse info: what is in a model directory or file, how this build and machine would run it,
 * or why they cannot.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "kernels/quant/quant.h"
#include "kernels/weights/store.h"
#include "kernels/weights/survey.h"
#include "lanes/programs/input.h"
#include "lanes/programs/options.h"
#include "lanes/vocabulary.h"

struct info {
    const char *profile; /* as asked for, or NULL */
    struct krn_model *model;
    struct krn_net net;
    struct krn_survey survey;
    struct lane_tokenizer *tokenizer;
    enum status net_status, tokenizer_status;
    struct status_note net_note, tokenizer_note;
};

/* A type's word in small letters. */
static const char *info_word(char out[16], const char *word) {
    size_t n = 0;
    for (; n < 15 && word[n] != '\0'; n++)
        out[n] = (char)tolower((unsigned char)word[n]);
    out[n] = '\0';
    return out;
}

static void info_add_type(json_t *types, const char *word, uint64_t bytes, bool readable) {
    char name[16];
    json_t *type = json_object_get(types, info_word(name, word));
    json_int_t n = json_integer_value(json_object_get(type, "tensors"));
    json_int_t sum = json_integer_value(json_object_get(type, "bytes"));
    json_object_set_new(types, name,
                        json_pack("{s:I, s:I, s:b}", "tensors", n + 1, "bytes",
                                  sum + (json_int_t)bytes, "readable", readable));
}

/* Tensors and bytes by type, also of the types that this build cannot read. */
static json_t *info_types(const struct krn_model *m) {
    const struct krn_store *store = m->store;
    json_t *types = json_object();
    for (uint32_t i = 0; i < m->n_tensors; i++)
        info_add_type(types, krn_format_of(m->tensors[i].dtype)->word, m->tensors[i].bytes, true);
    for (uint32_t i = 0; i < store->n_unusable; i++)
        info_add_type(types, store->unusable[i].dtype, store->unusable[i].bytes, false);
    return types;
}

static json_t *info_isas(void) {
    static const char *const all[] = {"scalar", "avx2", "avx512", "neon"};
    json_t *list = json_array();
    for (uint32_t i = 0; i < 4; i++)
        if (krn_rowfn_pick(all[i]) != NULL)
            json_array_append_new(list, json_string(all[i]));
    return list;
}

/* The option table, so that other programs need not parse --help. */
static json_t *info_options(void) {
    json_t *list = json_array();
    const char *name, *value, *help;
    uint32_t programs;
    for (uint32_t i = 0; options_row(i, &name, &value, &programs, &help); i++)
        json_array_append_new(list, json_pack("{s:s, s:s?, s:i, s:s}", "name", name, "value", value,
                                              "programs", (int)programs, "help", help));
    return list;
}

/* Tokenizer, template, and what of them this build cannot do. */
static void info_text(const struct info *x, json_t *j, json_t *cannot) {
    bool unknown = false;
    const char *template = x->tokenizer != NULL ? lane_template_name(x->tokenizer, &unknown) : NULL;
    json_object_set_new(j, "tokenizer",
                        x->tokenizer != NULL
                            ? json_pack("{s:i}", "vocab", (int)lane_tokenizer_vocab(x->tokenizer))
                            : json_null());
    json_object_set_new(j, "template", template != NULL ? json_string(template) : json_null());
    if (x->tokenizer_status != STATUS_OK)
        json_array_append_new(cannot, json_string(x->tokenizer_note.text));
    if (unknown) { /* why, in the words that a conversation would get */
        const struct lane_message hello = {"user", "", 0};
        struct status_note note = {{0}};
        uint32_t *ids = NULL, n = 0, capacity = 0;
        if (lane_template_encode(x->tokenizer, &hello, 1, NULL, true, 0, &ids, &n, &capacity,
                                 &note) != STATUS_OK)
            json_array_append_new(cannot, json_string(note.text));
        free(ids);
    }
}

/* Of a model that no family here can run: what its files say, and why not. */
static json_t *info_survey_json(const struct info *x, const char *path, const char *why) {
    const struct krn_survey *s = &x->survey;
    json_t *types = json_object(), *cannot = json_array();
    for (uint32_t i = 0; i < s->n_types; i++) {
        char name[16];
        json_object_set_new(types, info_word(name, s->types[i].word),
                            json_pack("{s:I, s:I, s:b}", "tensors", (json_int_t)s->types[i].tensors,
                                      "bytes", (json_int_t)s->types[i].bytes, "readable",
                                      s->types[i].readable));
    }
    json_t *j = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:o}", "version", PACKAGE_VERSION,
                          "model", path, "architecture", s->architecture, "parameters",
                          (json_int_t)s->parameters, "tensors", (json_int_t)s->tensors, "context",
                          (json_int_t)s->context, "types", types);
    json_array_append_new(cannot, json_string(why));
    info_text(x, j, cannot);
    json_object_set_new(j, "cannot", cannot);
    return j;
}

static json_t *info_json(const struct info *x, const char *path) {
    const struct krn_model *m = x->model;
    const struct krn_config *c = &m->config;
    char fingerprint[40];
    snprintf(fingerprint, sizeof fingerprint, "%016llx%016llx",
             (unsigned long long)m->fingerprint[1], (unsigned long long)m->fingerprint[0]);
    json_t *j = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:i, "
        "s:o, s:o}",
        "version", PACKAGE_VERSION, "model", path, "family", c->family, "fingerprint", fingerprint,
        "parameters", (json_int_t)m->parameters, "vocab", (int)c->vocab, "hidden", (int)c->hidden,
        "layers", (int)c->layers, "heads", (int)c->heads, "kv_heads", (int)c->kv_heads, "head_dim",
        (int)c->head_dim, "ffn", (int)c->ffn, "context", (int)c->context, "tied", c->tied,
        "tensors", (int)m->n_tensors, "types", info_types(m), "isa", info_isas());
    json_object_set_new(j, "architecture", json_string(x->survey.architecture));
    if (c->experts != 0) {
        json_object_set_new(j, "experts", json_integer(c->experts));
        json_object_set_new(j, "experts_used", json_integer(c->experts_used));
        if (c->dense_ffn != 0)
            json_object_set_new(j, "dense_ffn", json_integer(c->dense_ffn));
    }
    if (c->window != 0)
        json_object_set_new(j, "window", json_integer(c->window));
    struct krn_profile profile;
    struct status_note note;
    enum status profile_status = krn_profile_open(x->profile, c, 0, &profile, &note);
    if (profile_status == STATUS_OK) {
        json_object_set_new(j, "profile", json_string(profile.name));
        json_object_set_new(j, "virtual_ranks", json_integer(profile.virtual_ranks));
        json_object_set_new(j, "page_bytes",
                            json_integer((json_int_t)gpu_page_bytes(c, &profile, 64, 0, 1)));
    }
    json_t *cannot = json_array();
    if (profile_status != STATUS_OK)
        json_array_append_new(cannot, json_string(note.text));
    if (x->net_status != STATUS_OK)
        json_array_append_new(cannot, json_string(x->net_note.text));
    info_text(x, j, cannot);
    json_object_set_new(j, "cannot", cannot);
    return j;
}

static void info_print(const json_t *j) {
    static const char *const numbers[] = {"parameters",   "vocab",         "hidden",    "layers",
                                          "heads",        "kv_heads",      "ffn",       "experts",
                                          "experts_used", "dense_ffn",     "window",    "context",
                                          "tensors",      "virtual_ranks", "page_bytes"};
    static const char *const texts[] = {"model",       "architecture", "family",
                                        "fingerprint", "profile",      "template"};
    for (uint32_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const json_t *t = json_object_get(j, texts[i]);
        if (t != NULL) /* what is not known of a model that cannot run is left out */
            printf("%-14s %s\n", texts[i], json_is_string(t) ? json_string_value(t) : "none");
    }
    for (uint32_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (json_object_get(j, numbers[i]) != NULL)
            printf("%-14s %lld\n", numbers[i],
                   (long long)json_integer_value(json_object_get(j, numbers[i])));
    const json_t *tokens = json_object_get(json_object_get(j, "tokenizer"), "vocab");
    if (tokens != NULL)
        printf("%-14s %lld tokens\n", "tokenizer", (long long)json_integer_value(tokens));
    else
        printf("%-14s none\n", "tokenizer");
    const char *type;
    json_t *v;
    json_object_foreach(json_object_get(j, "types"), type, v)
        printf("%-14s %lld tensors, %.2f MB%s\n", type,
               (long long)json_integer_value(json_object_get(v, "tensors")),
               (double)json_integer_value(json_object_get(v, "bytes")) / 1e6,
               json_is_true(json_object_get(v, "readable")) ? "" : ", not readable here");
    size_t i;
    printf("%-14s", "isa");
    json_array_foreach(json_object_get(j, "isa"), i, v) printf(" %s", json_string_value(v));
    printf("\n");
    json_array_foreach(json_object_get(j, "cannot"), i, v)
        printf("%-14s %s\n", "cannot", json_string_value(v));
}

static void info_write(json_t *j) {
    char *text = json_dumps(j, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    puts(text);
    free(text);
}

int program_info(int argc, char **argv) {
    struct options *o = calloc(1, sizeof *o);
    struct info x = {0};
    struct status_note note = {{0}};
    enum status s = o != NULL ? options_parse(P_INFO, argc, argv, o, &note) : STATUS_NO_MEMORY;
    const char *path = NULL;
    if (s == STATUS_OK && options_has(o, OPT_options)) {
        json_t *j = info_options();
        info_write(j);
        json_decref(j);
        free(o);
        return EXIT_DONE;
    }
    if (s == STATUS_OK) {
        x.profile = options_text(o, OPT_profile, NULL);
        path = o->n_args > 0 ? o->args[0] : options_text(o, OPT_model, options_default_model());
        s = krn_model_open(path, &x.model, &note);
    }
    /* A file that is whole and of no family here is told of; a broken one is one line. */
    bool known = s == STATUS_OK;
    if (path != NULL && (known || s == STATUS_BAD_MODEL)) {
        struct status_note why = note;
        s = krn_survey(path, &x.survey, &note);
        note = known || s == STATUS_OK ? why : note;
        s = known ? STATUS_OK : s;
    }
    if (s == STATUS_OK) {
        if (known)
            x.net_status = krn_net_build(x.model, &x.net, &x.net_note);
        x.tokenizer_status = lane_vocabulary_open(path, &x.tokenizer, &x.tokenizer_note);
        json_t *j = known ? info_json(&x, path) : info_survey_json(&x, path, note.text);
        CHECK(j != NULL);
        if (options_has(o, OPT_json_lines))
            info_write(j);
        else
            info_print(j);
        json_decref(j);
    } else {
        fprintf(stderr, "roundhouse info: %s\n", note.text);
    }
    if (x.tokenizer != NULL)
        lane_tokenizer_close(x.tokenizer);
    if (x.model != NULL && x.net_status == STATUS_OK)
        krn_net_free(&x.net);
    if (x.model != NULL)
        krn_model_close(x.model);
    free(o);
    return (int)program_exit_of(s);
}
