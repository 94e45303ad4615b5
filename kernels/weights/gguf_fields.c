/* SPDX-License-Identifier: Apache-2.0
 * Typed values of a GGUF file.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/weights/gguf.h"
#include "kernels/weights/json.h"

void krn_gguf_fault(struct krn_gguf_reader *r, enum status status, const char *key,
                    const char *format, ...) {
    char text[200];
    va_list args;
    if (r->status != STATUS_OK)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->status = status_say(r->note, status, "%s: key %s %s", r->g->file, key, text);
}

/* False for what is no whole number. */
static bool whole(const struct krn_gguf_value *v, bool *negative, uint64_t *out) {
    static const struct {
        uint8_t bytes;
        bool sign;
    } kinds[KRN_GGUF_TYPES] = {
        [KRN_GGUF_U8] = {1, false},  [KRN_GGUF_I8] = {1, true},   [KRN_GGUF_U16] = {2, false},
        [KRN_GGUF_I16] = {2, true},  [KRN_GGUF_U32] = {4, false}, [KRN_GGUF_I32] = {4, true},
        [KRN_GGUF_U64] = {8, false}, [KRN_GGUF_I64] = {8, true},
    };
    unsigned n = kinds[v->type].bytes;
    if (n == 0)
        return false;
    *out = 0;
    for (unsigned i = n; i > 0; i--)
        *out = *out << 8 | v->at[i - 1];
    *negative = kinds[v->type].sign && (v->at[n - 1] & 0x80) != 0;
    return true;
}

static uint64_t number_of(struct krn_gguf_reader *r, const struct krn_gguf_value *v,
                          const char *key, uint64_t min, uint64_t max) {
    uint64_t value;
    bool negative;
    if (v->type == KRN_GGUF_LIST) {
        krn_gguf_fault(r, STATUS_BAD_MODEL, key,
                       "is a list; this build knows one value for all layers");
    } else if (!whole(v, &negative, &value)) {
        krn_gguf_fault(r, STATUS_BAD_FILE, key, "is not a whole number");
    } else if (negative) {
        krn_gguf_fault(r, STATUS_BAD_MODEL, key, "is negative");
    } else if (value < min || value > max) {
        krn_gguf_fault(r, STATUS_BAD_MODEL, key, "is %" PRIu64 ", outside %" PRIu64 " to %" PRIu64,
                       value, min, max);
    } else {
        return value;
    }
    return min;
}

uint64_t krn_gguf_number_or(struct krn_gguf_reader *r, const char *key, uint64_t absent,
                            uint64_t min, uint64_t max) {
    const struct krn_gguf_value *v = krn_gguf_find(r->g, key);
    return v == NULL ? absent : number_of(r, v, key, min, max);
}

uint64_t krn_gguf_number(struct krn_gguf_reader *r, const char *key, uint64_t min, uint64_t max) {
    const struct krn_gguf_value *v = krn_gguf_find(r->g, key);
    if (v != NULL)
        return number_of(r, v, key, min, max);
    krn_gguf_fault(r, STATUS_BAD_FILE, key, "is missing");
    return min;
}

double krn_gguf_real_or(struct krn_gguf_reader *r, const char *key, double absent) {
    const struct krn_gguf_value *v = krn_gguf_find(r->g, key);
    if (v == NULL)
        return absent;
    if (v->type == KRN_GGUF_F32) {
        float value;
        memcpy(&value, v->at, sizeof value);
        return (double)value;
    }
    if (v->type == KRN_GGUF_F64) {
        double value;
        memcpy(&value, v->at, sizeof value);
        return value;
    }
    krn_gguf_fault(r, STATUS_BAD_FILE, key, "is not a real number");
    return absent;
}

double krn_gguf_real(struct krn_gguf_reader *r, const char *key) {
    if (krn_gguf_find(r->g, key) == NULL)
        krn_gguf_fault(r, STATUS_BAD_FILE, key, "is missing");
    return krn_gguf_real_or(r, key, 1.0);
}

bool krn_gguf_bool_or(struct krn_gguf_reader *r, const char *key, bool absent) {
    const struct krn_gguf_value *v = krn_gguf_find(r->g, key);
    if (v == NULL)
        return absent;
    if (v->type == KRN_GGUF_BOOL)
        return *v->at != 0;
    krn_gguf_fault(r, STATUS_BAD_FILE, key, "is neither true nor false");
    return absent;
}

bool krn_gguf_text_is(struct krn_gguf_reader *r, const char *key, const char *word, bool absent) {
    const struct krn_gguf_value *v = krn_gguf_find(r->g, key);
    if (v == NULL)
        return absent;
    if (v->type == KRN_GGUF_TEXT)
        return v->count == strlen(word) && memcmp(v->at, word, strlen(word)) == 0;
    krn_gguf_fault(r, STATUS_BAD_FILE, key, "is not a text");
    return absent;
}
