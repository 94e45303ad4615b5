/* SPDX-License-Identifier: Apache-2.0
 * roundhouse tokenize and detokenize: text to token ids and back, byte for byte. With --json a line
 * of standard input is a JSON string (or id array) and a line of output its id array (or its bytes
 * in hex, as a JSON string).
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/programs/input.h"
#include "lanes/programs/options.h"
#include "lanes/vocabulary.h"

struct tokens {
    const char *program;
    struct options options;
    struct lane_tokenizer *t;
    uint32_t *ids, n, capacity;
    struct status_note note;
};

static enum status tokens_open(struct tokens *x, uint32_t program, int argc, char **argv) {
    x->program = argv[0];
    TRY(options_parse(program, argc, argv, &x->options, &x->note));
    return lane_vocabulary_open(options_text(&x->options, OPT_model, options_default_model()),
                                &x->t, &x->note);
}

/* Calls one for each line of standard input, without its newline; the note gains the line's number.
 */
static enum status tokens_lines(struct tokens *x,
                                enum status (*one)(struct tokens *x, const char *line, size_t n)) {
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    enum status status = STATUS_OK;
    for (unsigned long number = 1; status == STATUS_OK && (n = getline(&line, &room, stdin)) >= 0;
         number++) {
        if (n > 0 && line[n - 1] == '\n')
            n--;
        status = one(x, line, (size_t)n);
        if (status != STATUS_OK) {
            struct status_note why = x->note;
            status_say(&x->note, status, "line %lu: %.280s", number, why.text);
        }
    }
    if (status == STATUS_OK && ferror(stdin))
        status = status_say(&x->note, STATUS_IO, "standard input cannot be read");
    free(line);
    return status;
}

/* Prints what is still unwritten, frees everything and says what went wrong. */
static int tokens_close(struct tokens *x, enum status status) {
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == STATUS_OK)
        status = status_say(&x->note, STATUS_IO, "standard output cannot be written");
    if (status != STATUS_OK)
        fprintf(stderr, "roundhouse %s: %s\n", x->program,
                x->note.text[0] != '\0' ? x->note.text : status_text(status));
    if (x->t != NULL)
        lane_tokenizer_close(x->t);
    free(x->ids);
    free(x);
    return (int)program_exit_of(status);
}

static enum status encode(struct tokens *x, const char *text, size_t n) {
    uint32_t flags = options_has(&x->options, OPT_special) ? LANE_ENCODE_SPECIAL : 0;
    bool json = options_has(&x->options, OPT_json_lines);
    x->n = 0;
    TRY(lane_tokenizer_encode(x->t, text, n, flags, 0, &x->ids, &x->n, &x->capacity, &x->note));
    if (json)
        putchar('[');
    for (uint32_t i = 0; i < x->n; i++)
        printf("%s%u", i == 0 ? "" : json ? "," : " ", x->ids[i]);
    puts(json ? "]" : "");
    return STATUS_OK;
}

