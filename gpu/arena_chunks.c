/* SPDX-License-Identifier: Apache-2.0
 * Chunks: memory from the driver, allocated (plain) or mapped into reserved addresses (VMM).
 */
#include <stdio.h>
#include <string.h>

#include "actors/check.h"
#include "gpu/arena_state.h"
#include "gpu/fault.h"

static struct gpu_cu_memory chunk_kind(const struct gpu_arena *a) {
    struct gpu_cu_memory kind = {.type = GPU_CU_MEMORY_PINNED,
                                 .place = {GPU_CU_PLACE_DEVICE, a->config.device}};
    kind.flags.rdma = a->config.rdma;
    return kind;
}

enum status gpu_arena_backend_open(struct gpu_arena *a, struct status_note *note) {
    const struct gpu_driver *d = a->config.driver;
    int device = a->config.device, vmm = 0, rdma = 0;
    if (a->config.backend == GPU_ARENA_PLAIN)
        return STATUS_OK;
    gpu_cu_t r = d->device_attribute(&vmm, GPU_CU_ATTR_VMM, device);
    if (r != GPU_CUDA_SUCCESS)
        return gpu_fault_say(note, d, r, NULL, "asking for VMM");
    if (!vmm || d->address_reserve == NULL || d->address_free == NULL || d->block_create == NULL ||
        d->block_release == NULL || d->block_map == NULL || d->block_unmap == NULL ||
        d->block_access == NULL || d->block_granularity == NULL)
        return status_say(note, STATUS_UNSUPPORTED,
                          "GPU %d has no virtual memory management; the plain arena needs none",
                          device);
    r = d->device_attribute(&rdma, GPU_CU_ATTR_RDMA_WITH_VMM, device);
    if (r != GPU_CUDA_SUCCESS)
        return gpu_fault_say(note, d, r, NULL, "asking for RDMA with VMM");
    if (a->config.rdma && !rdma)
        return status_say(note, STATUS_UNSUPPORTED,
                          "GPU %d cannot lend mapped memory to a network card (attribute %d is 0); "
                          "use the plain arena for RDMA",
                          device, GPU_CU_ATTR_RDMA_WITH_VMM);
    struct gpu_cu_memory kind = chunk_kind(a);
    size_t unit = 0, total = 0;
    r = d->block_granularity(&unit, &kind, GPU_CU_GRANULARITY_LEAST);
    if (r == GPU_CUDA_SUCCESS)
        r = d->device_memory(&total, device);
    if (r != GPU_CUDA_SUCCESS)
        return gpu_fault_say(note, d, r, NULL, "asking for the unit of VMM");
    CHECK(unit > 0 && GPU_ARENA_CHUNK % unit == 0);
    a->granularity = unit > GPU_ARENA_LARGE_ALIGN ? unit : GPU_ARENA_LARGE_ALIGN;
    if (a->config.address_bytes == 0)
        a->config.address_bytes = 2 * (uint64_t)total;
    a->config.address_bytes =
        (a->config.address_bytes + a->granularity - 1) / a->granularity * a->granularity;
    r = d->address_reserve(&a->reserved, a->config.address_bytes, 0, 0, 0);
    if (r != GPU_CUDA_SUCCESS) {
        a->reserved = 0;
        return gpu_fault_say(note, d, r, NULL, "reserving addresses");
    }
    return STATUS_OK;
}

void gpu_arena_backend_close(struct gpu_arena *a) {
    if (a->reserved != 0)
        a->config.driver->address_free(a->reserved, a->config.address_bytes);
    a->reserved = 0;
}

/* VMM: the first gap between chunks that fits, or 0. */
static gpu_cu_ptr_t chunk_gap(const struct gpu_arena *a, uint64_t bytes) {
    gpu_cu_ptr_t at = a->reserved, end = a->reserved + a->config.address_bytes;
    for (uint32_t i = 0; i < a->n_chunks; i++) {
        const struct arena_chunk *c = &a->chunks[a->order[i]];
        if (c->at - at >= bytes)
            return at;
        at = c->at + c->bytes;
    }
    return end - at >= bytes ? at : 0;
}

