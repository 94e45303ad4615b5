/* SPDX-License-Identifier: Apache-2.0
 * Opening the weight files of a directory.
 */
#include "kernels/weights/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/weights/json.h"

static const char single_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

enum status krn_path_join(char path[KRN_PATH_MAX], const char *dir, const char *name,
                          struct status_note *note) {
    char label[KRN_LABEL_BYTES];
    int n = snprintf(path, KRN_PATH_MAX, "%s/%s", dir, name);
    if (n < 0 || n >= KRN_PATH_MAX)
        return status_say(note, STATUS_TOO_LARGE, "%s: the path is over %d bytes",
                          krn_label(label, dir), KRN_PATH_MAX - 1);
    return STATUS_OK;
}

static enum status shards_room(struct krn_shards *s, uint32_t n, const char *label,
                               struct status_note *note) {
    s->files = calloc(n, sizeof *s->files);
    s->tables = calloc(n, sizeof *s->tables);
    if (s->files == NULL || s->tables == NULL)
        return status_say(note, STATUS_NO_MEMORY, "%s: no memory for %u weight files", label, n);
    return STATUS_OK;
}

/* Maps and parses the next file; it belongs to s even when the parse fails. */
static enum status shard_open(struct krn_shards *s, const char *dir, const char *name,
                              struct status_note *note) {
    char path[KRN_PATH_MAX], label[KRN_LABEL_BYTES];
    TRY(krn_path_join(path, dir, name, note));
    struct krn_file *file = &s->files[s->n];
    TRY(krn_file_open(path, UINT64_MAX, file, note));
    s->n++;
    return krn_table_parse(krn_label(label, path), file->bytes, file->size, &s->tables[s->n - 1],
                           note);
}

/* A plain file name of this directory: nothing that could leave it. */
static bool plain_name(const char *name) {
    static const char ending[] = ".safetensors";
    size_t n = strlen(name), tail = sizeof ending - 1;
    return n > tail && n <= 255 && name[0] != '.' && strchr(name, '/') == NULL &&
           strchr(name, '\\') == NULL && strcmp(name + n - tail, ending) == 0;
}

/* The distinct files of the map, as keys of *out in the order of their first mention. */
static enum status index_files(const char *label, const json_t *map, json_t *files,
                               struct status_note *note) {
    const char *tensor;
    json_t *value;
    char quoted[KRN_QUOTE_BYTES], where[KRN_QUOTE_BYTES];
    json_object_foreach((json_t *)(uintptr_t)map, tensor, value) {
        if (!json_is_string(value))
            return status_say(note, STATUS_BAD_FILE,
                              "%s: tensor %s maps to something else than a name", label,
                              krn_quote(quoted, tensor));
        const char *name = json_string_value(value);
        if (!plain_name(name))
            return status_say(note, STATUS_BAD_FILE,
                              "%s: tensor %s maps to \"%s\", not a plain .safetensors file name",
                              label, krn_quote(quoted, tensor), krn_quote(where, name));
        if (json_object_get(files, name) == NULL &&
            json_object_set_new(files, name, json_true()) != 0)
            return status_say(note, STATUS_NO_MEMORY, "%s: no memory for its file names", label);
    }
    if (json_object_size(files) > KRN_SHARDS_MAX)
        return status_say(note, STATUS_BAD_FILE, "%s: names %zu files, at most %d are allowed",
                          label, json_object_size(files), KRN_SHARDS_MAX);
    return STATUS_OK;
}

/* Takes the tensors of the shard `name` out of the map; each must have been there with this file.
 */
static enum status index_settle(const char *label, json_t *map, const char *name,
                                const struct krn_table *table, struct status_note *note) {
    char quoted[KRN_QUOTE_BYTES], where[KRN_QUOTE_BYTES], other[KRN_QUOTE_BYTES];
    krn_quote(where, name);
    for (uint32_t i = 0; i < table->n; i++) {
        const char *tensor = table->entries[i].name;
        const char *mapped = json_string_value(json_object_get(map, tensor));
        if (mapped == NULL)
            return status_say(note, STATUS_BAD_FILE,
                              "%s: tensor %s of %s is not in the index, or in an earlier file too",
                              label, krn_quote(quoted, tensor), where);
        if (strcmp(mapped, name) != 0)
            return status_say(note, STATUS_BAD_FILE, "%s: tensor %s maps to %s but is in %s", label,
                              krn_quote(quoted, tensor), krn_quote(other, mapped), where);
        json_object_del(map, tensor);
    }
    return STATUS_OK;
}

