/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: tables of a tokenizer. Bytes: model and pre-tokenizer; what the file says; bos, eos,
 * eot, unk; then up to a zero byte the tokens, one a line (type, score, piece), up to another the
 * merges, one a line, and the chat template. What is accepted must encode any text without a
 * special token in it and give the bytes back; what is refused says why in printable text.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "lanes/text/tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 6, LINES_MAX = 4096 };

static const char text[] = "  Once upon a time,\n\n1234's caf\xC3\xA9 \xFF\xE2\x82 <s>aaaaaaa"
                           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ababababab\x01 abc";

/* Half of all bytes say that the key is absent. */
static int64_t role(uint8_t byte) {
    return byte < 0x80 ? byte : -1;
}

/* Takes the lines up to a zero byte; each loses its first `skip` bytes. */
static uint32_t take_lines(const char **at, const char *end, struct lane_text_slice *out,
                           size_t skip, int32_t *types, float *scores) {
    const char *zero = *at == end ? NULL : memchr(*at, 0, (size_t)(end - *at));
    const char *stop = zero == NULL ? end : zero;
    uint32_t n = 0;
    while (*at < stop && n < LINES_MAX) {
        const char *line = *at, *newline = memchr(line, '\n', (size_t)(stop - line));
        size_t bytes = (size_t)((newline == NULL ? stop : newline) - line);
        size_t head = bytes < skip ? bytes : skip;
        if (types != NULL) {
            types[n] = bytes == 0 ? 0 : line[0] - '0';
            scores[n] = bytes < 2 ? 0.0f : (float)(line[1] - 'a');
        }
        out[n++] = (struct lane_text_slice){line + head, bytes - head};
        *at = newline == NULL ? stop : newline + 1;
    }
    *at = zero == NULL ? end : zero + 1;
    return n;
}

static void check_encodes(const struct lane_tokenizer *t, const struct lane_tables *in) {
    struct status_note note = {""};
    for (uint32_t flags = 0; flags < 4; flags++) {
        uint32_t *ids = NULL, n = 0, capacity = 0, n_bytes;
        enum status s =
            lane_tokenizer_encode(t, text, sizeof text - 1, flags, 0, &ids, &n, &capacity, &note);
        CHECK(s == STATUS_OK || (n == 0 && note.text[0] != '\0'));
        uint32_t first = (flags & LANE_ENCODE_BOS) != 0 && lane_tokenizer_bos(t) >= 0;
        size_t bytes = 0;
        bool unknown = false;
        for (uint32_t i = 0; i < n; i++) {
            CHECK(ids[i] < in->n_tokens);
            lane_tokenizer_bytes(t, ids[i], &n_bytes);
            CHECK(n_bytes <= lane_tokenizer_bytes_max(t));
            bool special = i >= first && lane_tokenizer_is_special(t, ids[i]);
            /* Only the unknown token may come of text that does not spell it. */
            CHECK(!special || (flags & LANE_ENCODE_SPECIAL) != 0 || in->types[ids[i]] == 2 ||
                  ids[i] == in->unk);
            unknown |= special || ids[i] == in->unk || in->types[ids[i]] == 2;
            bytes += i < first ? 0 : n_bytes;
        }
        CHECK(s != STATUS_OK || unknown || bytes >= sizeof text - 1);
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

static void check_note(const struct status_note *note) {
    CHECK(note->text[0] != '\0');
    for (const unsigned char *c = (const unsigned char *)note->text; *c != '\0'; c++)
        CHECK(*c >= 0x20 && *c != 0x7F);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const pres[] = {"default", "gpt-2", "smollm", "qwen2", "llama-bpe", "none"};
    static struct lane_text_slice tokens[LINES_MAX], merges[LINES_MAX];
    static int32_t types[LINES_MAX];
    static float scores[LINES_MAX];
    if (size < HEAD)
        return 0;
    const char *at = (const char *)data + HEAD, *end = (const char *)data + size;
    const char *model = (data[0] & 1) != 0 ? "llama" : "gpt2", *pre = pres[(data[0] >> 1) % 6];
    struct lane_tables in = {.model = {model, strlen(model)}, .pre = {pre, strlen(pre)}};
    in.add_bos = data[1] & 1 ? LANE_YES : LANE_UNSAID;
    in.add_space_prefix = data[1] & 2 ? LANE_NO : LANE_UNSAID;
    in.add_eos = data[1] & 4 ? LANE_YES : LANE_NO;
    in.bos = role(data[2]);
    in.eos = role(data[3]);
    in.eot = role(data[4]);
    in.unk = role(data[5]);
    in.n_tokens = take_lines(&at, end, tokens, 2, types, scores);
    in.n_merges = take_lines(&at, end, merges, 0, NULL, NULL);
    in.tokens = tokens;
    in.types = types;
    in.scores = (data[1] & 8) != 0 ? NULL : scores;
    in.merges = merges;
    in.chat_template = (struct lane_text_slice){at, (size_t)(end - at)};
    struct lane_tokenizer *t;
    struct status_note note = {""};
    enum status s = lane_tokenizer_from_tables("t", &in, &t, &note);
    CHECK((s == STATUS_OK) == (t != NULL));
    if (s != STATUS_OK) {
        check_note(&note);
        return 0;
    }
    check_encodes(t, &in);
    check_template(t);
    lane_tokenizer_close(t);
    return 0;
}
