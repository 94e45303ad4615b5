/* SPDX-License-Identifier: Apache-2.0
 * The engine's tiers: host memory of every rank, and where a directory is given a store of every
 * rank. Opened before the ranks, spawned with them.
 */
#ifndef LANES_ENGINE_TIERS_H
#define LANES_ENGINE_TIERS_H

#include "gpu/device.h"
#include "sessions/memory.h"
#include "sessions/store.h"

struct lane_tiers;

struct lane_tiers_config {
    uint32_t world, page_tokens, n_pages;
    uint64_t page_bytes;
    bool tokens;            /* ram counts tokens (fake device) */
    uint64_t ram;           /* bytes of each rank; 0: none, or with a disk the least */
    const char *folder;     /* NULL: no disk; several ranks have folders of their own in it */
    uint64_t budget, floor; /* of each rank */
    uint64_t segment_bytes; /* 0: by the budget */
    struct ses_disk *disk;  /* tests: of one rank, taken over */
    struct ses_key key;
    const char *text; /* model and profile */
    struct ses_index_profile profile;
    void (*say)(void *self, const char *sentence);
    void *say_self;
};

/* *out is NULL when there is nothing to open. */
enum status lane_tiers_open(const struct lane_tiers_config *config, struct lane_tiers **out,
                            struct status_note *note);
/* After the runtime has stopped, and the memory was closed. NULL is fine, here and below. */
void lane_tiers_close(struct lane_tiers *t);

/* [world], and until close; NULL: none. */
unsigned char *const *lane_tiers_hosts(const struct lane_tiers *t);
/* Model and profile in words. */
const char *lane_tiers_of(const struct lane_tiers *t);
unsigned char *lane_tiers_host(const struct lane_tiers *t, uint32_t rank);
/* The rank's host memory is made known to its device, where that makes copies faster. */
void lane_tiers_pin(struct lane_tiers *t, uint32_t rank, struct gpu_device *device);
uint64_t lane_tiers_host_bytes(const struct lane_tiers *t);
uint32_t lane_tiers_slots(const struct lane_tiers *t);
uint32_t lane_tiers_records(const struct lane_tiers *t); /* 0: no disk */
/* Tells the memory what all stores have; what only some have, or nobody can use, is removed. */
enum status lane_tiers_found(struct lane_tiers *t, struct ses_memory *memory,
                             struct status_note *note);
/* own: each store on a thread of its own. */
enum status lane_tiers_spawn(struct lane_tiers *t, struct act_rt *rt, struct ses_memory *memory,
                             act_id_t memory_id, bool own, struct status_note *note);
/* One line for a person; "" when there are none. */
void lane_tiers_text(const struct lane_tiers *t, char *text, size_t bytes);
/* Sums over the ranks' stores; only after they have ended, or from tests. */
void lane_tiers_counts(const struct lane_tiers *t, struct ses_store_counts *out);

#endif
