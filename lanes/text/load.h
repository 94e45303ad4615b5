/* SPDX-License-Identifier: Apache-2.0
 * How a tokenizer is made while it is opened: the steps that tokenizer.json and tables in memory
 * share.
 */
#ifndef LANES_TEXT_LOAD_H
#define LANES_TEXT_LOAD_H

#include "lanes/text/private.h"

/* tokenizer_load.c: vocabulary and merges; added_load.c: added tokens and indices. */
struct text_alphabet {
    int16_t byte[0x200]; /* by code point; -1: not of the alphabet */
};
void lane_text_alphabet_fill(struct text_alphabet *a);
/* One piece of a vocabulary as the bytes that it stands for. */
enum status lane_text_piece_put(struct lane_tokenizer *t, const char *name,
                                const struct text_alphabet *a, uint32_t id, const char *piece,
                                size_t n, struct status_note *note);
enum status lane_text_merges_reserve(struct lane_tokenizer *t, size_t n, struct status_note *note);
void lane_text_merge_put(struct lane_tokenizer *t, struct text_merge m);
/* A new added token, not in any set yet. */
enum status lane_text_added_new(struct lane_tokenizer *t, const char *name, const char *text,
                                size_t n, uint32_t id, uint8_t flags, struct status_note *note);
enum status lane_text_load_model(struct lane_tokenizer *t, const char *name, const json_t *root,
                                 struct status_note *note);
enum status lane_text_load_added(struct lane_tokenizer *t, const char *name, const json_t *root,
                                 json_t *config, struct status_note *note);
enum status lane_text_token_put(struct lane_tokenizer *t, uint32_t id, const char *bytes, size_t n,
                                uint32_t flags, struct status_note *note);
enum status lane_text_index(struct lane_tokenizer *t, const char *name, struct status_note *note);
/* pipeline.c: normalizer, pre-tokenizers, post-processor, decoder, as stages or a refusal. */
enum status lane_text_load_pipeline(struct lane_tokenizer *t, const char *name, const json_t *root,
                                    const json_t *config, struct status_note *note);
/* pattern.c: an Oniguruma pattern compiled by PCRE2 with the same meaning, or a refusal. */
enum status lane_text_pattern_compile(const char *name, const char *pattern, size_t bytes,
                                      bool literal, pcre2_code **out, struct status_note *note);
/* chars_load.c: what the kinds on characters need beside the vocabulary; needs t->words. */
enum status lane_text_index_chars(struct lane_tokenizer *t, const char *name,
                                  struct status_note *note);

#endif
