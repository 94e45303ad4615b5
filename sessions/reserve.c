/* SPDX-License-Identifier: Apache-2.0
 * The admission rule. With nothing else running every request that fits in the pool is granted:
 * shared idle pages count for it in the pool and are not asked for again, and a source that cannot
 * be kept beside its copy is moved.
 */
#include "sessions/reserve.h"

#include "actors/check.h"

struct ses_grant ses_reserve_decide(const struct ses_funds *funds, const struct ses_ask *ask) {
    CHECK((uint64_t)funds->free + funds->idle >= funds->reserved);
    CHECK(ask->shared_idle <= ask->shared && ask->shared < ask->pages);
    CHECK(ask->shared_idle + (ask->source_idle ? 1u : 0u) <= funds->idle);
    struct ses_grant grant = {
        .status = STATUS_OK,
        .fresh = ask->pages - ask->shared,
        .available = funds->free + funds->idle - funds->reserved,
    };
    if (ask->pages > funds->total || ask->pages > ask->pages_max) {
        grant.status = STATUS_NO_PAGES;
        return grant;
    }
    /* Pages that the lane maps stop being evictable; so does a source until it was copied. */
    if (grant.available < ask->shared_idle + grant.fresh) {
        grant.status = STATUS_AGAIN;
        return grant;
    }
    uint32_t spare = grant.available - ask->shared_idle - grant.fresh;
    grant.move = ask->source && ask->source_idle && spare == 0;
    return grant;
}
