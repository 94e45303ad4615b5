/* SPDX-License-Identifier: Apache-2.0
 * What a page in a tier is: whose it is, where in which session, and its tokens. The bytes of the
 * page itself lie in a slot of host memory or in a segment file.
 */
#ifndef SESSIONS_RECORD_H
#define SESSIONS_RECORD_H

#include "sessions/trie.h"

struct ses_record {
    struct ses_space space;
    struct ses_name name, parent; /* parent: zero at a beginning */
    uint64_t use;                 /* order of use; no clock */
    uint32_t depth;               /* pages before it */
    uint32_t n_tokens;
    uint32_t *tokens;
    uint32_t flags;
};

enum { SES_RECORD_PINNED = 1 };

#endif
