/* SPDX-License-Identifier: Apache-2.0
 * The second opinion: scalar, one token at a time, contiguous keys and values, no pages, no trie,
 * no threads, no packing; the same profile. Shares numerics.md with the row functions, and no code
 * with them but exp, log, Philox.
 */
#ifndef KERNELS_ORACLE_H
#define KERNELS_ORACLE_H

#include "kernels/families/family.h"
#include "kernels/rowfn.h"

struct krn_oracle;

/* Room for `context` tokens. net and profile must outlive the oracle. */
enum status krn_oracle_open(const struct krn_net *net, const struct krn_profile *profile,
                            uint32_t context, struct krn_oracle **out, struct status_note *note);
void krn_oracle_close(struct krn_oracle *o);
/* Forgets all tokens. */
void krn_oracle_reset(struct krn_oracle *o);
/* Feeds one token at the next position; logits (vocab floats) may be NULL. Returns false when a
 * value is not finite. */
bool krn_oracle_feed(struct krn_oracle *o, uint32_t token, float *logits);
/* Draws from logits as numerics.md 9 says, over the ids so far. ids: n of them, the first n_prompt
 * the prompt. */
void krn_oracle_draw(const float *logits, uint32_t vocab, const struct krn_sampling *s,
                     const uint32_t *ids, uint32_t n, uint32_t n_prompt,
                     const struct krn_bias *bias, uint32_t n_bias, const uint32_t *mask,
                     struct krn_drawn *out);
/* The residual stream after the last fed token at layer boundary l (0: embedding), hidden floats;
 * the test hook for the reference's hidden vectors. */
const float *krn_oracle_hidden(const struct krn_oracle *o, uint32_t layer);

#endif
