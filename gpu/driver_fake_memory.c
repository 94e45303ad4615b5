/* SPDX-License-Identifier: Apache-2.0
 * The fake driver's memory: ranges of host memory that are device memory to whoever asks.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "actors/check.h"
#include "gpu/driver_fake_state.h"

enum { FAKE_RANGES_MAX = 8192, FAKE_GRANULARITY = 2 << 20 };

enum fake_range_kind { RANGE_DEVICE, RANGE_HOST, RANGE_REGISTERED, RANGE_RESERVED, RANGE_MAPPED };

struct fake_range {
    enum fake_range_kind kind;
    int device;
    uintptr_t at;
    size_t bytes;
};

/* A piece of physical memory of the VMM functions. */
struct fake_block {
    size_t bytes;
    int device;
    bool mapped;
};

static struct fake_range ranges[FAKE_RANGES_MAX];
static uint32_t n_ranges;
static struct fake_block blocks[FAKE_RANGES_MAX]; /* handle: 1 + index */

static struct fake_range *range_at(uintptr_t at, enum fake_range_kind kind) {
    for (uint32_t i = 0; i < n_ranges; i++)
        if (ranges[i].at == at && ranges[i].kind == kind)
            return &ranges[i];
    return NULL;
}

static void range_add(enum fake_range_kind kind, int device, const void *p, size_t bytes) {
    CHECK(n_ranges < FAKE_RANGES_MAX);
    ranges[n_ranges] = (struct fake_range){kind, device, (uintptr_t)p, bytes};
    n_ranges++;
}

static void range_drop(struct fake_range *r) {
    *r = ranges[--n_ranges];
}

/* Bytes from `at` on that lie in ranges of a kind, one after another. */
static bool range_covers(uintptr_t at, size_t bytes, bool device) {
    while (bytes > 0) {
        const struct fake_range *in = NULL;
        for (uint32_t i = 0; i < n_ranges && in == NULL; i++) {
            const struct fake_range *r = &ranges[i];
            bool fits = device ? r->kind == RANGE_DEVICE || r->kind == RANGE_MAPPED
                               : r->kind == RANGE_HOST || r->kind == RANGE_REGISTERED;
            if (fits && at >= r->at && at - r->at < r->bytes)
                in = r;
        }
        if (in == NULL)
            return false;
        size_t there = in->at + in->bytes - at;
        at += there;
        bytes -= there < bytes ? there : bytes;
    }
    return true;
}

bool gpu_fake_usable(gpu_cu_ptr_t p, size_t bytes) {
    return range_covers((uintptr_t)p, bytes, true);
}

bool gpu_fake_pinned(const void *p, size_t bytes) {
    return range_covers((uintptr_t)p, bytes, false);
}

bool gpu_fake_take(int device, uint64_t bytes) {
    struct gpu_fake *f = &gpu_fake;
    uint64_t taken = f->used[device] + f->pressure[device];
    if (taken > f->config.memory_bytes || bytes > f->config.memory_bytes - taken)
        return false;
    f->used[device] += bytes;
    return true;
}

void gpu_fake_return(int device, uint64_t bytes) {
    CHECK(gpu_fake.used[device] >= bytes);
    gpu_fake.used[device] -= bytes;
}

