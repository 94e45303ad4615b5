/* SPDX-License-Identifier: Apache-2.0
 * The table of one GGUF file (version 2 or 3, little-endian), checked in full: after a parse every
 * key, value and tensor lies inside the file, no key or tensor occurs twice, and the tensors cover
 * the data without overlap; between them lies only padding to the file's alignment.
 * Layout: "GGUF", u32 version, u64 tensors, u64 keys; keys (text, u32 type, value); tensors (text,
 * u32 dimensions, u64 each innermost first, u32 type, u64 offset); padding; data. Text is u64
 * length and bytes.
 */
#ifndef KERNELS_WEIGHTS_GGUF_H
#define KERNELS_WEIGHTS_GGUF_H

#include "kernels/weights/safetensors.h"

enum {
    KRN_GGUF_KEYS_MAX = 1 << 16,
    KRN_GGUF_KEY_MAX = 1024,
    KRN_GGUF_NAME_MAX = 64, /* the format's own limit for tensors */
    KRN_GGUF_ALIGNMENT = 32 /* where the file says nothing */
};

enum krn_gguf_type {
    KRN_GGUF_U8,
    KRN_GGUF_I8,
    KRN_GGUF_U16,
    KRN_GGUF_I16,
    KRN_GGUF_U32,
    KRN_GGUF_I32,
    KRN_GGUF_F32,
    KRN_GGUF_BOOL,
    KRN_GGUF_TEXT,
    KRN_GGUF_LIST,
    KRN_GGUF_U64,
    KRN_GGUF_I64,
    KRN_GGUF_F64,
    KRN_GGUF_TYPES
};

/* A key and its value, where they lie in the file. */
struct krn_gguf_value {
    const unsigned char *key;
    uint64_t key_bytes;
    enum krn_gguf_type type, element; /* element: of a list */
    uint64_t count;                   /* elements of a list, bytes of a text, else 1 */
    const unsigned char *at;          /* the first element or byte, at no alignment */
};

struct krn_gguf {
    const char *file; /* label for messages, the caller's */
    const unsigned char *bytes;
    uint64_t size, alignment;
    uint32_t n_values;
    struct krn_gguf_value *values; /* sorted by key */
    struct krn_table table;        /* dims outermost first */
};

/* bytes must outlive *out. On failure *out is empty. */
enum status krn_gguf_parse(const char *file, const unsigned char *bytes, uint64_t size,
                           struct krn_gguf *out, struct status_note *note);
void krn_gguf_free(struct krn_gguf *g);

/* Whether the bytes begin as a GGUF file does. */
bool krn_gguf_magic(const unsigned char *bytes, uint64_t size);

/* NULL when the file has no such key. */
const struct krn_gguf_value *krn_gguf_find(const struct krn_gguf *g, const char *key);
/* Walks a list of texts: start with *cursor = value->at and call count times. */
const unsigned char *krn_gguf_next_text(const unsigned char **cursor, uint64_t *bytes);

/* Typed reading of values. The first fault sticks in status and note; later calls give defaults.
 * Wrong types are BAD_FILE, values outside [min, max] BAD_MODEL; a message names the key. */
struct krn_gguf_reader {
    const struct krn_gguf *g;
    struct status_note *note;
    enum status status;
};

uint64_t krn_gguf_number(struct krn_gguf_reader *r, const char *key, uint64_t min, uint64_t max);
uint64_t krn_gguf_number_or(struct krn_gguf_reader *r, const char *key, uint64_t absent,
                            uint64_t min, uint64_t max);
double krn_gguf_real(struct krn_gguf_reader *r, const char *key);
double krn_gguf_real_or(struct krn_gguf_reader *r, const char *key, double absent);
bool krn_gguf_bool_or(struct krn_gguf_reader *r, const char *key, bool absent);
/* Whether the text is `word`; absent gives `absent`. */
bool krn_gguf_text_is(struct krn_gguf_reader *r, const char *key, const char *word, bool absent);
/* Sets the first fault: "FILE: key KEY <format>". */
void krn_gguf_fault(struct krn_gguf_reader *r, enum status status, const char *key,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
