/* SPDX-License-Identifier: Apache-2.0
 * The status table's texts.
 */
#include "actors/status.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name, *code, *text;
} status_table[] = {
#define STATUS(name, code, text) {#name, code, text},
#include "actors/status.def"
#undef STATUS
};

static unsigned status_index(enum status s) {
    return (unsigned)s < STATUS_COUNT ? (unsigned)s : (unsigned)STATUS_BAD_REQUEST;
}

const char *status_name(enum status s) {
    return status_table[status_index(s)].name;
}

const char *status_code(enum status s) {
    return status_table[status_index(s)].code;
}

const char *status_text(enum status s) {
    return status_table[status_index(s)].text;
}

enum status status_say(struct status_note *note, enum status s, const char *format, ...) {
    if (note != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(note->text, sizeof note->text, format, args);
        va_end(args);
    }
    return s;
}