static void *fake_map(size_t bytes, int protection) {
    void *p = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

/* ---- memory ---- */

static gpu_cu_t fake_memory_info(size_t *free_bytes, size_t *total_bytes) {
    FAKE_CALL(memory_info);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    int device = gpu_fake_device();
    if (device < 0)
        return GPU_CUDA_ERROR_INVALID_CONTEXT;
    uint64_t taken = gpu_fake.used[device] + gpu_fake.pressure[device];
    *total_bytes = gpu_fake.config.memory_bytes;
    *free_bytes = taken > *total_bytes ? 0 : *total_bytes - taken;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_memory_alloc(gpu_cu_ptr_t *p, size_t bytes) {
    FAKE_CALL(memory_alloc);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    int device = gpu_fake_device();
    if (device < 0)
        return GPU_CUDA_ERROR_INVALID_CONTEXT;
    if (bytes == 0)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    gpu_cu_t r = gpu_fake_unsafe();
    if (r != GPU_CUDA_SUCCESS)
        return r;
    if (!gpu_fake_take(device, bytes))
        return GPU_CUDA_ERROR_OUT_OF_MEMORY;
    void *memory = fake_map(bytes, PROT_READ | PROT_WRITE);
    range_add(RANGE_DEVICE, device, memory, bytes);
    gpu_fake.alive.memory++;
    *p = (uintptr_t)memory;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_memory_free(gpu_cu_ptr_t p) {
    FAKE_CALL(memory_free);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_range *r = range_at((uintptr_t)p, RANGE_DEVICE);
    if (r == NULL)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    gpu_cu_t unsafe = gpu_fake_unsafe();
    if (unsafe != GPU_CUDA_SUCCESS)
        return unsafe;
    if (gpu_fake_pending()) { /* it waits for everything that may use the memory */
        gpu_fake.waits++;
        gpu_fake_drain();
    }
    munmap((void *)r->at, r->bytes);
    gpu_fake_return(r->device, r->bytes);
    gpu_fake.alive.memory--;
    range_drop(r);
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_host_alloc(void **p, size_t bytes, unsigned flags) {
    FAKE_CALL(host_alloc);
    (void)flags;
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    gpu_cu_t r = gpu_fake_unsafe();
    if (r != GPU_CUDA_SUCCESS)
        return r;
    *p = fake_map(bytes, PROT_READ | PROT_WRITE);
    range_add(RANGE_HOST, 0, *p, bytes);
    gpu_fake.alive.host++;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_host_free(void *p) {
    FAKE_CALL(host_free);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_range *r = range_at((uintptr_t)p, RANGE_HOST);
    if (r == NULL)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    gpu_cu_t unsafe = gpu_fake_unsafe();
    if (unsafe != GPU_CUDA_SUCCESS)
        return unsafe;
    munmap(p, r->bytes);
    range_drop(r);
    gpu_fake.alive.host--;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_host_register(void *p, size_t bytes, unsigned flags) {
    FAKE_CALL(host_register);
    (void)flags;
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (range_at((uintptr_t)p, RANGE_REGISTERED) != NULL)
        return GPU_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    range_add(RANGE_REGISTERED, 0, p, bytes);
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_host_unregister(void *p) {
    FAKE_CALL(host_unregister);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_range *r = range_at((uintptr_t)p, RANGE_REGISTERED);
    if (r == NULL)
        return GPU_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    range_drop(r);
    return GPU_CUDA_SUCCESS;
}

/* ---- VMM ---- */

static gpu_cu_t fake_address_reserve(gpu_cu_ptr_t *p, size_t bytes, size_t align, gpu_cu_ptr_t hint,
                                     unsigned long long flags) {
    FAKE_CALL(address_reserve);
    (void)hint;
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (bytes == 0 || bytes % FAKE_GRANULARITY != 0 || flags != 0 || (align & (align - 1)) != 0)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    void *memory = fake_map(bytes, PROT_NONE);
    range_add(RANGE_RESERVED, 0, memory, bytes);
    gpu_fake.alive.reservations++;
    *p = (uintptr_t)memory;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_address_free(gpu_cu_ptr_t p, size_t bytes) {
    FAKE_CALL(address_free);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_range *r = range_at((uintptr_t)p, RANGE_RESERVED);
    if (r == NULL || r->bytes != bytes)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < n_ranges; i++)
        if (ranges[i].kind == RANGE_MAPPED && ranges[i].at - p < bytes)
            return GPU_CUDA_ERROR_INVALID_VALUE;
    munmap((void *)r->at, bytes);
    range_drop(r);
    gpu_fake.alive.reservations--;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_block_create(unsigned long long *block, size_t bytes,
                                  const struct gpu_cu_memory *what, unsigned long long flags) {
    FAKE_CALL(block_create);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (bytes == 0 || bytes % FAKE_GRANULARITY != 0 || flags != 0 ||
        what->type != GPU_CU_MEMORY_PINNED || what->place.type != GPU_CU_PLACE_DEVICE ||
        (uint32_t)what->place.id >= gpu_fake.config.devices)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    if (what->flags.rdma && !gpu_fake.config.rdma_with_vmm)
        return GPU_CUDA_ERROR_NOT_SUPPORTED;
    gpu_cu_t r = gpu_fake_unsafe();
    if (r != GPU_CUDA_SUCCESS)
        return r;
    uint32_t i = 0;
    while (i < FAKE_RANGES_MAX && blocks[i].bytes != 0)
        i++;
    if (i == FAKE_RANGES_MAX || !gpu_fake_take(what->place.id, bytes))
        return GPU_CUDA_ERROR_OUT_OF_MEMORY;
    blocks[i] = (struct fake_block){bytes, what->place.id, false};
    gpu_fake.alive.blocks++;
    *block = i + 1;
    return GPU_CUDA_SUCCESS;
}

static struct fake_block *block_of(unsigned long long block) {
    return block == 0 || block > FAKE_RANGES_MAX || blocks[block - 1].bytes == 0
               ? NULL
               : &blocks[block - 1];
}

static gpu_cu_t fake_block_release(unsigned long long block) {
    FAKE_CALL(block_release);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_block *b = block_of(block);
    if (b == NULL || b->mapped) /* the driver would keep it; here it is a mistake of the caller */
        return GPU_CUDA_ERROR_INVALID_VALUE;
    gpu_fake_return(b->device, b->bytes);
    b->bytes = 0;
    gpu_fake.alive.blocks--;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_block_map(gpu_cu_ptr_t p, size_t bytes, size_t offset,
                               unsigned long long block, unsigned long long flags) {
    FAKE_CALL(block_map);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_block *b = block_of(block);
    bool reserved = false;
    for (uint32_t i = 0; i < n_ranges; i++) {
        const struct fake_range *r = &ranges[i];
        if (r->kind == RANGE_RESERVED && p >= r->at && p + bytes <= r->at + r->bytes)
            reserved = true;
        if (r->kind == RANGE_MAPPED && p < r->at + r->bytes && r->at < p + bytes)
            return GPU_CUDA_ERROR_ALREADY_MAPPED;
    }
    if (b == NULL || b->mapped || !reserved || b->bytes != bytes || offset != 0 || flags != 0)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    b->mapped = true;
    range_add(RANGE_MAPPED, (int)(block - 1), (void *)(uintptr_t)p, bytes); /* device: the block */
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_block_unmap(gpu_cu_ptr_t p, size_t bytes) {
    FAKE_CALL(block_unmap);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_range *r = range_at((uintptr_t)p, RANGE_MAPPED);
    if (r == NULL || r->bytes != bytes)
        return GPU_CUDA_ERROR_NOT_MAPPED;
    blocks[r->device].mapped = false;
    CHECK(mmap((void *)r->at, bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED);
    range_drop(r);
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_block_access(gpu_cu_ptr_t p, size_t bytes, const struct gpu_cu_access *access,
                                  size_t n) {
    FAKE_CALL(block_access);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    struct fake_range *r = range_at((uintptr_t)p, RANGE_MAPPED);
    if (r == NULL || r->bytes != bytes || n == 0 || access->flags != GPU_CU_ACCESS_BOTH)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    CHECK(mprotect((void *)r->at, bytes, PROT_READ | PROT_WRITE) == 0);
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_block_granularity(size_t *bytes, const struct gpu_cu_memory *what,
                                       int option) {
    FAKE_CALL(block_granularity);
    (void)what;
    (void)option;
    *bytes = FAKE_GRANULARITY;
    return refused;
}

void gpu_fake_memory_end(void) {
    for (uint32_t i = 0; i < n_ranges; i++)
        if (ranges[i].kind != RANGE_REGISTERED && ranges[i].kind != RANGE_MAPPED)
            munmap((void *)ranges[i].at, ranges[i].bytes);
    n_ranges = 0;
    memset(blocks, 0, sizeof blocks);
}

void gpu_fake_memory_fill(struct gpu_driver *t) {
#define FILL(name) t->name = fake_##name
    FILL(memory_info), FILL(memory_alloc), FILL(memory_free), FILL(host_alloc), FILL(host_free);
    FILL(host_register), FILL(host_unregister);
    if (!gpu_fake.config.no_vmm) {
        FILL(address_reserve), FILL(address_free), FILL(block_create), FILL(block_release);
        FILL(block_map), FILL(block_unmap), FILL(block_access), FILL(block_granularity);
    }
#undef FILL
}
