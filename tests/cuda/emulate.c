/* SPDX-License-Identifier: Apache-2.0
 * Fibres, and the driver of the device that they are.
 */
#include "tests/cuda/emulate.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "actors/check.h"
#include "gpu/driver_fake.h"

enum { THREADS_MAX = 1024, STACK_BYTES = 1 << 16 };

/* A fibre waits for work, runs one thread of a block, and waits again. */
struct fibre {
    void *stack; /* where it stands */
    bool done;
    ucontext_t context; /* the same where there is no switch of our own */
};

struct emulated_thread emulated_now;
extern unsigned char __start_emulated_shared[], __stop_emulated_shared[];

static struct fibre *fibres;
static unsigned char *stacks;
static uint32_t current;
static struct fibre scheduler;
static const struct emulated *kernel;
static const void *kernel_args;

static void fibre_main(void);

#if defined(__x86_64__)
/* Saves what a call must keep, leaves the stack in *from and goes on with the stack `to`. */
void emulated_switch(void **from, void *to);
__asm__(".text\n.globl emulated_switch\n.type emulated_switch,@function\nemulated_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size emulated_switch,.-emulated_switch\n");

static void switch_to(struct fibre *from, struct fibre *to) {
    emulated_switch(&from->stack, to->stack);
}

static void fibre_begin(struct fibre *f, unsigned char *stack) {
    void (*start)(void) = fibre_main;
    unsigned char *top = stack + STACK_BYTES - 16; /* of a frame that fibre_main was called from */
    memset(top - 48, 0, 48);
    memcpy(top, &start, sizeof start);
    f->stack = top - 48;
}
#else
static void switch_to(struct fibre *from, struct fibre *to) {
    swapcontext(&from->context, &to->context);
}

static void fibre_begin(struct fibre *f, unsigned char *stack) {
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&f->context, fibre_main, 0);
}
#endif

static void fibre_main(void) {
    for (;;) {
        kernel->run(kernel_args);
        fibres[current].done = true;
        switch_to(&fibres[current], &scheduler);
    }
}

void emulated_barrier(void) {
    switch_to(&fibres[current], &scheduler);
}

static void resume(uint32_t i) {
    current = i;
    emulated_now.thread.x = i % emulated_now.block_size.x;
    emulated_now.thread.y = i / emulated_now.block_size.x % emulated_now.block_size.y;
    emulated_now.thread.z = i / emulated_now.block_size.x / emulated_now.block_size.y;
    switch_to(&scheduler, &fibres[i]);
}

