/* SPDX-License-Identifier: Apache-2.0
 * Opens and closes a tokenizer and answers what it knows of its tokens.
 */
#include "lanes/text/tokenizer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/check.h"
#include "lanes/text/load.h"
#include "lanes/text/utf8.h"

static enum status parse_json(const char *name, const char *text, size_t n, json_t **out,
                              struct status_note *note) {
    json_error_t error;
    if (n > TEXT_FILE_BYTES_MAX)
        return status_say(note, STATUS_TOO_LARGE, "%s: %zu bytes are over the limit of %d", name, n,
                          TEXT_FILE_BYTES_MAX);
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (*out == NULL)
        return status_say(note, STATUS_BAD_FILE, "%s: line %d: %s", name, error.line, error.text);
    if (json_is_object(*out))
        return STATUS_OK;
    json_decref(*out);
    *out = NULL;
    return status_say(note, STATUS_BAD_FILE, "%s: not a JSON object", name);
}

/* chat_template: a text, or a list of named texts of which "default" counts. */
static enum status load_template(struct lane_tokenizer *t, const char *name, const json_t *config,
                                 struct status_note *note) {
    const json_t *text = json_object_get(config, "chat_template");
    if (json_is_array(text)) {
        const json_t *list = text;
        text = NULL;
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *key = json_object_get(json_array_get(list, i), "name");
            if (json_is_string(key) && strcmp(json_string_value(key), "default") == 0)
                text = json_object_get(json_array_get(list, i), "template");
        }
    }
    if (!json_is_string(text))
        return STATUS_OK;
    t->template_text = strdup(json_string_value(text));
    if (t->template_text == NULL)
        return status_say(note, STATUS_NO_MEMORY, "%s: no memory for the chat template", name);
    return STATUS_OK;
}

static enum status load(struct lane_tokenizer *t, const char *name, const json_t *root,
                        json_t *config, struct status_note *note) {
    TRY(lane_text_load_model(t, name, root, note));
    TRY(lane_text_load_added(t, name, root, config, note));
    TRY(lane_text_load_pipeline(t, name, root, config, note));
    TRY(lane_text_index(t, name, note));
    return load_template(t, name, config, note);
}

/* Texts of a file may stand in the note: nothing in it may move a terminal's cursor or cut a
 * character. */
void lane_text_note_clean(struct status_note *note) {
    size_t n = note == NULL ? 0 : strlen(note->text), length;
    for (size_t at = 0; at < n; at += length) {
        bool whole = lane_utf8_next(note->text + at, n - at, &length) == UTF8_WHOLE;
        uint32_t point = whole ? lane_utf8_point(note->text + at, length) : 0;
        if (point < 0x20 || (point >= 0x7F && point < 0xA0) || (point >= 0x2028 && point < 0x2070))
            memset(note->text + at, '?', length);
    }
}

enum status lane_tokenizer_parse(const char *name, const char *json, size_t n, const char *config,
                                 size_t n_config, struct lane_tokenizer **out,
                                 struct status_note *note) {
    json_t *root = NULL, *settings = NULL;
    struct lane_tokenizer *t = NULL;
    *out = NULL;
    enum status status = parse_json(name, json, n, &root, note);
    if (status == STATUS_OK && config != NULL)
        status = parse_json("tokenizer_config.json", config, n_config, &settings, note);
    if (status != STATUS_OK)
        goto out;
    t = calloc(1, sizeof *t);
    if (t == NULL) {
        status = status_say(note, STATUS_NO_MEMORY, "%s: no memory for a tokenizer", name);
        goto out;
    }
    t->bos = t->eos = t->unk = -1;
    status = load(t, name, root, settings, note);
    if (status == STATUS_OK)
        lane_text_template_open(t);
out:
    json_decref(root);
    json_decref(settings);
    if (status == STATUS_OK)
        *out = t;
    else
        lane_tokenizer_close(t);
    if (status != STATUS_OK)
        lane_text_note_clean(note);
    return status;
}

static void set_close(struct text_added_set *set) {
    for (uint32_t i = 0; i < set->n; i++)
        free(set->items[i].text);
    free(set->items);
}

void lane_tokenizer_close(struct lane_tokenizer *t) {
    if (t == NULL)
        return;
    for (uint32_t i = 0; i < t->n_stages; i++)
        pcre2_code_free(t->stages[i].pattern);
    pcre2_code_free(t->word_character);
    set_close(&t->raw);
    set_close(&t->normalized);
    free(t->tokens);
    free(t->pool);
    free(t->merges);
    free(t->words);
    free(t->order);
    free(t->scores);
    free(t->sorted);
    free(t->template_text);
    free(t->template_system);
    free(t);
}

/* Reads a whole file of at most `most` bytes, ended by a NUL that is not counted. NOT_FOUND leaves
 * note alone. */
