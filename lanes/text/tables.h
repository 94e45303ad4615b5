/* SPDX-License-Identifier: Apache-2.0
 * A tokenizer from tables in memory, as GGUF metadata has them (keys tokenizer.ggml.*). The tables
 * are the caller's, are only read, and are not needed after the call. Any content is allowed: what
 * cannot be honoured is refused by name.
 */
#ifndef LANES_TEXT_TABLES_H
#define LANES_TEXT_TABLES_H

#include "lanes/text/tokenizer.h"

/* Bytes that need not end in a NUL. bytes NULL: the key is absent. */
struct lane_text_slice {
    const char *bytes;
    size_t n;
};

enum lane_token_type { /* the numbers of tokenizer.ggml.token_type; others count as normal */
                       LANE_TOKEN_NORMAL = 1,
                       LANE_TOKEN_UNKNOWN = 2,
                       LANE_TOKEN_CONTROL = 3,
                       LANE_TOKEN_USER_DEFINED = 4,
                       LANE_TOKEN_UNUSED = 5,
                       LANE_TOKEN_BYTE = 6
};

enum lane_said { LANE_UNSAID, LANE_NO, LANE_YES }; /* a key that may be absent */

struct lane_tables {
    struct lane_text_slice model; /* "gpt2" or "llama" */
    struct lane_text_slice pre;   /* gpt2: default, gpt-2, llama-bpe, smollm, qwen2 */
    const struct lane_text_slice *tokens;
    uint32_t n_tokens;
    const int32_t *types; /* n_tokens, or NULL: all normal */
    const float *scores;  /* n_tokens, or NULL; llama needs them */
    const struct lane_text_slice *merges;
    uint32_t n_merges;
    int64_t bos, eos, eot, unk; /* ids; -1: the key is absent */
    enum lane_said add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
    struct lane_text_slice chat_template;
};

/* name: of the file, for messages. */
enum status lane_tokenizer_from_tables(const char *name, const struct lane_tables *tables,
                                       struct lane_tokenizer **out, struct status_note *note);

#endif
