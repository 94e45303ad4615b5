/* SPDX-License-Identifier: Apache-2.0
 * Leases: which ranges of device memory a captured graph has baked into itself. While a graph holds
 * a range, the arena gives its address to nobody else, even when its owner frees it; the graphs
 * that hold a freed range, and only these, are stale and must retire. Holders are small numbers
 * (slots of the graph cache). Owned by the rank's thread; takes no memory after open.
 */
#ifndef GPU_LEASE_H
#define GPU_LEASE_H

#include "gpu/arena.h"

enum { GPU_LEASE_HOLDERS_MAX = 64, GPU_LEASE_RANGES_MAX = 512 };

struct gpu_leases;

enum status gpu_leases_open(struct gpu_arena *arena, struct gpu_leases **out,
                            struct status_note *note);
/* Drops what is left. */
void gpu_leases_close(struct gpu_leases *l);

/* Takes a lease on each range for a holder that has none; all or nothing. NOT_FOUND names a range
 * that is not live, TOO_LARGE more than GPU_LEASE_RANGES_MAX. */
enum status gpu_lease_take(struct gpu_leases *l, uint32_t holder, const gpu_mem_t *mems, uint32_t n,
                           struct status_note *note);
/* The same for bare addresses: NOT_FOUND names one that the arena neither owns nor has borrowed. */
enum status gpu_lease_take_at(struct gpu_leases *l, uint32_t holder, const gpu_cu_ptr_t *at,
                              uint32_t n, struct status_note *note);
/* Gives a holder's leases back; nothing happens when it has none. */
void gpu_lease_drop(struct gpu_leases *l, uint32_t holder);
uint32_t gpu_lease_count(const struct gpu_leases *l, uint32_t holder);

/* The stale holders, one bit each. Cheap while nothing that is held was freed. */
uint64_t gpu_leases_stale(struct gpu_leases *l);

#endif
