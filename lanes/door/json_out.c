/* SPDX-License-Identifier: Apache-2.0
 * The writer of replies.
 */
#include "lanes/door/json_out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(struct door_out *o, const void *bytes, size_t n) {
    if (o->full || n > o->cap - o->n) {
        o->full = true;
        return;
    }
    memcpy(o->buf + o->n, bytes, n);
    o->n += n;
}

static void put_char(struct door_out *o, char c) {
    put(o, &c, 1);
}

size_t door_utf8_char(const unsigned char *p, size_t n) {
    if (n == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return len;
}

static bool put_text(struct door_out *o, const unsigned char *p, size_t n) {
    static const char hex[] = "0123456789abcdef";
    bool valid = true;
    put_char(o, '"');
    for (size_t i = 0; i < n;) {
        size_t len = door_utf8_char(p + i, n - i);
        if (len == 0) {
            put(o, "\xef\xbf\xbd", 3);
            valid = false;
            i++;
            continue;
        }
        if (p[i] == '"' || p[i] == '\\') {
            put(o, (char[2]){'\\', (char)p[i]}, 2);
        } else if (p[i] < 0x20 || p[i] == 0x7f) {
            put(o, (char[6]){'\\', 'u', '0', '0', hex[p[i] >> 4], hex[p[i] & 15]}, 6);
        } else {
            put(o, p + i, len);
        }
        i += len;
    }
    put_char(o, '"');
    return valid;
}

static void put_key(struct door_out *o, const char *key) {
    if (o->comma)
        put_char(o, ',');
    o->comma = true;
    if (key != NULL) {
        put_text(o, (const unsigned char *)key, strlen(key));
        put_char(o, ':');
    }
}

void door_out_begin(struct door_out *o, char *buf, size_t cap) {
    *o = (struct door_out){.buf = buf, .cap = cap};
}

void door_out_object(struct door_out *o, const char *key) {
    put_key(o, key);
    put_char(o, '{');
    o->comma = false;
}

void door_out_array(struct door_out *o, const char *key) {
    put_key(o, key);
    put_char(o, '[');
    o->comma = false;
}

void door_out_end(struct door_out *o, char bracket) {
    put_char(o, bracket);
    o->comma = true;
}

void door_out_bool(struct door_out *o, const char *key, bool v) {
    put_key(o, key);
    put(o, v ? "true" : "false", v ? 4 : 5);
}

void door_out_u64(struct door_out *o, const char *key, uint64_t v) {
    char text[24];
    put_key(o, key);
    put(o, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)v));
}

void door_out_f32(struct door_out *o, const char *key, float v) {
    char text[32];
    put_key(o, key);
    if (!isfinite(v)) {
        put(o, "null", 4);
        return;
    }
    int n = 0;
    for (int digits = 6; digits <= 9; digits += 3) {
        n = snprintf(text, sizeof text, "%.*g", digits, (double)v);
        if (strtof(text, NULL) == v)
            break;
    }
    put(o, text, (size_t)n);
}

void door_out_str(struct door_out *o, const char *key, const char *s) {
    put_key(o, key);
    put_text(o, (const unsigned char *)s, strlen(s));
}

bool door_out_text(struct door_out *o, const char *key, const void *bytes, size_t n) {
    put_key(o, key);
    return put_text(o, bytes, n);
}

void door_out_hex(struct door_out *o, const char *key, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    put_key(o, key);
    put_char(o, '"');
    for (size_t i = 0; i < n; i++) {
        char two[3];
        snprintf(two, sizeof two, "%02x", p[i]);
        put(o, two, 2);
    }
    put_char(o, '"');
}

void door_out_base64(struct door_out *o, const char *key, const void *bytes, size_t n) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = bytes;
    put_key(o, key);
    put_char(o, '"');
    for (size_t i = 0; i < n; i += 3) {
        uint32_t three = (uint32_t)p[i] << 16;
        three |= i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0;
        three |= i + 2 < n ? p[i + 2] : 0;
        char four[4] = {letters[three >> 18], letters[three >> 12 & 63],
                        i + 1 < n ? letters[three >> 6 & 63] : '=',
                        i + 2 < n ? letters[three & 63] : '='};
        put(o, four, 4);
    }
    put_char(o, '"');
}