static enum status index_open_files(const char *dir, const char *label, json_t *map, json_t *files,
                                    struct krn_shards *out, struct status_note *note) {
    TRY(index_files(label, map, files, note));
    if (json_object_size(files) == 0)
        return status_say(note, STATUS_BAD_FILE, "%s: weight_map is empty", label);
    TRY(shards_room(out, (uint32_t)json_object_size(files), label, note));
    const char *name;
    json_t *value;
    json_object_foreach(files, name, value) {
        TRY(shard_open(out, dir, name, note));
        TRY(index_settle(label, map, name, &out->tables[out->n - 1], note));
    }
    json_object_foreach(map, name, value) {
        char quoted[KRN_QUOTE_BYTES], where[KRN_QUOTE_BYTES];
        return status_say(note, STATUS_BAD_FILE, "%s: tensor %s is not in %s", label,
                          krn_quote(quoted, name), krn_quote(where, json_string_value(value)));
    }
    return STATUS_OK;
}

static enum status index_open(const char *dir, const char *path, struct krn_shards *out,
                              struct status_note *note) {
    char label[KRN_LABEL_BYTES];
    krn_label(label, path);
    struct krn_file file;
    json_t *root;
    TRY(krn_file_open(path, KRN_INDEX_FILE_MAX, &file, note));
    enum status status = krn_json_object(label, file.bytes, (size_t)file.size, &root, note);
    krn_file_close(&file);
    TRY(status);
    json_t *files = json_object();
    json_t *map = json_object_get(root, "weight_map");
    if (files == NULL)
        status = status_say(note, STATUS_NO_MEMORY, "%s: no memory for its file names", label);
    else if (!json_is_object(map))
        status = status_say(note, STATUS_BAD_FILE, "%s: weight_map is %s", label,
                            map == NULL ? "missing" : "not an object");
    else
        status = index_open_files(dir, label, map, files, out, note);
    json_decref(files);
    json_decref(root);
    return status;
}

static enum status nothing_there(const char *dir, struct status_note *note) {
    static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                         "consolidated.00.pth"};
    char path[KRN_PATH_MAX], label[KRN_LABEL_BYTES];
    struct stat st;
    krn_label(label, dir);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (krn_path_join(path, dir, others[i], NULL) == STATUS_OK && stat(path, &st) == 0)
            return status_say(note, STATUS_BAD_MODEL, "%s: has %s; this build reads %s or %s",
                              label, others[i], single_name, index_name);
    return status_say(note, STATUS_NOT_FOUND, "%s: has neither %s nor %s", label, single_name,
                      index_name);
}

static int place_order(const void *a, const void *b) {
    const struct krn_place *x = a, *y = b;
    return strcmp(x->entry->name, y->entry->name);
}

/* All tensors by name. */
static enum status places_sort(struct krn_shards *s, const char *dir, struct status_note *note) {
    char label[KRN_LABEL_BYTES];
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        n += s->tables[i].n;
    if (n == 0)
        return STATUS_OK;
    s->places = calloc(n, sizeof *s->places);
    if (s->places == NULL)
        return status_say(note, STATUS_NO_MEMORY, "%s: no memory for the places of its tensors",
                          krn_label(label, dir));
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t e = 0; e < s->tables[i].n; e++)
            s->places[s->n_places++] = (struct krn_place){&s->tables[i].entries[e], i};
    qsort(s->places, n, sizeof *s->places, place_order);
    return STATUS_OK;
}

/* A name in two parts. */
struct place_name {
    const char *first, *second;
    size_t first_bytes;
};

static int place_compare(const void *key, const void *place) {
    const struct place_name *k = key;
    const char *name = ((const struct krn_place *)place)->entry->name;
    int order = strncmp(k->first, name, k->first_bytes);
    return order != 0 ? order : strcmp(k->second, name + k->first_bytes);
}

const struct krn_place *krn_shards_find(const struct krn_shards *shards, const char *first,
                                        const char *second) {
    const struct place_name key = {first, second, strlen(first)};
    if (shards->n_places == 0)
        return NULL;
    return bsearch(&key, shards->places, shards->n_places, sizeof *shards->places, place_compare);
}

enum status krn_shards_open(const char *dir, struct krn_shards *out, struct status_note *note) {
    char single[KRN_PATH_MAX], index[KRN_PATH_MAX];
    struct stat st;
    *out = (struct krn_shards){0};
    TRY(krn_path_join(single, dir, single_name, note));
    TRY(krn_path_join(index, dir, index_name, note));
    enum status status;
    if (lstat(single, &st) == 0) { /* a dangling link is an error of its own, not an absence */
        status = shards_room(out, 1, single_name, note);
        if (status == STATUS_OK)
            status = shard_open(out, dir, single_name, note);
    } else if (lstat(index, &st) == 0) {
        status = index_open(dir, index, out, note);
    } else {
        return nothing_there(dir, note);
    }
    if (status == STATUS_OK)
        status = places_sort(out, dir, note);
    if (status != STATUS_OK)
        krn_shards_close(out);
    return status;
}

void krn_shards_close(struct krn_shards *shards) {
    for (uint32_t i = 0; i < shards->n; i++) {
        krn_table_free(&shards->tables[i]);
        krn_file_close(&shards->files[i]);
    }
    free(shards->files);
    free(shards->tables);
    free(shards->places);
    *shards = (struct krn_shards){0};
}
