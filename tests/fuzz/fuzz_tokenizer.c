/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: any bytes as tokenizer.json, and what follows the first zero byte as
 * tokenizer_config.json. What is accepted must encode any text without a special token in it; what
 * is refused says why in printable text.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "lanes/text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The one token that text may become without spelling it; -1: none. */
static int64_t unknown_token(const struct lane_tokenizer *t, const uint8_t *data, size_t size) {
    json_t *root = json_loadb((const char *)data, size, 0, NULL);
    const json_t *model = json_object_get(root, "model"),
                 *unk = json_object_get(model, "unk_token");
    const json_t *type = json_object_get(model, "type"), *number = json_object_get(model, "unk_id");
    int64_t id = json_is_string(unk) ? lane_tokenizer_id(t, json_string_value(unk)) : -1;
    if (json_is_string(type) && strcmp(json_string_value(type), "Unigram") == 0)
        id = json_is_integer(number) ? json_integer_value(number) : -1;
    json_decref(root);
    return id == lane_tokenizer_bos(t) ? -1 : id;
}

static void check_encodes(const struct lane_tokenizer *t, int64_t unknown) {
    static const char text[] =
        "Once  upon a time,\n\n12345 bears'll caf\xC3\xA9 \xFF\xE2\x82 <s>aaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\x01";
    struct status_note note = {""};
    for (uint32_t flags = 0; flags < 4; flags++) {
        uint32_t *ids = NULL, n = 0, capacity = 0, n_bytes;
        enum status s =
            lane_tokenizer_encode(t, text, sizeof text - 1, flags, 0, &ids, &n, &capacity, &note);
        CHECK(s == STATUS_OK || (n == 0 && note.text[0] != '\0'));
        uint32_t first = (flags & LANE_ENCODE_BOS) != 0 && lane_tokenizer_bos(t) >= 0;
        for (uint32_t i = 0; i < n; i++) {
            CHECK(ids[i] < lane_tokenizer_vocab(t));
            lane_tokenizer_bytes(t, ids[i], &n_bytes);
            CHECK(n_bytes <= lane_tokenizer_bytes_max(t));
            CHECK(i < first || (flags & LANE_ENCODE_SPECIAL) != 0 || ids[i] == unknown ||
                  !lane_tokenizer_is_special(t, ids[i]));
        }
        free(ids);
    }
}

static void check_template(const struct lane_tokenizer *t) {
    static const struct lane_message messages[] = {{"user", " \xFF hi <s>\n", 10},
                                                   {"assistant", "", 0}};
    struct status_note note = {""};
    uint32_t *ids = NULL, n = 0, capacity = 0;
    bool unknown;
    const char *name = lane_template_name(t, &unknown);
    enum status s = lane_template_encode(t, messages, 2, NULL, true, 0, &ids, &n, &capacity, &note);
    CHECK(name != NULL || (s == STATUS_UNSUPPORTED && n == 0));
    CHECK(s == STATUS_OK || note.text[0] != '\0');
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = size == 0 ? NULL : memchr(data, 0, size);
    size_t first = zero == NULL ? size : (size_t)(zero - data);
    const char *config = zero == NULL ? NULL : (const char *)zero + 1;
    struct lane_tokenizer *t;
    struct status_note note = {""};
    enum status s = lane_tokenizer_parse("t", (const char *)data, first, config,
                                         config == NULL ? 0 : size - first - 1, &t, &note);
    CHECK((s == STATUS_OK) == (t != NULL));
    if (s != STATUS_OK) {
        CHECK(note.text[0] != '\0');
        for (const unsigned char *c = (const unsigned char *)note.text; *c != '\0'; c++)
            CHECK(*c >= 0x20 && *c != 0x7F);
        return 0;
    }
    check_encodes(t, unknown_token(t, data, first));
    check_template(t);
    lane_tokenizer_close(t);
    return 0;
}
