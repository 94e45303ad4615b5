/* SPDX-License-Identifier: Apache-2.0
 * The arena's records, shared by its two halves: ranges (gpu/arena.c) and chunks from the driver
 * (gpu/arena_chunks.c).
 */
#ifndef GPU_ARENA_STATE_H
#define GPU_ARENA_STATE_H

#include "gpu/arena.h"

enum { ARENA_BINS = 40, ARENA_CLASSES = 2, ARENA_NONE = 0 };

enum arena_class { ARENA_SMALL, ARENA_LARGE };

enum arena_state {
    ARENA_UNUSED, /* a record without a range */
    ARENA_FREE,
    ARENA_TAIL, /* the end of a chunk, whole since it was mapped or whole again */
    ARENA_LIVE,
    ARENA_FENCED,  /* freed; its work is under way */
    ARENA_LEASED,  /* freed, its work is over; a graph still has its address */
    ARENA_BORROWED /* somebody else's memory */
};

/* One range of a chunk; index 0 is nobody. */
struct arena_range {
    uint64_t at, bytes;
    uint64_t after; /* FENCED: the work that must be over */
    const char *what;
    enum arena_state state;
    uint32_t chunk;
    uint32_t prev, next;           /* neighbours by address */
    uint32_t list_prev, list_next; /* its bin, the tails, the fenced, the borrowed, the unused */
    uint32_t generation, leases;
    bool lent; /* BORROWED, or LEASED after it was forgotten */
};

struct arena_chunk {
    uint64_t at, bytes;
    unsigned long long block; /* VMM */
    enum arena_class class;
    uint32_t first; /* its range of the lowest address; 0: the slot is not used */
};

struct arena_list {
    uint32_t first, last;
};

struct gpu_arena {
    struct gpu_arena_config config;
    struct arena_range *ranges;
    struct arena_chunk *chunks;
    uint32_t *order; /* chunks by address */
    uint32_t n_chunks;
    gpu_cu_ptr_t reserved; /* VMM: where chunks are mapped */
    uint64_t granularity;
    struct arena_list bins[ARENA_CLASSES][ARENA_BINS];
    struct arena_list tails[ARENA_CLASSES], fenced, borrowed, unused;
    uint32_t n_unused;
    struct gpu_arena_count count;
};

/* Takes a chunk from the driver and puts it into the table; *chunk is its slot. The caller has seen
 * that there is a slot. */
enum status gpu_arena_chunk_take(struct gpu_arena *a, uint64_t bytes, enum arena_class class,
                                 const char *what, uint32_t *chunk, struct status_note *note);
/* Returns a chunk to the driver and forgets it. */
void gpu_arena_chunk_return(struct gpu_arena *a, uint32_t chunk);
/* The chunk that holds address p, or UINT32_MAX. */
uint32_t gpu_arena_chunk_at(const struct gpu_arena *a, gpu_cu_ptr_t p);
/* VMM: reserves addresses; looks whether the device can do what is asked. */
enum status gpu_arena_backend_open(struct gpu_arena *a, struct status_note *note);
void gpu_arena_backend_close(struct gpu_arena *a);

#endif
