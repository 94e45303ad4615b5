/* SPDX-License-Identifier: Apache-2.0
 * Input helpers of the programs.
 */
#include "lanes/programs/input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { INPUT_MAX = 64 << 20 };

enum status input_read(const char *path, char **text, size_t *bytes, struct status_note *note) {
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (f == NULL)
        return status_say(note, STATUS_NOT_FOUND, "%s cannot be read: %s", path, strerror(errno));
    size_t n = 0, capacity = 65536;
    char *buf = malloc(capacity + 1);
    enum status st = buf != NULL ? STATUS_OK : STATUS_NO_MEMORY;
    while (st == STATUS_OK) {
        n += fread(buf + n, 1, capacity - n, f);
        if (n < capacity)
            break;
        char *more = capacity < INPUT_MAX ? realloc(buf, capacity * 2 + 1) : NULL;
        if (more == NULL) {
            st = status_say(note, STATUS_TOO_LARGE, "%s is larger than %d MiB", path,
                            INPUT_MAX >> 20);
        } else {
            buf = more;
            capacity *= 2;
        }
    }
    if (st == STATUS_OK && ferror(f))
        st = status_say(note, STATUS_IO, "%s cannot be read: %s", path, strerror(errno));
    if (f != stdin)
        fclose(f);
    if (st != STATUS_OK) {
        free(buf);
        return st;
    }
    buf[n] = '\0';
    *text = buf;
    *bytes = n;
    return STATUS_OK;
}

enum status input_stops(const struct options *o, struct lane_stop **out, struct status_note *note) {
    uint32_t n = o->n[OPT_stop];
    *out = NULL;
    if (n == 0)
        return STATUS_OK;
    if (n > LANE_STOPS_MAX)
        return status_say(note, STATUS_BAD_REQUEST, "--stop is given %u times; at most %d", n,
                          LANE_STOPS_MAX);
    struct lane_stop *stops = calloc(n, sizeof *stops);
    if (stops == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for stop strings");
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = strlen(o->value[OPT_stop][i]);
        if (bytes == 0 || bytes >= LANE_STOP_BYTES_MAX) {
            free(stops);
            return status_say(note, STATUS_BAD_REQUEST,
                              "--stop has %zu bytes; 1 to %d may be given", bytes,
                              LANE_STOP_BYTES_MAX - 1);
        }
        stops[i].bytes = (uint32_t)bytes;
        memcpy(stops[i].text, o->value[OPT_stop][i], bytes);
    }
    *out = stops;
    return STATUS_OK;
}

json_t *input_json_text(const char *bytes, size_t n) {
    json_t *whole = json_stringn(bytes, n);
    if (whole != NULL)
        return whole;
    char *clean = malloc(n * 3 + 1);
    CHECK(clean != NULL);
    size_t m = 0;
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)bytes + i, (utf8proc_ssize_t)(n - i), &c);
        if (k <= 0) {
            memcpy(clean + m, "\xef\xbf\xbd", 3);
            m += 3;
            i++;
        } else {
            memcpy(clean + m, bytes + i, (size_t)k);
            m += (size_t)k;
            i += (size_t)k;
        }
    }
    json_t *text = json_stringn(clean, m);
    free(clean);
    return text;
}
