/* SPDX-License-Identifier: Apache-2.0
 * One vocabulary in both layouts: tokenizer.json with its configuration, as published models have
 * them, and the keys that llama.cpp's converter makes of these. Written from what both say, sharing
 * no code with the readers.
 */
#ifndef TESTS_TEXT_LAYOUTS_H
#define TESTS_TEXT_LAYOUTS_H

#include <jansson.h>

#include "tests/kernels/gguf_make.h"

struct text_layouts {
    json_t *tokenizer, *config; /* tokenizer.json, tokenizer_config.json */
    const char *pre;      /* gpt2: the pre-tokenizer's name in GGUF, "": not said; NULL: llama */
    const json_t *pieces; /* llama: tokens, types and scores of the SentencePiece model */
    uint32_t vocab;       /* the model's; the tokenizer may know fewer */
};

/* A byte-level vocabulary as the models of that pre-tokenizer publish it. words: vocab and merges
 * of tests/text/tokenizers.json. */
struct text_layouts text_layouts_bytes(const json_t *words, const char *pre);
/* A SentencePiece vocabulary, of tests/text/characters.json, as transformers converts it: llama's
 * parts around it, or gemma's. */
struct text_layouts text_layouts_pieces(const json_t *pieces, bool gemma);
/* One more added token, behind all others; its id. */
uint32_t text_layouts_add(struct text_layouts *x, const char *content, bool special);
void text_layouts_free(struct text_layouts *x);

/* DIR/hf/ and DIR/model.gguf. */
void text_layouts_write(const struct text_layouts *x, const char *dir);

#endif