static enum status read_file(const char *path, size_t most, char **out, size_t *n,
                             struct status_note *note) {
    struct stat about;
    char *bytes = NULL;
    enum status status = STATUS_IO;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us here */
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return STATUS_NOT_FOUND;
    if (fd < 0 || fstat(fd, &about) != 0) {
        status_say(note, status, "%s: %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(about.st_mode)) {
        status = status_say(note, STATUS_BAD_FILE, "%s: not a regular file", path);
        goto out;
    }
    if ((uint64_t)about.st_size > most) {
        status = status_say(note, STATUS_TOO_LARGE, "%s: %lld bytes are over the limit of %zu",
                            path, (long long)about.st_size, most);
        goto out;
    }
    *n = 0;
    bytes = malloc((size_t)about.st_size + 1);
    if (bytes == NULL) {
        status = status_say(note, STATUS_NO_MEMORY, "%s: no memory for its bytes", path);
        goto out;
    }
    while (*n < (size_t)about.st_size) {
        ssize_t got = read(fd, bytes + *n, (size_t)about.st_size - *n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            status_say(note, status, "%s: %s", path,
                       got < 0 ? strerror(errno) : "shorter than it was a moment ago");
            goto out;
        }
        *n += (size_t)got;
    }
    bytes[*n] = '\0';
    *out = bytes;
    bytes = NULL;
    status = STATUS_OK;
out:
    free(bytes);
    if (fd >= 0)
        close(fd);
    return status;
}

static enum status read_model_file(const char *model_path, const char *file, size_t most,
                                   char **out, size_t *n, char path[4096],
                                   struct status_note *note) {
    if (snprintf(path, 4096, "%s/%s", model_path, file) >= 4096)
        return status_say(note, STATUS_BAD_REQUEST, "the model path is longer than 4,000 bytes");
    return read_file(path, most, out, n, note);
}

/* A chat_template.jinja beside the tokenizer replaces the template of its configuration. */
static enum status open_template(struct lane_tokenizer *t, const char *model_path,
                                 struct status_note *note) {
    char path[4096], *text = NULL;
    size_t n;
    enum status status = read_model_file(model_path, "chat_template.jinja", TEXT_TEMPLATE_BYTES_MAX,
                                         &text, &n, path, note);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    TRY(status);
    free(t->template_text);
    CHECK(text != NULL);
    t->template_text = text;
    if (strlen(text) != n)
        return status_say(note, STATUS_BAD_FILE, "%s: a zero byte in a chat template", path);
    lane_text_template_open(t);
    return STATUS_OK;
}

enum status lane_tokenizer_open(const char *model_path, struct lane_tokenizer **out,
                                struct status_note *note) {
    char path[4096], config_path[4096], *json = NULL, *config = NULL;
    size_t n = 0, n_config = 0;
    *out = NULL;
    enum status status =
        read_model_file(model_path, "tokenizer.json", TEXT_FILE_BYTES_MAX, &json, &n, path, note);
    struct stat about;
    if (status == STATUS_NOT_FOUND && stat(model_path, &about) == 0 && !S_ISDIR(about.st_mode))
        return status_say(note, status, "%s: not a model directory", model_path);
    if (status == STATUS_NOT_FOUND)
        return status_say(note, status, "%s: no such file", path);
    TRY(status);
    status = read_model_file(model_path, "tokenizer_config.json", TEXT_FILE_BYTES_MAX, &config,
                             &n_config, config_path, note);
    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        status = lane_tokenizer_parse(path, json, n, config, n_config, out, note);
    free(json);
    free(config);
    TRY(status);
    status = open_template(*out, model_path, note);
    if (status != STATUS_OK) {
        lane_tokenizer_close(*out);
        *out = NULL;
    }
    return status;
}

uint32_t lane_tokenizer_vocab(const struct lane_tokenizer *t) {
    return t->vocab;
}

int64_t lane_tokenizer_bos(const struct lane_tokenizer *t) {
    return t->bos;
}

bool lane_tokenizer_adds_bos(const struct lane_tokenizer *t) {
    return t->adds_bos;
}

bool lane_tokenizer_is_special(const struct lane_tokenizer *t, uint32_t id) {
    return id < t->vocab && (t->tokens[id].flags & TEXT_SPECIAL) != 0;
}

int64_t lane_tokenizer_id(const struct lane_tokenizer *t, const char *special) {
    return lane_text_added_id(t, special, strlen(special));
}

const char *lane_tokenizer_bytes(const struct lane_tokenizer *t, uint32_t id, uint32_t *n) {
    if (id >= t->vocab) {
        *n = 0;
        return "";
    }
    *n = t->tokens[id].bytes;
    return *n == 0 ? "" : t->pool + t->tokens[id].offset;
}

uint32_t lane_tokenizer_bytes_max(const struct lane_tokenizer *t) {
    return t->bytes_max;
}