static enum status encode_line(struct tokens *x, const char *line, size_t n) {
    json_error_t error;
    json_t *text = json_loadb(line, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    enum status status;
    if (json_is_string(text))
        status = encode(x, json_string_value(text), json_string_length(text));
    else
        status = status_say(&x->note, STATUS_BAD_REQUEST, "not a JSON string%s%s",
                            text == NULL ? ": " : "", text == NULL ? error.text : "");
    json_decref(text);
    return status;
}

int program_tokenize(int argc, char **argv) {
    struct tokens *x = calloc(1, sizeof *x);
    if (x == NULL)
        return EXIT_NO_RESOURCES;
    enum status status = tokens_open(x, P_TOKENIZE, argc, argv);
    bool json = options_has(&x->options, OPT_json_lines);
    if (status == STATUS_OK && json && x->options.n_args > 0)
        status = status_say(&x->note, STATUS_BAD_REQUEST,
                            "with --json the texts are JSON strings on standard input, not words");
    for (uint32_t i = 0; status == STATUS_OK && i < x->options.n_args; i++)
        status = encode(x, x->options.args[i], strlen(x->options.args[i]));
    if (status == STATUS_OK && json) {
        status = tokens_lines(x, encode_line);
    } else if (status == STATUS_OK && x->options.n_args == 0) {
        char *text = NULL;
        size_t n = 0;
        status = input_read("-", &text, &n, &x->note);
        if (status == STATUS_OK)
            status = encode(x, text, n);
        free(text);
    }
    return tokens_close(x, status);
}

/* The bytes of one id; BAD_TOKEN when there is no such id. */
static enum status token_bytes(struct tokens *x, long long id, const char **bytes, uint32_t *n) {
    *n = 0;
    if (id >= 0 && id < lane_tokenizer_vocab(x->t))
        *bytes = lane_tokenizer_bytes(x->t, (uint32_t)id, n);
    if (*n != 0)
        return STATUS_OK;
    return status_say(&x->note, STATUS_BAD_TOKEN, "%lld is not a token id of this vocabulary", id);
}

/* Every element a whole number and a token, before anything of the line is printed. */
static enum status decode_check(struct tokens *x, const json_t *ids) {
    const char *bytes;
    uint32_t n;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id))
            return status_say(&x->note, STATUS_BAD_REQUEST, "element %zu is not a whole number", i);
        TRY(token_bytes(x, json_integer_value(id), &bytes, &n));
    }
    return STATUS_OK;
}

static enum status decode_line(struct tokens *x, const char *line, size_t length) {
    json_error_t error;
    json_t *ids = json_loadb(line, length, 0, &error);
    const char *bytes = "";
    uint32_t n;
    enum status status = STATUS_OK;
    if (!json_is_array(ids))
        status = status_say(&x->note, STATUS_BAD_REQUEST, "not a JSON array of ids%s%s",
                            ids == NULL ? ": " : "", ids == NULL ? error.text : "");
    else
        status = decode_check(x, ids);
    if (status == STATUS_OK)
        putchar('"');
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(ids); i++) {
        status = token_bytes(x, json_integer_value(json_array_get(ids, i)), &bytes, &n);
        for (uint32_t k = 0; k < n; k++)
            printf("%02x", (unsigned)(unsigned char)bytes[k]);
    }
    if (status == STATUS_OK)
        puts("\"");
    json_decref(ids);
    return status;
}

/* Ids in words of text, between any white space and commas. */
static enum status decode_words(struct tokens *x, const char *text) {
    static const char between[] = " \t\r\n,[]";
    const char *bytes = "";
    uint32_t n;
    for (text += strspn(text, between); *text != '\0'; text += strspn(text, between)) {
        char *end;
        long long id = strtoll(text, &end, 10);
        if (end == text || (*end != '\0' && strchr(between, *end) == NULL))
            return status_say(&x->note, STATUS_BAD_REQUEST,
                              "'%.40s' does not begin with a token id", text);
        TRY(token_bytes(x, id, &bytes, &n));
        fwrite(bytes, 1, n, stdout);
        text = end;
    }
    return STATUS_OK;
}

int program_detokenize(int argc, char **argv) {
    struct tokens *x = calloc(1, sizeof *x);
    if (x == NULL)
        return EXIT_NO_RESOURCES;
    enum status status = tokens_open(x, P_DETOKENIZE, argc, argv);
    bool json = options_has(&x->options, OPT_json_lines);
    if (status == STATUS_OK && json && x->options.n_args > 0)
        status = status_say(&x->note, STATUS_BAD_REQUEST,
                            "with --json the ids are arrays on standard input, not words");
    for (uint32_t i = 0; status == STATUS_OK && i < x->options.n_args; i++)
        status = decode_words(x, x->options.args[i]);
    if (status == STATUS_OK && json) {
        status = tokens_lines(x, decode_line);
    } else if (status == STATUS_OK && x->options.n_args == 0) {
        char *text = NULL;
        size_t n = 0;
        status = input_read("-", &text, &n, &x->note);
        if (status == STATUS_OK && strlen(text) != n)
            status = status_say(&x->note, STATUS_BAD_REQUEST, "a zero byte among the ids");
        if (status == STATUS_OK)
            status = decode_words(x, text);
        free(text);
    }
    return tokens_close(x, status);
}