static void fibres_open(void) {
    if (fibres != NULL)
        return;
    fibres = calloc(THREADS_MAX, sizeof *fibres);
    stacks = mmap(NULL, (size_t)THREADS_MAX * STACK_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(fibres != NULL && stacks != MAP_FAILED);
    for (uint32_t i = 0; i < THREADS_MAX; i++)
        fibre_begin(&fibres[i], stacks + (size_t)i * STACK_BYTES);
}

/* All threads of a block, each to its next barrier, until all have returned. In one round either
 * all that still run have come to a barrier, or the kernel's barriers diverge. */
static void run_block(uint32_t threads) {
    size_t shared =
        (size_t)((uintptr_t)__stop_emulated_shared - (uintptr_t)__start_emulated_shared);
    memset(__start_emulated_shared, 0xff, shared);
    for (uint32_t i = 0; i < threads; i++)
        fibres[i].done = false;
    for (uint32_t left = threads, round = 0; left > 0; round++) {
        uint32_t ended = 0, running = left;
        for (uint32_t i = 0; i < threads; i++)
            if (!fibres[i].done) {
                resume(i);
                ended += fibres[i].done;
            }
        left -= ended;
        CHECK(ended == 0 || ended == running || round == 0);
    }
}

static gpu_cu_t run_grid(const struct gpu_cu_launch *l, const struct emulated *k,
                         const void *args) {
    uint32_t threads = l->block[0] * l->block[1] * l->block[2];
    if (threads == 0 || threads > THREADS_MAX || l->grid[0] == 0 || l->grid[1] == 0 ||
        l->grid[2] == 0 || l->grid[1] > 65535 || l->grid[2] > 65535)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    if (k->whole) {
        k->run(args);
        return GPU_CUDA_SUCCESS;
    }
    fibres_open();
    kernel = k;
    kernel_args = args;
    emulated_now.grid = (struct emulated_index){l->grid[0], l->grid[1], l->grid[2]};
    emulated_now.block_size = (struct emulated_index){l->block[0], l->block[1], l->block[2]};
    for (uint32_t z = 0; z < l->grid[2]; z++)
        for (uint32_t y = 0; y < l->grid[1]; y++)
            for (uint32_t x = 0; x < l->grid[0]; x++) {
                emulated_now.block = (struct emulated_index){x, y, z};
                run_block(threads);
            }
    return GPU_CUDA_SUCCESS;
}

static void run_on_fake(const char *name, const struct gpu_cu_launch *l, const void *args) {
    size_t i = 0;
    while (i < emulated_kernels_n && strcmp(emulated_kernels[i].name, name) != 0)
        i++;
    CHECK(i < emulated_kernels_n && run_grid(l, &emulated_kernels[i], args) == GPU_CUDA_SUCCESS);
}

void emulate_on_fake(void) {
    for (size_t i = 0; i < emulated_kernels_n; i++)
        gpu_fake_kernel(emulate_images[0].bytes, emulated_kernels[i].name,
                        (uint32_t)emulated_kernels[i].args_bytes, 0, run_on_fake);
}

/* The driver. Streams and events are only counted: everything is done when its call returns. */
static uint64_t launches, fail_at, memory_limit = UINT64_MAX, memory_live;
static gpu_cu_t fail_result;
static int objects; /* streams and events alive */

uint64_t emulate_launches(void) {
    return launches;
}
void emulate_fail_launch(uint64_t nth, gpu_cu_t result) {
    fail_at = result == 0 ? 0 : launches + nth;
    fail_result = result;
}
void emulate_memory(uint64_t bytes) {
    memory_limit = bytes;
}
uint64_t emulate_memory_live(void) {
    return memory_live;
}

static gpu_cu_t host_name(char *name, int n, int device) {
    (void)device;
    strncpy(name, "emulated", (size_t)n);
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_one(int *n) {
    *n = 1;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_get(int *device, int ordinal) {
    *device = ordinal;
    return ordinal == 0 ? GPU_CUDA_SUCCESS : GPU_CUDA_ERROR_INVALID_VALUE;
}
static gpu_cu_t host_attribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == GPU_CU_ATTR_MAJOR             ? 9
             : attribute == GPU_CU_ATTR_MULTIPROCESSORS ? 4
             : attribute == GPU_CU_ATTR_SHARED_OPTIN    ? 227 << 10
                                                        : 0;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_context(struct gpu_cu_context **context, int device) {
    (void)device;
    *context = (struct gpu_cu_context *)(void *)&objects;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_device(int device) {
    (void)device;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_set(struct gpu_cu_context *context) {
    (void)context;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_load(struct gpu_cu_module **module, const void *image) {
    *module = (struct gpu_cu_module *)(uintptr_t)image;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_unload(struct gpu_cu_module *module) {
    (void)module;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_functions_n(unsigned *n, struct gpu_cu_module *module) {
    (void)module;
    *n = (unsigned)emulated_kernels_n;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_functions(struct gpu_cu_function **functions, unsigned n,
                               struct gpu_cu_module *module) {
    (void)module;
    for (unsigned i = 0; i < n; i++)
        functions[i] = (struct gpu_cu_function *)(uintptr_t)&emulated_kernels[i];
    return GPU_CUDA_SUCCESS;
}
static const struct emulated *function_of(struct gpu_cu_function *f) {
    return (const struct emulated *)(void *)f;
}
static gpu_cu_t host_function_name(const char **name, struct gpu_cu_function *f) {
    *name = function_of(f)->name;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_function_load(struct gpu_cu_function *f) {
    (void)f;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_function_param(struct gpu_cu_function *f, size_t i, size_t *offset,
                                    size_t *bytes) {
    if (i > 0)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    *bytes = function_of(f)->args_bytes;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_function_attribute(int *value, int attribute, struct gpu_cu_function *f) {
    (void)attribute, (void)f;
    *value = 0;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_function_set(struct gpu_cu_function *f, int attribute, int value) {
    (void)f, (void)attribute, (void)value;
    return GPU_CUDA_SUCCESS;
}
/* Ranks on threads of their own share the one device. */
static pthread_mutex_t one_launch = PTHREAD_MUTEX_INITIALIZER;

static gpu_cu_t host_launch(const struct gpu_cu_launch *l, struct gpu_cu_function *f, void **params,
                            void **extra) {
    CHECK(extra == NULL);
    pthread_mutex_lock(&one_launch);
    gpu_cu_t result = ++launches == fail_at ? fail_result : run_grid(l, function_of(f), params[0]);
    pthread_mutex_unlock(&one_launch);
    return result;
}

/* Memory: its size stands before it; fresh memory holds NaN. */
enum { MEMORY_HEAD = 256 };
static gpu_cu_t host_info(size_t *free_bytes, size_t *total) {
    *total = memory_limit == UINT64_MAX ? (size_t)1 << 40 : memory_limit;
    *free_bytes = *total - memory_live;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_memory(gpu_cu_ptr_t *p, size_t bytes) {
    if (bytes == 0)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    if (bytes > memory_limit - memory_live)
        return GPU_CUDA_ERROR_OUT_OF_MEMORY;
    unsigned char *m = aligned_alloc(MEMORY_HEAD, (bytes + 2 * MEMORY_HEAD) & ~(size_t)255);
    if (m == NULL)
        return GPU_CUDA_ERROR_OUT_OF_MEMORY;
    memset(m, 0xff, bytes + MEMORY_HEAD);
    memcpy(m, &bytes, sizeof bytes);
    memory_live += bytes;
    *p = (gpu_cu_ptr_t)(uintptr_t)(m + MEMORY_HEAD);
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_memory_free(gpu_cu_ptr_t p) {
    unsigned char *m = (unsigned char *)(uintptr_t)p - MEMORY_HEAD;
    size_t bytes;
    memcpy(&bytes, m, sizeof bytes);
    memory_live -= bytes;
    free(m);
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_pinned(void **p, size_t bytes, unsigned flags) {
    (void)flags;
    *p = calloc(1, bytes);
    return *p != NULL ? GPU_CUDA_SUCCESS : GPU_CUDA_ERROR_OUT_OF_MEMORY;
}
static gpu_cu_t host_pinned_free(void *p) {
    free(p);
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_in(gpu_cu_ptr_t to, const void *from, size_t n, struct gpu_cu_stream *s) {
    (void)s;
    memcpy((void *)(uintptr_t)to, from, n);
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_out(void *to, gpu_cu_ptr_t from, size_t n, struct gpu_cu_stream *s) {
    (void)s;
    memcpy(to, (const void *)(uintptr_t)from, n);
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_within(gpu_cu_ptr_t to, gpu_cu_ptr_t from, size_t n, struct gpu_cu_stream *s) {
    return host_in(to, (const void *)(uintptr_t)from, n, s);
}
static gpu_cu_t host_fill8(gpu_cu_ptr_t to, unsigned char value, size_t n,
                           struct gpu_cu_stream *s) {
    (void)s;
    memset((void *)(uintptr_t)to, value, n);
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_stream(struct gpu_cu_stream **s, unsigned flags, int priority) {
    (void)flags, (void)priority;
    objects++;
    *s = (struct gpu_cu_stream *)(void *)&objects;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_stream_end(struct gpu_cu_stream *s) {
    (void)s;
    objects--;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_stream_done(struct gpu_cu_stream *s) {
    (void)s;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_stream_wait(struct gpu_cu_stream *s, struct gpu_cu_event *e, unsigned flags) {
    (void)s, (void)e, (void)flags;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_event(struct gpu_cu_event **e, unsigned flags) {
    (void)flags;
    objects++;
    *e = (struct gpu_cu_event *)(void *)&objects;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_event_end(struct gpu_cu_event *e) {
    (void)e;
    objects--;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_event_record(struct gpu_cu_event *e, struct gpu_cu_stream *s) {
    (void)e, (void)s;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_event_done(struct gpu_cu_event *e) {
    (void)e;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_elapsed(float *ms, struct gpu_cu_event *from, struct gpu_cu_event *to) {
    (void)from, (void)to;
    *ms = 0.001f;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t host_capture(struct gpu_cu_stream *s, int *state) {
    (void)s;
    *state = GPU_CU_CAPTURING_NOT;
    return GPU_CUDA_SUCCESS;
}

static const struct gpu_driver driver = {.driver_version = 13000,
                                         .fake = true,
                                         .device_count = host_one,
                                         .device_get = host_get,
                                         .device_name = host_name,
                                         .device_attribute = host_attribute,
                                         .context_retain = host_context,
                                         .context_release = host_device,
                                         .context_set = host_set,
                                         .module_load = host_load,
                                         .module_unload = host_unload,
                                         .module_functions_n = host_functions_n,
                                         .module_functions = host_functions,
                                         .function_name = host_function_name,
                                         .function_load = host_function_load,
                                         .function_param = host_function_param,
                                         .function_attribute = host_function_attribute,
                                         .function_attribute_set = host_function_set,
                                         .launch = host_launch,
                                         .memory_info = host_info,
                                         .memory_alloc = host_memory,
                                         .memory_free = host_memory_free,
                                         .host_alloc = host_pinned,
                                         .host_free = host_pinned_free,
                                         .copy_in = host_in,
                                         .copy_out = host_out,
                                         .copy_within = host_within,
                                         .fill8 = host_fill8,
                                         .stream_create = host_stream,
                                         .stream_destroy = host_stream_end,
                                         .stream_query = host_stream_done,
                                         .stream_synchronize = host_stream_done,
                                         .stream_wait = host_stream_wait,
                                         .event_create = host_event,
                                         .event_destroy = host_event_end,
                                         .event_record = host_event_record,
                                         .event_query = host_event_done,
                                         .event_synchronize = host_event_done,
                                         .event_elapsed = host_elapsed,
                                         .capture_state = host_capture};

const struct gpu_driver *emulate_driver(void) {
    return &driver;
}

const struct krn_cuda_image emulate_images[1] = {{"emulated", "host", emulated_kernels, 1}};
