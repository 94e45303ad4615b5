/* SPDX-License-Identifier: Apache-2.0
 * Lists of held ranges, one a holder.
 */
#include "gpu/lease.h"

#include <stdlib.h>

#include "actors/check.h"

struct gpu_leases {
    struct gpu_arena *arena;
    uint64_t seen; /* frees of leased ranges, when stale was computed */
    uint64_t stale;
    uint32_t n[GPU_LEASE_HOLDERS_MAX];
    gpu_mem_t held[GPU_LEASE_HOLDERS_MAX][GPU_LEASE_RANGES_MAX];
};

enum status gpu_leases_open(struct gpu_arena *arena, struct gpu_leases **out,
                            struct status_note *note) {
    struct gpu_leases *l = calloc(1, sizeof *l);
    if (l == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for leases");
    l->arena = arena;
    l->seen = gpu_arena_count(arena).leased_frees;
    *out = l;
    return STATUS_OK;
}

void gpu_leases_close(struct gpu_leases *l) {
    if (l == NULL)
        return;
    for (uint32_t h = 0; h < GPU_LEASE_HOLDERS_MAX; h++)
        gpu_lease_drop(l, h);
    free(l);
}

enum status gpu_lease_take(struct gpu_leases *l, uint32_t holder, const gpu_mem_t *mems, uint32_t n,
                           struct status_note *note) {
    CHECK(holder < GPU_LEASE_HOLDERS_MAX && l->n[holder] == 0);
    if (n > GPU_LEASE_RANGES_MAX)
        return status_say(note, STATUS_TOO_LARGE, "a graph holds %u ranges; at most %d", n,
                          GPU_LEASE_RANGES_MAX);
    for (uint32_t i = 0; i < n; i++)
        if (!gpu_arena_lives(l->arena, mems[i]))
            return status_say(note, STATUS_NOT_FOUND,
                              "a graph would hold device memory %llx, which is not live",
                              (unsigned long long)mems[i]);
    for (uint32_t i = 0; i < n; i++) {
        gpu_arena_hold(l->arena, mems[i]);
        l->held[holder][i] = mems[i];
    }
    l->n[holder] = n;
    return STATUS_OK;
}

enum status gpu_lease_take_at(struct gpu_leases *l, uint32_t holder, const gpu_cu_ptr_t *at,
                              uint32_t n, struct status_note *note) {
    gpu_mem_t mems[GPU_LEASE_RANGES_MAX];
    if (n > GPU_LEASE_RANGES_MAX)
        return status_say(note, STATUS_TOO_LARGE, "a graph holds %u ranges; at most %d", n,
                          GPU_LEASE_RANGES_MAX);
    for (uint32_t i = 0; i < n; i++) {
        mems[i] = gpu_arena_find(l->arena, at[i], 1);
        if (mems[i] == 0)
            return status_say(note, STATUS_NOT_FOUND,
                              "a graph would hold address %llx, which is not the arena's: lend it "
                              "first",
                              (unsigned long long)at[i]);
    }
    return gpu_lease_take(l, holder, mems, n, note);
}

void gpu_lease_drop(struct gpu_leases *l, uint32_t holder) {
    CHECK(holder < GPU_LEASE_HOLDERS_MAX);
    for (uint32_t i = 0; i < l->n[holder]; i++)
        gpu_arena_drop(l->arena, l->held[holder][i]);
    l->n[holder] = 0;
    l->stale &= ~(1ull << holder);
}

uint32_t gpu_lease_count(const struct gpu_leases *l, uint32_t holder) {
    CHECK(holder < GPU_LEASE_HOLDERS_MAX);
    return l->n[holder];
}

uint64_t gpu_leases_stale(struct gpu_leases *l) {
    uint64_t freed = gpu_arena_count(l->arena).leased_frees;
    if (freed == l->seen)
        return l->stale;
    l->seen = freed;
    for (uint32_t h = 0; h < GPU_LEASE_HOLDERS_MAX; h++)
        for (uint32_t i = 0; i < l->n[h]; i++)
            if (!gpu_arena_lives(l->arena, l->held[h][i]))
                l->stale |= 1ull << h;
    return l->stale;
}
