/* SPDX-License-Identifier: Apache-2.0
 * A tier below the device: room for pages whose bytes may leave the device and come back. Each call
 * begins a copy and returns at once; the tier says once that it is done, by the message parked or
 * restored, and until then neither the page nor the place is used for anything else. A place is a
 * number from 0 on that only the memory gives out. What orders a copy after the compute that wrote
 * the page, or before the compute that reads it, is the tier's own affair: it says done only then.
 *
 *   cached page   full -- park --> parking -- done --> parked, and the device page is free
 *   lane's page   filling -- restore --> restoring -- done --> filling, then shared as any other
 *
 * News that a page was freed may still be on its way to the device when the tier is told to write
 * it: whoever wipes freed pages must take both in the order in which the memory said them.
 *
 * A record that is torn, foreign or flipped is answered "not fine" and becomes a miss.
 */
#ifndef SESSIONS_TIER_H
#define SESSIONS_TIER_H

#include <stdbool.h>
#include <stdint.h>

enum { SES_AT_RAM = 1, SES_AT_DISK = 2 };

struct ses_tier {
    const char *name;
    void *self;
    void (*park)(void *self, uint32_t page, uint32_t place);
    void (*restore)(void *self, uint32_t place, uint32_t page);
    /* Optional: would a restore have to read a disk? NULL: no. */
    bool (*on_disk)(void *self, uint32_t place);
    /* Optional: where the place's bytes are, SES_AT_RAM and SES_AT_DISK. NULL: in RAM. */
    uint32_t (*where)(void *self, uint32_t place);
    /* Optional: the place was used, or is pinned; to be remembered with its bytes. */
    void (*mark)(void *self, uint32_t place, uint64_t use, bool pinned);
    /* The place's bytes are not wanted any more. */
    void (*forget)(void *self, uint32_t place);
};

#endif