static gpu_cu_t chunk_map(struct gpu_arena *a, uint64_t bytes, struct arena_chunk *c) {
    const struct gpu_driver *d = a->config.driver;
    struct gpu_cu_memory kind = chunk_kind(a);
    struct gpu_cu_access access = {{GPU_CU_PLACE_DEVICE, a->config.device}, GPU_CU_ACCESS_BOTH};
    c->at = chunk_gap(a, bytes);
    if (c->at == 0)
        return GPU_CUDA_ERROR_OUT_OF_MEMORY;
    gpu_cu_t r = d->block_create(&c->block, bytes, &kind, 0);
    if (r != GPU_CUDA_SUCCESS)
        return r;
    r = d->block_map(c->at, bytes, 0, c->block, 0);
    if (r == GPU_CUDA_SUCCESS) {
        r = d->block_access(c->at, bytes, &access, 1);
        if (r == GPU_CUDA_SUCCESS)
            return r;
        d->block_unmap(c->at, bytes);
    }
    d->block_release(c->block);
    return r;
}

/* Why there is no memory: what was needed and what there is. */
static enum status chunk_refused(const struct gpu_arena *a, gpu_cu_t result, uint64_t bytes,
                                 const char *what, struct status_note *note) {
    const struct gpu_driver *d = a->config.driver;
    const double mib = 1 << 20;
    size_t free_bytes = 0, total = 0;
    if (gpu_result_status(result) != STATUS_NO_MEMORY)
        return gpu_fault_say(note, d, result, NULL, "taking memory from the device");
    if (d->memory_info(&free_bytes, &total) != GPU_CUDA_SUCCESS)
        free_bytes = total = 0;
    return status_say(note, STATUS_NO_MEMORY,
                      "GPU %d: %.1f MiB are needed for %s and %.1f MiB of %.1f MiB are free; this "
                      "process holds %.1f MiB of it, %.1f MiB unused",
                      a->config.device, (double)bytes / mib, what, (double)free_bytes / mib,
                      (double)total / mib, (double)a->count.mapped / mib,
                      (double)(a->count.free + a->count.tail) / mib);
}

enum status gpu_arena_chunk_take(struct gpu_arena *a, uint64_t bytes, enum arena_class class,
                                 const char *what, uint32_t *chunk, struct status_note *note) {
    struct arena_chunk c = {.bytes = bytes, .class = class};
    CHECK(a->n_chunks < a->config.chunks_max);
    gpu_cu_t r = a->config.backend == GPU_ARENA_VMM ? chunk_map(a, bytes, &c)
                                                    : a->config.driver->memory_alloc(&c.at, bytes);
    if (r != GPU_CUDA_SUCCESS)
        return chunk_refused(a, r, bytes, what, note);
    uint32_t slot = 0, at = a->n_chunks;
    while (a->chunks[slot].bytes != 0)
        slot++;
    for (; at > 0 && a->chunks[a->order[at - 1]].at > c.at; at--)
        a->order[at] = a->order[at - 1];
    a->order[at] = slot;
    a->n_chunks++;
    a->chunks[slot] = c;
    a->count.mapped += bytes;
    a->count.n_chunks++;
    *chunk = slot;
    return STATUS_OK;
}

void gpu_arena_chunk_return(struct gpu_arena *a, uint32_t chunk) {
    const struct gpu_driver *d = a->config.driver;
    struct arena_chunk *c = &a->chunks[chunk];
    CHECK(c->bytes != 0);
    if (a->config.backend == GPU_ARENA_VMM) {
        d->block_unmap(c->at, c->bytes);
        d->block_release(c->block);
    } else {
        d->memory_free(c->at);
    }
    uint32_t at = 0;
    while (a->order[at] != chunk)
        at++;
    memmove(&a->order[at], &a->order[at + 1], (a->n_chunks - at - 1) * sizeof a->order[0]);
    a->n_chunks--;
    a->count.mapped -= c->bytes;
    a->count.n_chunks--;
    memset(c, 0, sizeof *c);
}

uint32_t gpu_arena_chunk_at(const struct gpu_arena *a, gpu_cu_ptr_t p) {
    uint32_t low = 0, high = a->n_chunks; /* chunks before low begin at or below p */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (a->chunks[a->order[middle]].at <= p)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return UINT32_MAX;
    const struct arena_chunk *c = &a->chunks[a->order[low - 1]];
    return p - c->at < c->bytes ? a->order[low - 1] : UINT32_MAX;
}
