/* SPDX-License-Identifier: Apache-2.0
 * The arena: all device memory of a rank. Small allocations (up to 4 MiB) share chunks of 64 MiB,
 * large ones have chunks of their own size; chunks come from the driver one by one (plain) or are
 * mapped into one reserved range of addresses (VMM), and go back by gpu_arena_trim alone, so that
 * nothing in a round waits for the device. A free is fenced: the range is quarantined until the
 * work that may still use it has been reached and no lease holds its address (gpu/lease.h). Handles
 * carry generations. Owned by the rank's thread; takes no host memory after open.
 *
 * Invariants: A1 live + free + tail + quarantined = mapped, at every return. A2 A range has its
 * record before it changes hands: a call that fails has changed nothing. A3 A quarantined range is
 * in nobody's reach. A4 Lookups walk chunks and records; there is no table that deletions could
 * wear out.
 */
#ifndef GPU_ARENA_H
#define GPU_ARENA_H

#include "gpu/driver.h"

/* A handle: index in the low half, generation in the high half; 0 names nothing. */
typedef uint64_t gpu_mem_t;

enum gpu_arena_backend { GPU_ARENA_PLAIN, GPU_ARENA_VMM };

enum {
    GPU_ARENA_SMALL_MAX = 4 << 20,
    GPU_ARENA_CHUNK = 64 << 20, /* of small allocations */
    GPU_ARENA_ALIGN = 512,
    GPU_ARENA_LARGE_ALIGN = 2 << 20,
    GPU_ARENA_POISON = 0x7fc0dead /* a NaN in every 4 bytes */
};

struct gpu_arena_config {
    const struct gpu_driver *driver; /* its context is current on this thread */
    int device;
    enum gpu_arena_backend backend;
    bool rdma;               /* VMM: memory that a network card may read; refused where it cannot */
    uint32_t ranges_max;     /* records: live, free, tail, quarantined; 0: 65,536 */
    uint32_t chunks_max;     /* 0: 1,024 */
    uint64_t address_bytes;  /* VMM: what is reserved; 0: twice the device's memory */
    bool poison;             /* debugging: fills what leaves quarantine, and waits for it */
    struct gpu_cu_stream *s; /* for poison */
};

struct gpu_arena_count {
    uint64_t mapped, live, free, tail, quarantined; /* bytes */
    uint64_t leased;                                /* part of quarantined that leases hold */
    uint32_t n_live, n_quarantined, n_chunks, n_borrowed;
    uint64_t leased_frees; /* how often a range was freed that a lease held; never falls */
};

struct gpu_arena;

/* UNSUPPORTED when the backend is not there (VMM: attribute 102; with rdma: attribute 110). */
enum status gpu_arena_open(const struct gpu_arena_config *config, struct gpu_arena **out,
                           struct status_note *note);
/* Returns every chunk to the driver. The device must be idle. */
void gpu_arena_close(struct gpu_arena *a);

/* Memory for `what` (a literal). NO_MEMORY says how much was needed, for what, and how much the
 * device has free. */
enum status gpu_arena_alloc(struct gpu_arena *a, uint64_t bytes, const char *what, gpu_mem_t *out,
                            struct status_note *note);
/* Lends a handle to memory that somebody else owns (a library's), so that leases can name it. It
 * counts nowhere; freeing it forgets it. DUPLICATE where it overlaps what is known. */
enum status gpu_arena_borrow(struct gpu_arena *a, gpu_cu_ptr_t p, uint64_t bytes, const char *what,
                             gpu_mem_t *out, struct status_note *note);
/* Address and size (rounded up) of a live handle. CHECKs that it is one. */
gpu_cu_ptr_t gpu_arena_at(const struct gpu_arena *a, gpu_mem_t mem);
uint64_t gpu_arena_bytes(const struct gpu_arena *a, gpu_mem_t mem);
bool gpu_arena_lives(const struct gpu_arena *a, gpu_mem_t mem);
/* The live handle whose range holds [p, p + bytes), or 0: foreign, freed or across two. */
gpu_mem_t gpu_arena_find(const struct gpu_arena *a, gpu_cu_ptr_t p, uint64_t bytes);

/* Gives a range back once work number `after` has been reached (numbers of the owner's, which never
 * fall: gpu/fence.h). A handle that is not live (freed before, or never given) is an error that
 * changes nothing: NOT_FOUND. */
enum status gpu_arena_free(struct gpu_arena *a, gpu_mem_t mem, uint64_t after,
                           struct status_note *note);
/* Work up to this number is over: what waited for it leaves quarantine. */
void gpu_arena_reached(struct gpu_arena *a, uint64_t number);
/* Returns chunks without a live or quarantined byte to the driver; how many bytes. May wait for the
 * device: between rounds only. */
uint64_t gpu_arena_trim(struct gpu_arena *a);

/* Leases on a live range (gpu/lease.h counts them); the last one dropped lets a freed range go. */
void gpu_arena_hold(struct gpu_arena *a, gpu_mem_t mem);
void gpu_arena_drop(struct gpu_arena *a, gpu_mem_t mem);

struct gpu_arena_count gpu_arena_count(const struct gpu_arena *a);
/* Walks everything: A1, neighbours, lists, records. False with a sentence when something is off. */
bool gpu_arena_sound(const struct gpu_arena *a, struct status_note *note);

#endif
