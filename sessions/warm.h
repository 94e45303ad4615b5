/* SPDX-License-Identifier: Apache-2.0
 * Host memory that is there before somebody needs it. A page of memory that is touched for the
 * first time waits for the kernel, and for a host that lends memory only then: 0.1 to 5 ms a
 * megabyte, which a thread that computes must not pay. An actor on a thread of its own touches
 * all of it once, from the front on, and ends; no byte changes, so whoever uses the memory
 * meanwhile does not notice.
 */
#ifndef SESSIONS_WARM_H
#define SESSIONS_WARM_H

#include "actors/actor.h"
#include "actors/status.h"

struct ses_warm;
extern const struct act_kind ses_warm_kind;

/* Memory that is used from the front on; whole system pages, borrowed until the runtime stopped. */
struct ses_warm_range {
    unsigned char *at;
    uint64_t bytes;
};

/* At once, on this thread: the first SES_WARM_FIRST bytes of it, or all. False: this system cannot,
 * and memory is touched when it is used. */
enum { SES_WARM_FIRST = 32 << 20, SES_WARM_RANGES = 8 };
bool ses_warm_first(const struct ses_warm_range *r);

/* The state to spawn with ses_warm_kind; the caller closes it after the runtime has stopped. */
enum status ses_warm_open(const struct ses_warm_range *ranges, uint32_t n, struct ses_warm **out,
                          struct status_note *note);
void ses_warm_close(struct ses_warm *w);

#endif
