/* SPDX-License-Identifier: Apache-2.0
 * The tokenizer as its files share it. Everything in struct lane_tokenizer is written while it is
 * opened and never again; struct text_encode is one call's own state.
 */
#ifndef LANES_TEXT_PRIVATE_H
#define LANES_TEXT_PRIVATE_H

#include <jansson.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "lanes/text/tokenizer.h"

enum {
    TEXT_FILE_BYTES_MAX = 128 << 20,
    TEXT_VOCAB_MAX = 1 << 22,
    TEXT_MERGES_MAX = 1 << 22,
    TEXT_ADDED_MAX = 1 << 14,
    TEXT_TOKEN_BYTES_MAX = 1024, /* what lane_stream_push takes */
    TEXT_STAGES_MAX = 16,
    TEXT_PATTERN_BYTES_MAX = 8192,
    TEXT_INPUT_BYTES_MAX = 256 << 20,
    TEXT_TEMPLATE_BYTES_MAX = 256 << 10
};

enum text_token_flags {
    TEXT_KNOWN = 1,
    TEXT_SPECIAL = 2,
    TEXT_ADDED = 4,
    TEXT_LSTRIP = 8,
    TEXT_RSTRIP = 16,
    TEXT_SINGLE_WORD = 32,
    TEXT_NORMALIZED = 64,
    TEXT_MADE = 128 /* the model may make it of text */
};

/* How words become tokens. All but the first work on characters, in which U+2581 is a space, as
 * SentencePiece does; characters without a token become tokens of their bytes. */
enum text_kind {
    TEXT_BYTES,  /* merges of bytes by rank */
    TEXT_MERGES, /* merges of characters by rank */
    TEXT_SCORES, /* any two neighbours that spell a token, the highest score first */
    TEXT_UNIGRAM /* the tokens with the highest sum of scores */
};

/* Where a space is put before text. */
enum text_prefix {
    TEXT_PREFIX_NONE,
    TEXT_PREFIX_FIRST, /* where all text begins, unless a space is there */
    TEXT_PREFIX_EACH   /* after each added token too */
};

/* One token: its bytes lie in the pool. */
struct text_token {
    size_t offset;
    uint16_t bytes;
    uint8_t flags;
};

/* Pair of ids -> rank and the id that it becomes. Open addressing; rank UINT32_MAX is a free slot.
 */
struct text_merge {
    uint32_t left, right, rank, id;
};

/* An added token as it is looked for in text. Sets are sorted by bytes, so that a range of the
 * array is a trie node. */
struct text_added {
    char *text;
    uint32_t bytes, id;
    uint8_t flags;
};

struct text_added_set {
    struct text_added *items;
    uint32_t n;
    bool first[256]; /* some token begins with this byte */
};

/* One pre-tokenizer. Each works on what the one before it cut. */
struct text_stage {
    pcre2_code *pattern; /* NULL: cuts nothing */
    bool removed;        /* matches are dropped; else they stand alone */
    bool invert;
    bool prefix_space;
    bool spaces; /* cuts before each space */
    enum text_prefix prefix;
};

struct lane_tokenizer {
    enum text_kind kind;
    struct text_token *tokens; /* by id */
    uint32_t vocab;
    uint32_t bytes_max;
    char *pool;
    size_t pool_bytes, pool_capacity;

    struct text_merge *merges;
    uint32_t merge_shift; /* 64 - log2(slots) */
    uint32_t merge_mask;
    int64_t byte_id[256]; /* -1: this byte has no token */
    int64_t unk;
    bool fuse_unk;
    bool ignore_merges;
    uint32_t *words; /* id + 1 by hash of a token's bytes; 0 is a free slot; not of every kind */
    uint32_t word_mask;

    bool prepends;       /* a space before each text, whatever it begins with */
    bool spaces_lead;    /* no token has a space after another character */
    uint32_t *order;     /* TEXT_SCORES: by id, 0 for the highest score, equal for equals */
    double *scores;      /* by id, for tokens of the model itself; no NaN */
    double unk_score;    /* ... of a character without a token */
    uint32_t *sorted;    /* ... ids by bytes, */
    uint32_t first[257]; /* ... those that begin with byte b from first[b] */

    bool nfc;
    struct text_stage stages[TEXT_STAGES_MAX];
    uint32_t n_stages;
    struct text_added_set raw, normalized;
    pcre2_code *word_character; /* for single_word tokens; NULL when there are none */

    int64_t bos, eos;
    bool adds_bos;
    char *template_text; /* NULL: no chat template */
    const struct text_shape *shape;
    char *template_system; /* the default system prompt that a shape was published with, or NULL */
};

/* tokenizer.c: control characters and broken ones in a note become question marks. */
void lane_text_note_clean(struct status_note *note);
/* U+2581 as a space: the bytes in out (at least n), their number returned. */
size_t lane_text_spaces(const char *text, size_t n, char *out);
/* The id of an added token, -1: none. */
int64_t lane_text_added_id(const struct lane_tokenizer *t, const char *text, size_t bytes);
/* template.c */
void lane_text_template_open(struct lane_tokenizer *t);

#endif
