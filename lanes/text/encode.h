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
    const char *begin; /* all the text, when it is where a conversation begins; else NULL */
    const char *first; /* where that is now, in its normal form */
    const char *glued; /* this text goes on after invalid bytes: no space is put before it */
    void *work;        /* long words */
    size_t work_bytes;
};

enum { TEXT_ENCODE_GOES_ON = 1 << 16 }; /* a flag: other text went before this one */

/* STATUS_OK while this call has time left. */
enum status lane_text_time_left(struct text_encode *e);
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
/* The token that text may become as a whole; -1: none. */
int64_t lane_text_word_id(const struct lane_tokenizer *t, const char *word, size_t n);
enum status lane_text_work(struct text_encode *e, size_t bytes); /* e->work has so many */
enum status lane_text_emit(struct text_encode *e, uint32_t id);
const struct text_merge *lane_text_merge_find(const struct lane_tokenizer *t, uint32_t left,
                                              uint32_t right);
/* chars.c */
size_t lane_text_character(const char *text, size_t n); /* its bytes; 1 for an invalid byte */
/* A character without a token: its bytes' tokens, or the unknown one. */
enum status lane_text_emit_bytes(struct text_encode *e, const char *text, size_t n,
                                 bool after_unknown);
enum status lane_text_word_scores(struct text_encode *e, const char *word, size_t n);
/* unigram.c */
enum status lane_text_word_unigram(struct text_encode *e, const char *word, size_t n);

#endif
