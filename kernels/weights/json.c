/* SPDX-License-Identifier: Apache-2.0
 * Bounded JSON parsing in front of jansson, and typed fields behind it.
 */
#include "kernels/weights/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *krn_label(char out[KRN_LABEL_BYTES], const char *path) {
    size_t n = strlen(path);
    const char *from = path;
    const char *dots = "";
    if (n > KRN_LABEL_BYTES - 4) {
        from = path + (n - (KRN_LABEL_BYTES - 4));
        while (((unsigned char)*from & 0xc0) == 0x80)
            from++; /* not within a character */
        dots = "...";
    }
    snprintf(out, KRN_LABEL_BYTES, "%s%s", dots, from);
    for (char *c = out; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return out;
}

const char *krn_quote(char out[KRN_QUOTE_BYTES], const char *name) {
    static const char hex[] = "0123456789abcdef";
    size_t at = 0;
    for (const unsigned char *c = (const unsigned char *)name; *c != '\0'; c++) {
        if (at + 8 > KRN_QUOTE_BYTES) { /* room for an escape, the dots and the end */
            memcpy(out + at, "...", 3);
            at += 3;
            break;
        }
        if (*c >= 0x20 && *c < 0x7f && *c != '\\') {
            out[at++] = (char)*c;
        } else {
            out[at++] = '\\';
            out[at++] = 'x';
            out[at++] = hex[*c >> 4];
            out[at++] = hex[*c & 15];
        }
    }
    out[at] = '\0';
    return out;
}

/* Depth and number of values before anything is allocated; strings are skipped with their escapes.
 */
static enum status json_bounds(const char *file, const char *bytes, size_t n,
                               struct status_note *note) {
    unsigned depth = 0;
    size_t values = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        char c = bytes[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
            continue;
        }
        if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            values++;
            if (++depth > KRN_JSON_DEPTH_MAX)
                return status_say(note, STATUS_BAD_FILE,
                                  "%s: JSON nests deeper than %d at byte %zu", file,
                                  KRN_JSON_DEPTH_MAX, i);
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        } else if (c == ',') {
            values++;
        }
        if (values > KRN_JSON_VALUES_MAX)
            return status_say(note, STATUS_BAD_FILE, "%s: JSON holds more than %d values", file,
                              KRN_JSON_VALUES_MAX);
    }
    return STATUS_OK;
}

/* Where a fault at byte `end` lies, as " in outer.inner": the keys that are open there. The parser
 * has accepted the text before `end`. */
static void json_place(const char *bytes, size_t end, char out[2 * KRN_QUOTE_BYTES]) {
    struct {
        size_t at, n;
    } keys[KRN_JSON_DEPTH_MAX + 1] = {0};
    unsigned depth = 0;
    for (size_t i = 0; i < end; i++) {
        if (bytes[i] == '{' || bytes[i] == '[') {
            depth += depth < KRN_JSON_DEPTH_MAX;
            keys[depth].n = 0;
        } else if (bytes[i] == '}' || bytes[i] == ']') {
            depth -= depth > 0;
        } else if (bytes[i] == '"') {
            size_t begin = ++i;
            while (i < end && bytes[i] != '"')
                i += bytes[i] == '\\' ? 2 : 1;
            size_t colon = i + 1;
            while (colon < end && strchr(" \t\r\n", bytes[colon]) != NULL)
                colon++;
            if (colon < end && bytes[colon] == ':') {
                keys[depth].at = begin;
                keys[depth].n = i - begin;
            }
        }
    }
    out[0] = '\0';
    const char *glue = " in ";
    for (unsigned d = 1, named = 0; d <= depth && named < 2; d++) {
        char key[64], quoted[KRN_QUOTE_BYTES];
        if (keys[d].n == 0)
            continue;
        snprintf(key, sizeof key, "%.*s", (int)(keys[d].n < 63 ? keys[d].n : 63),
                 bytes + keys[d].at);
        size_t used = strlen(out);
        snprintf(out + used, 2 * KRN_QUOTE_BYTES - used, "%s%s", glue, krn_quote(quoted, key));
        glue = ".";
        named++;
    }
}

