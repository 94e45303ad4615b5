/* SPDX-License-Identifier: Apache-2.0
 * Text to token ids and back. Immutable after opening; encode takes a caller-owned work area, so
 * any thread may use it.
 */
#ifndef LANES_TEXT_TOKENIZER_H
#define LANES_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "actors/status.h"

struct lane_tokenizer;

/* Opens tokenizer.json and, when there, tokenizer_config.json of a model directory. */
enum status lane_tokenizer_open(const char *model_path, struct lane_tokenizer **out,
                                struct status_note *note);
/* The same from bytes (fuzzing, tests); config may be NULL. name: for messages. */
enum status lane_tokenizer_parse(const char *name, const char *json, size_t n, const char *config,
                                 size_t n_config, struct lane_tokenizer **out,
                                 struct status_note *note);
void lane_tokenizer_close(struct lane_tokenizer *t);

uint32_t lane_tokenizer_vocab(const struct lane_tokenizer *t); /* largest id + 1 */
int64_t lane_tokenizer_bos(const struct lane_tokenizer *t);    /* -1: none */
bool lane_tokenizer_adds_bos(const struct lane_tokenizer *t);
bool lane_tokenizer_is_special(const struct lane_tokenizer *t, uint32_t id);
/* -1: no such token */
int64_t lane_tokenizer_id(const struct lane_tokenizer *t, const char *special);

enum {
    LANE_ENCODE_SPECIAL = 1 /* text that spells a special token becomes it */,
    LANE_ENCODE_BOS = 2 /* bos first, when the tokenizer has one */
};

/* Appends ids to *ids (malloc'd, grown; *n of *capacity used). text need not be valid UTF-8:
 * invalid bytes are encoded as bytes. TOO_LARGE past limit ids (0: no limit), *ids stays the
 * caller's in every case. */
enum status lane_tokenizer_encode(const struct lane_tokenizer *t, const char *text, size_t bytes,
                                  uint32_t flags, uint32_t limit, uint32_t **ids, uint32_t *n,
                                  uint32_t *capacity, struct status_note *note);

/* The bytes of one token, valid as long as the tokenizer; special tokens give their content. n 0
 * for unknown ids. */
const char *lane_tokenizer_bytes(const struct lane_tokenizer *t, uint32_t id, uint32_t *n);
uint32_t lane_tokenizer_bytes_max(const struct lane_tokenizer *t); /* longest token */

/* Chat. Roles: "system", "user", "assistant". */
struct lane_message {
    const char *role, *content;
    size_t content_bytes;
};
/* Name of the recognised template shape ("fable", "chatml", "llama3", ...), or NULL when there is
 * none or it is unknown; *unknown tells which. */
const char *lane_template_name(const struct lane_tokenizer *t, bool *unknown);
/* What some templates take beside messages. Zeros, like NULL, leave all to the template: none asks
 * the clock. */
enum lane_thinking { LANE_THINKING_AS_IS, LANE_THINKING_OFF, LANE_THINKING_ON };
struct lane_template_options {
    const char *date; /* today's, YYYY-MM-DD; NULL: the one that the template holds */
    enum lane_thinking thinking;
};
/* Whether this template takes them: BAD_REQUEST for what is no day, UNSUPPORTED for what it has no
 * place for. */
enum status lane_template_check(const struct lane_tokenizer *t,
                                const struct lane_template_options *options,
                                struct status_note *note);
/* Appends the ids of a conversation; contents never become special tokens. UNSUPPORTED names an
 * unknown template. */
enum status lane_template_encode(const struct lane_tokenizer *t,
                                 const struct lane_message *messages, uint32_t n_messages,
                                 const struct lane_template_options *options,
                                 bool add_generation_prompt, uint32_t limit, uint32_t **ids,
                                 uint32_t *n, uint32_t *capacity, struct status_note *note);

#endif
