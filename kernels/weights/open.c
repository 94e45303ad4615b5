/* SPDX-License-Identifier: Apache-2.0
 * A model's path becomes a krn_model: a GGUF file, or a directory's configuration, files, tensors
 * and fingerprint.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/model.h"
#include "kernels/weights/config_json.h"
#include "kernels/weights/fp8.h"
#include "kernels/weights/gguf_model.h"
#include "kernels/weights/json.h"
#include "kernels/weights/shards.h"
#include "kernels/weights/store.h"

static bool ends_in_gguf(const char *name) {
    static const char ending[] = ".gguf";
    size_t n = strlen(name), tail = sizeof ending - 1;
    return n > tail && strcmp(name + n - tail, ending) == 0;
}

static bool begins_as_gguf(const char *path) {
    struct krn_file file;
    struct status_note unused;
    if (krn_file_open(path, UINT64_MAX, &file, &unused) != STATUS_OK)
        return false;
    bool magic = krn_gguf_magic(file.bytes, file.size);
    krn_file_close(&file);
    return magic;
}

/* The one .gguf file of a directory without config.json; an empty path when there is none. */
static enum status gguf_in(const char *dir, char path[KRN_PATH_MAX], struct status_note *note) {
    char label[KRN_LABEL_BYTES];
    struct stat st;
    TRY(krn_path_join(path, dir, "config.json", note));
    bool configured = lstat(path, &st) == 0;
    path[0] = '\0';
    DIR *d = configured ? NULL : opendir(dir);
    if (d == NULL)
        return STATUS_OK; /* what is wrong with it is said by who reads it next */
    enum status status = STATUS_OK;
    for (struct dirent *e; status == STATUS_OK && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.' || !ends_in_gguf(e->d_name))
            continue;
        if (path[0] != '\0')
            status = status_say(note, STATUS_BAD_FILE,
                                "%s: holds several .gguf files; name the one to open",
                                krn_label(label, dir));
        else
            status = krn_path_join(path, dir, e->d_name, note);
    }
    closedir(d);
    return status;
}