enum status krn_json_object(const char *file, const void *bytes, size_t n, json_t **out,
                            struct status_note *note) {
    TRY(json_bounds(file, bytes, n, note));
    json_error_t error;
    json_t *root = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        char text[KRN_QUOTE_BYTES], place[2 * KRN_QUOTE_BYTES];
        if (json_error_code(&error) == json_error_out_of_memory || error.text[0] == '\0')
            return status_say(note, STATUS_NO_MEMORY, "%s: no memory for its JSON", file);
        json_place(bytes,
                   error.position > 0 && (size_t)error.position < n ? (size_t)error.position : n,
                   place);
        return status_say(note, STATUS_BAD_FILE, "%s: not valid JSON%s: %s (line %d, column %d)",
                          file, place, krn_quote(text, error.text), error.line, error.column);
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return status_say(note, STATUS_BAD_FILE, "%s: the JSON is not an object", file);
    }
    *out = root;
    return STATUS_OK;
}

void krn_field_fault(struct krn_fields *f, enum status status, const char *key, const char *format,
                     ...) {
    if (f->status != STATUS_OK)
        return;
    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    f->status = status_say(f->note, status, "%s: %s%s %s", f->file, f->where, key, text);
}

const json_t *krn_field(const struct krn_fields *f, const char *key) {
    const json_t *value = json_object_get(f->object, key);
    return json_is_null(value) ? NULL : value;
}

static uint32_t field_u32(struct krn_fields *f, const char *key, const json_t *value, uint32_t min,
                          uint32_t max) {
    if (!json_is_integer(value)) {
        krn_field_fault(f, STATUS_BAD_FILE, key, "is not an integer");
        return min;
    }
    json_int_t number = json_integer_value(value);
    if (number < (json_int_t)min || number > (json_int_t)max) {
        krn_field_fault(f, STATUS_BAD_MODEL, key, "is %" JSON_INTEGER_FORMAT ", outside %u to %u",
                        number, min, max);
        return min;
    }
    return (uint32_t)number;
}

uint32_t krn_field_u32(struct krn_fields *f, const char *key, uint32_t min, uint32_t max) {
    const json_t *value = krn_field(f, key);
    if (value == NULL) {
        krn_field_fault(f, STATUS_BAD_FILE, key, "is missing");
        return min;
    }
    return field_u32(f, key, value, min, max);
}

uint32_t krn_field_u32_or(struct krn_fields *f, const char *key, uint32_t absent, uint32_t min,
                          uint32_t max) {
    const json_t *value = krn_field(f, key);
    return value == NULL ? absent : field_u32(f, key, value, min, max);
}

double krn_field_number(struct krn_fields *f, const char *key) {
    if (krn_field(f, key) == NULL)
        krn_field_fault(f, STATUS_BAD_FILE, key, "is missing");
    return krn_field_number_or(f, key, 1.0);
}

double krn_field_number_or(struct krn_fields *f, const char *key, double absent) {
    const json_t *value = krn_field(f, key);
    if (value == NULL)
        return absent;
    if (!json_is_number(value)) {
        krn_field_fault(f, STATUS_BAD_FILE, key, "is not a number");
        return absent;
    }
    return json_number_value(value);
}

bool krn_field_bool_or(struct krn_fields *f, const char *key, bool absent) {
    const json_t *value = krn_field(f, key);
    if (value == NULL)
        return absent;
    if (!json_is_boolean(value))
        krn_field_fault(f, STATUS_BAD_FILE, key, "is not true or false");
    return json_is_true(value);
}

const char *krn_field_text_or(struct krn_fields *f, const char *key, const char *absent) {
    const json_t *value = krn_field(f, key);
    if (value == NULL)
        return absent;
    if (!json_is_string(value)) {
        krn_field_fault(f, STATUS_BAD_FILE, key, "is not a string");
        return absent;
    }
    return json_string_value(value);
}
