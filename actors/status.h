/* SPDX-License-Identifier: Apache-2.0
 * Operating errors as values. A status is returned, never both printed and returned; the sentence
 * for the person who must act is written into a struct status_note by the function that knows what
 * and where.
 */
#ifndef ACTORS_STATUS_H
#define ACTORS_STATUS_H

enum status {
#define STATUS(name, code, text) STATUS_##name,
#include "actors/status.def"
#undef STATUS
    STATUS_COUNT
};

/* One sentence: what, where, which value, what to do. Owned by the caller; always terminated. */
struct status_note {
    char text[320];
};

/* Stable texts of a status; never NULL, also for values outside the table. */
const char *status_name(enum status s);
const char *status_code(enum status s);
const char *status_text(enum status s);

/* Writes the sentence (printf format, cut to fit; note may be NULL) and returns s. */
enum status status_say(struct status_note *note, enum status s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define TRY(expr)                                                                                  \
    do {                                                                                           \
        enum status try_status_ = (expr);                                                          \
        if (try_status_ != STATUS_OK)                                                              \
            return try_status_;                                                                    \
    } while (0)

#endif
