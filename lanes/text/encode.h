/* SPDX-License-Identifier: Apache-2.0
 * One encode call: its state, and the steps from text to ids. Each step hands pieces to the next;
 * nothing is listed.
 */
#ifndef LANES_TEXT_ENCODE_H
#define LANES_TEXT_ENCODE_H

#include "lanes/text/private.h"

/* State of one encode call. */
struct text_encode {
    const struct lane_tokenizer *t;
    uint32_t flags, limit;
    uint32_t **ids, *n, *capacity;
    struct status_note *note;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    uint64_t deadline_ns; /* of this thread's own time */
    uint64_t searches;
    const char *glued; /* this text goes on after invalid bytes: no space is put before it */
    void *work;        /* long words */
    size_t work_bytes;
};

/* split.c: text between added tokens, through the stages, to words. */
enum status lane_text_split(struct text_encode *e, const char *text, size_t n);
/* added.c: cuts text at the set's tokens; what lies between goes on to `next`. */
enum status lane_text_added_split(struct text_encode *e, const struct text_added_set *set,
                                  const char *text, size_t n,
                                  enum status (*next)(struct text_encode *, const char *, size_t));
/* The longest token of the set that text begins with, or NULL. */
const struct text_added *lane_text_added_longest(const struct text_added_set *set, const char *text,
                                                 size_t n);
size_t lane_text_space_before(const char *text, size_t n); /* bytes of white space at the end */
size_t lane_text_space_after(const char *text, size_t n);  /* ... at the beginning */
/* bpe.c */
enum status lane_text_word(struct text_encode *e, const char *word, size_t n);
enum status lane_text_emit(struct text_encode *e, uint32_t id);
const struct text_merge *lane_text_merge_find(const struct lane_tokenizer *t, uint32_t left,
                                              uint32_t right);

#endif
