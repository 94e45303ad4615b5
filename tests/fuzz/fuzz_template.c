/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: any bytes as a chat template. Its reduced form holds no byte that it did not have
 * beside its own marks, equals itself, and an own pattern that it matches is matched again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "lanes/text/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *once, *twice;
    size_t n, m, n_any;
    const char *any;
    if (!lane_jinja_reduce((const char *)data, size, &once, &n)) {
        CHECK(once == NULL);
        return 0;
    }
    CHECK(lane_jinja_reduce((const char *)data, size, &twice, &m));
    CHECK(n == m && memcmp(once, twice, n) == 0 && once[n] == '\0');
    CHECK(n <= 4 * size + 16);
    if (memchr(once, JINJA_ANY[0], n) == NULL) {
        CHECK(lane_jinja_matches(once, n, twice, m, &any, &n_any));
        CHECK(any == NULL);
    }
    free(once);
    free(twice);
    return 0;
}
