/* SPDX-License-Identifier: Apache-2.0
 * JSON files of a model: bounded parsing (size, depth, number of values, no duplicate keys) and
 * typed fields. Whatever a hostile file holds, the answer is a tree within the bounds or one
 * sentence with the file's name.
 */
#ifndef KERNELS_WEIGHTS_JSON_H
#define KERNELS_WEIGHTS_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "actors/status.h"

enum {
    KRN_JSON_DEPTH_MAX = 32,
    KRN_JSON_VALUES_MAX = 1 << 23, /* bounds the tree's memory: a value costs about 40 bytes */
    KRN_JSON_FILE_MAX = 1 << 20,   /* config.json and generation_config.json */
    KRN_LABEL_BYTES = 120,
    KRN_QUOTE_BYTES = 104
};

/* The end of a path, fit for a one-line message. */
const char *krn_label(char out[KRN_LABEL_BYTES], const char *path);
/* A name out of a file in printable ASCII, escaped and cut; fit for a one-line message. */
const char *krn_quote(char out[KRN_QUOTE_BYTES], const char *name);

/* Parses n bytes that must hold one JSON object. file: label for messages. The caller owns *out. */
enum status krn_json_object(const char *file, const void *bytes, size_t n, json_t **out,
                            struct status_note *note);

/* Typed reading of an object's fields. The first fault sticks in status and note; later calls give
 * defaults. A field that is null counts as absent. Wrong types are BAD_FILE, values outside [min,
 * max] BAD_MODEL. */
struct krn_fields {
    const char *file, *where; /* where: "" or "rope_scaling." before the key in messages */
    const json_t *object;
    struct status_note *note;
    enum status status;
};

const json_t *krn_field(const struct krn_fields *f, const char *key);
uint32_t krn_field_u32(struct krn_fields *f, const char *key, uint32_t min, uint32_t max);
uint32_t krn_field_u32_or(struct krn_fields *f, const char *key, uint32_t absent, uint32_t min,
                          uint32_t max);
double krn_field_number(struct krn_fields *f, const char *key);
double krn_field_number_or(struct krn_fields *f, const char *key, double absent);
bool krn_field_bool_or(struct krn_fields *f, const char *key, bool absent);
const char *krn_field_text_or(struct krn_fields *f, const char *key, const char *absent);
/* Sets the first fault: "FILE: where.KEY <format>". */
void krn_field_fault(struct krn_fields *f, enum status status, const char *key, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));

#endif