enum status krn_gguf_path(const char *path, char gguf[KRN_PATH_MAX], struct status_note *note) {
    char label[KRN_LABEL_BYTES];
    struct stat st;
    krn_label(label, path);
    gguf[0] = '\0';
    if (stat(path, &st) != 0)
        return status_say(note, errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_IO,
                          "%s: no model directory: %s", label, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return gguf_in(path, gguf, note);
    if (!ends_in_gguf(path) && !begins_as_gguf(path))
        return status_say(note, STATUS_BAD_FILE,
                          "%s: is a file, not a .gguf one; a directory with config.json and "
                          "model.safetensors is expected",
                          label);
    int n = snprintf(gguf, KRN_PATH_MAX, "%s", path);
    if (n < 0 || n >= KRN_PATH_MAX)
        return status_say(note, STATUS_TOO_LARGE, "%s: the path is over %d bytes", label,
                          KRN_PATH_MAX - 1);
    return STATUS_OK;
}

static enum status config_open(const char *dir, struct krn_config *out, struct status_note *note) {
    char path[KRN_PATH_MAX], generation_path[KRN_PATH_MAX];
    char label[KRN_LABEL_BYTES], generation_label[KRN_LABEL_BYTES];
    struct krn_file config = {0}, generation = {0};
    struct stat st;
    TRY(krn_path_join(path, dir, "config.json", note));
    TRY(krn_path_join(generation_path, dir, "generation_config.json", note));
    TRY(krn_file_open(path, KRN_JSON_FILE_MAX, &config, note));
    enum status status = STATUS_OK;
    if (lstat(generation_path, &st) == 0) /* optional */
        status = krn_file_open(generation_path, KRN_JSON_FILE_MAX, &generation, note);
    if (status == STATUS_OK)
        status = krn_config_parse(krn_label(label, path), config.bytes, (size_t)config.size,
                                  krn_label(generation_label, generation_path), generation.bytes,
                                  (size_t)generation.size, out, note);
    krn_file_close(&config);
    krn_file_close(&generation);
    return status;
}

struct totals {
    uint64_t tensors, unusable, misaligned, name_bytes;
};

static bool aligned(const struct krn_file *file, const struct krn_entry *e) {
    return (uintptr_t)(file->bytes + e->offset) % krn_dtype_bytes(e->type) == 0;
}

static void count(const struct krn_shards *shards, struct totals *t) {
    for (uint32_t s = 0; s < shards->n; s++) {
        for (uint32_t i = 0; i < shards->tables[s].n; i++) {
            const struct krn_entry *e = &shards->tables[s].entries[i];
            t->name_bytes += strlen(e->name) + 1;
            t->tensors += e->usable;
            t->unusable += !e->usable;
            t->misaligned += e->usable && !aligned(&shards->files[s], e);
        }
    }
}

static enum status adopt(struct krn_model *model, const struct krn_shards *shards,
                         const struct krn_file *file, const struct krn_entry *e, char **names,
                         struct status_note *note) {
    struct krn_store *store = model->store;
    if (krn_fp8_is_scale(&model->config, shards, e))
        return STATUS_OK;
    size_t name_bytes = strlen(e->name) + 1;
    const char *name = memcpy(*names, e->name, name_bytes);
    *names += name_bytes;
    if (krn_fp8_is(&model->config, e))
        return krn_fp8_widen(model, shards, store->files, file, e, name, note);
    if (!e->usable) {
        store->unusable[store->n_unusable++] = (struct krn_unusable){
            .name = name, .dtype = e->dtype, .n_dims = e->n_dims, .bytes = e->bytes};
        return STATUS_OK;
    }
    const void *data = file->bytes + e->offset;
    if (!aligned(file, e)) {
        void *copy = krn_store_block(model, e->bytes);
        char quoted[KRN_QUOTE_BYTES];
        if (copy == NULL)
            return status_say(note, STATUS_NO_MEMORY, "no memory to align tensor %s",
                              krn_quote(quoted, name));
        memcpy(copy, data, (size_t)e->bytes);
        data = copy;
    }
    struct krn_tensor *t = (struct krn_tensor *)(uintptr_t)&model->tensors[model->n_tensors++];
    *t = (struct krn_tensor){
        .name = name, .dtype = e->type, .n_dims = e->n_dims, .data = data, .bytes = e->bytes};
    memcpy(t->dims, e->dims, sizeof t->dims);
    return STATUS_OK;
}

/* Takes the mappings over from shards, also when it fails. */
static enum status fill(struct krn_model *model, struct krn_shards *shards,
                        const struct totals *totals, struct status_note *note) {
    struct krn_store *store = model->store;
    for (uint32_t s = 0; s < shards->n; s++) {
        store->files[store->n_files++] = shards->files[s];
        shards->files[s] = (struct krn_file){0};
    }
    char *names = krn_store_block(model, totals->name_bytes);
    if (names == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the tensors' names");
    for (uint32_t s = 0; s < shards->n; s++)
        for (uint32_t i = 0; i < shards->tables[s].n; i++)
            TRY(adopt(model, shards, &store->files[s], &shards->tables[s].entries[i], &names,
                      note));
    return krn_store_seal(model, note);
}

static enum status directory_open(const char *path, struct krn_model **out,
                                  struct status_note *note) {
    struct krn_config config;
    struct krn_shards shards;
    struct totals totals = {0};
    TRY(config_open(path, &config, note));
    TRY(krn_shards_open(path, &shards, note));
    count(&shards, &totals);
    enum status status = STATUS_OK;
    struct krn_model *model = NULL;
    if (totals.tensors + totals.unusable > KRN_TENSORS_MAX) {
        char label[KRN_LABEL_BYTES];
        status =
            status_say(note, STATUS_BAD_FILE, "%s: %llu tensors, at most %d are allowed",
                       krn_label(label, path),
                       (unsigned long long)(totals.tensors + totals.unusable), KRN_TENSORS_MAX);
        goto out;
    }
    uint32_t fp8 = krn_fp8_count(&config, &shards);
    model = krn_store_new((uint32_t)totals.tensors + fp8, shards.n,
                          (uint32_t)totals.misaligned + fp8 + 1, (uint32_t)totals.unusable);
    if (model == NULL) {
        status = status_say(note, STATUS_NO_MEMORY, "no memory for the model's tables");
        goto out;
    }
    model->config = config;
    status = fill(model, &shards, &totals, note);
out:
    krn_shards_close(&shards);
    if (status == STATUS_OK)
        *out = model;
    else
        krn_model_close(model);
    return status;
}

enum status krn_model_open(const char *path, struct krn_model **out, struct status_note *note) {
    char gguf[KRN_PATH_MAX];
    TRY(krn_gguf_path(path, gguf, note));
    return gguf[0] != '\0' ? krn_gguf_open(gguf, out, note) : directory_open(path, out, note);
}
