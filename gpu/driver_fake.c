/* SPDX-License-Identifier: Apache-2.0
 * The fake driver's devices, contexts and modules, and what tests ask of it.
 */
#include "gpu/driver_fake.h"

#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "gpu/driver_fake_state.h"
#include "gpu/fault.h"

struct gpu_fake gpu_fake;
static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct gpu_cu_context *fake_context;

gpu_cu_t gpu_fake_enter(enum fake_call call) {
    pthread_mutex_lock(&fake_lock);
    struct gpu_fake *f = &gpu_fake;
    uint64_t n = ++f->calls[call];
    if (fake_context != NULL && fake_context->owned && call != FAKE_context_set &&
        !pthread_equal(fake_context->owner, pthread_self()))
        f->foreign++;
    if (f->dead != GPU_CUDA_SUCCESS && call != FAKE_version)
        return f->dead;
    for (uint32_t i = 0; i < f->n_rules; i++)
        if (f->rules[i].call == call && n > f->rules[i].from && n <= f->rules[i].to) {
            if (gpu_result_kind(f->rules[i].result) == GPU_FAULT_DEAD)
                f->dead = f->rules[i].result;
            return f->rules[i].result;
        }
    return GPU_CUDA_SUCCESS;
}

void gpu_fake_leave(gpu_cu_t *refused) {
    (void)refused;
    pthread_mutex_unlock(&fake_lock);
}

int gpu_fake_device(void) {
    return fake_context == NULL || fake_context->retained == 0 ? -1 : fake_context->device;
}

/* ---- devices ---- */

static gpu_cu_t fake_init(unsigned flags) {
    FAKE_CALL(init);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    return flags == 0 ? GPU_CUDA_SUCCESS : GPU_CUDA_ERROR_INVALID_VALUE;
}

static gpu_cu_t fake_version(int *version) {
    FAKE_CALL(version);
    *version = gpu_fake.config.driver_version;
    return refused;
}

/* Never knows a name: what stands on it has its own table. */
static gpu_cu_t fake_error_name(gpu_cu_t result, const char **name) {
    FAKE_CALL(error_name);
    (void)result;
    *name = NULL;
    return refused != GPU_CUDA_SUCCESS ? refused : GPU_CUDA_ERROR_INVALID_VALUE;
}

static gpu_cu_t fake_error_string(gpu_cu_t result, const char **text) {
    FAKE_CALL(error_string);
    (void)result;
    *text = NULL;
    return refused != GPU_CUDA_SUCCESS ? refused : GPU_CUDA_ERROR_INVALID_VALUE;
}

static gpu_cu_t fake_device_count(int *n) {
    FAKE_CALL(device_count);
    *n = (int)gpu_fake.config.devices;
    return refused;
}

static bool device_there(int device) {
    return device >= 0 && (uint32_t)device < gpu_fake.config.devices;
}

static gpu_cu_t fake_device_get(int *device, int ordinal) {
    FAKE_CALL(device_get);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (!device_there(ordinal))
        return GPU_CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_device_text(char *to, int n, int device, const char *text) {
    if (!device_there(device) || n < 1)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    size_t bytes = strlen(text) < (size_t)n - 1 ? strlen(text) : (size_t)n - 1;
    memcpy(to, text, bytes);
    to[bytes] = '\0';
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_device_name(char *name, int n, int device) {
    FAKE_CALL(device_name);
    return refused != GPU_CUDA_SUCCESS ? refused : fake_device_text(name, n, device, "fake GPU");
}

static gpu_cu_t fake_device_bus(char *bus, int n, int device) {
    FAKE_CALL(device_bus);
    char text[] = "0000:00:00.0";
    text[6] = (char)('0' + device);
    return refused != GPU_CUDA_SUCCESS ? refused : fake_device_text(bus, n, device, text);
}

static gpu_cu_t fake_device_memory(size_t *bytes, int device) {
    FAKE_CALL(device_memory);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    *bytes = gpu_fake.config.memory_bytes;
    return device_there(device) ? GPU_CUDA_SUCCESS : GPU_CUDA_ERROR_INVALID_DEVICE;
}

static gpu_cu_t fake_device_attribute(int *value, int attribute, int device) {
    FAKE_CALL(device_attribute);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (!device_there(device))
        return GPU_CUDA_ERROR_INVALID_DEVICE;
    const struct gpu_fake_config *c = &gpu_fake.config;
    switch (attribute) {
    case GPU_CU_ATTR_MULTIPROCESSORS:
        *value = 4;
        break;
    case GPU_CU_ATTR_L2_BYTES:
        *value = 1 << 20;
        break;
    case GPU_CU_ATTR_MAJOR:
        *value = c->major;
        break;
    case GPU_CU_ATTR_MINOR:
        *value = c->minor;
        break;
    case GPU_CU_ATTR_COOPERATIVE:
        *value = 1;
        break;
    case GPU_CU_ATTR_SHARED_OPTIN:
        *value = 227 * 1024;
        break;
    case GPU_CU_ATTR_VMM:
        *value = !c->no_vmm;
        break;
    case GPU_CU_ATTR_RDMA_WITH_VMM:
        *value = c->rdma_with_vmm;
        break;
    case GPU_CU_ATTR_SYNC_DOMAINS: /* non-zero, as on a real one: nobody may read it as RDMA */
        *value = 4;
        break;
    default:
        return GPU_CUDA_ERROR_INVALID_VALUE;
    }
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_context_retain(struct gpu_cu_context **context, int device) {
    FAKE_CALL(context_retain);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (!device_there(device))
        return GPU_CUDA_ERROR_INVALID_DEVICE;
    *context = &gpu_fake.contexts[device];
    if ((*context)->retained++ == 0)
        gpu_fake.alive.contexts++;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_context_release(int device) {
    FAKE_CALL(context_release);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (!device_there(device) || gpu_fake.contexts[device].retained == 0)
        return GPU_CUDA_ERROR_INVALID_CONTEXT;
    if (--gpu_fake.contexts[device].retained == 0)
        gpu_fake.alive.contexts--;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_context_set(struct gpu_cu_context *context) {
    FAKE_CALL(context_set);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    fake_context = context;
    if (context != NULL && !context->owned) {
        context->owned = true;
        context->owner = pthread_self();
    }
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_context_get(struct gpu_cu_context **context) {
    FAKE_CALL(context_get);
    *context = fake_context;
    return refused;
}

static gpu_cu_t fake_context_synchronize(void) {
    FAKE_CALL(context_synchronize);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (gpu_fake_device() < 0)
        return GPU_CUDA_ERROR_INVALID_CONTEXT;
    gpu_cu_t r = gpu_fake_unsafe();
    if (r != GPU_CUDA_SUCCESS)
        return r;
    gpu_fake.waits++;
    gpu_fake_drain();
    return gpu_fake.dead;
}

/* ---- modules ---- */

void gpu_fake_kernel(const void *image, const char *name, uint32_t args_bytes,
                     uint32_t shared_bytes, gpu_fake_run_t run) {
    struct gpu_cu_function *k = calloc(1, sizeof *k);
    CHECK(k != NULL && strlen(name) < sizeof k->name);
    *k = (struct gpu_cu_function){.next = gpu_fake.functions,
                                  .image = image,
                                  .args_bytes = args_bytes,
                                  .shared_bytes = shared_bytes,
                                  .shared_max = 48 * 1024 - (int)shared_bytes,
                                  .run = run};
    memcpy(k->name, name, strlen(name));
    gpu_fake.functions = k;
}

static gpu_cu_t fake_module_load(struct gpu_cu_module **module, const void *image) {
    FAKE_CALL(module_load);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (gpu_fake_device() < 0)
        return GPU_CUDA_ERROR_INVALID_CONTEXT;
    gpu_cu_t r = gpu_fake_unsafe();
    if (r != GPU_CUDA_SUCCESS)
        return r;
    const struct gpu_cu_function *k = gpu_fake.functions;
    while (k != NULL && k->image != image)
        k = k->next;
    if (k == NULL)
        return GPU_CUDA_ERROR_NO_BINARY_FOR_GPU;
    struct gpu_cu_module *m = calloc(1, sizeof *m);
    CHECK(m != NULL);
    m->image = image;
    m->next = gpu_fake.modules;
    gpu_fake.modules = *module = m;
    gpu_fake.alive.modules++;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_module_unload(struct gpu_cu_module *module) {
    FAKE_CALL(module_unload);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    for (struct gpu_cu_module **m = &gpu_fake.modules; *m != NULL; m = &(*m)->next)
        if (*m == module) {
            *m = module->next;
            free(module);
            gpu_fake.alive.modules--;
            return GPU_CUDA_SUCCESS;
        }
    return GPU_CUDA_ERROR_INVALID_HANDLE;
}

static gpu_cu_t fake_module_function(struct gpu_cu_function **function,
                                     struct gpu_cu_module *module, const char *name) {
    FAKE_CALL(module_function);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    for (struct gpu_cu_function *k = gpu_fake.functions; k != NULL; k = k->next)
        if (k->image == module->image && strcmp(k->name, name) == 0) {
            *function = k;
            return GPU_CUDA_SUCCESS;
        }
    return GPU_CUDA_ERROR_NOT_FOUND;
}

static gpu_cu_t fake_module_functions_n(unsigned *n, struct gpu_cu_module *module) {
    FAKE_CALL(module_functions_n);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    *n = 0;
    for (const struct gpu_cu_function *k = gpu_fake.functions; k != NULL; k = k->next)
        *n += k->image == module->image;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_module_functions(struct gpu_cu_function **functions, unsigned n,
                                      struct gpu_cu_module *module) {
    FAKE_CALL(module_functions);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    unsigned i = 0;
    for (struct gpu_cu_function *k = gpu_fake.functions; k != NULL && i < n; k = k->next)
        if (k->image == module->image)
            functions[i++] = k;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_function_name(const char **name, struct gpu_cu_function *function) {
    FAKE_CALL(function_name);
    *name = function->name;
    return refused;
}

static gpu_cu_t fake_function_load(struct gpu_cu_function *function) {
    FAKE_CALL(function_load);
    if (refused == GPU_CUDA_SUCCESS)
        function->loaded = true;
    return refused;
}

static gpu_cu_t fake_function_param(struct gpu_cu_function *function, size_t index, size_t *offset,
                                    size_t *bytes) {
    FAKE_CALL(function_param);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (index > 0)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    *bytes = function->args_bytes;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_function_attribute(int *value, int attribute,
                                        struct gpu_cu_function *function) {
    FAKE_CALL(function_attribute);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    *value = attribute == GPU_CU_FUNCTION_SHARED       ? (int)function->shared_bytes
             : attribute == GPU_CU_FUNCTION_VIRTUAL    ? 90
             : attribute == GPU_CU_FUNCTION_SHARED_MAX ? function->shared_max
                                                       : 0;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_function_attribute_set(struct gpu_cu_function *function, int attribute,
                                            int value) {
    FAKE_CALL(function_attribute_set);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    if (attribute != GPU_CU_FUNCTION_SHARED_MAX)
        return GPU_CUDA_SUCCESS;
    if (value < 0 || value + (int)function->shared_bytes > 227 * 1024)
        return GPU_CUDA_ERROR_INVALID_VALUE;
    function->shared_max = value;
    return GPU_CUDA_SUCCESS;
}

static gpu_cu_t fake_occupancy(int *n, struct gpu_cu_function *function, int threads,
                               size_t shared) {
    FAKE_CALL(occupancy);
    if (refused != GPU_CUDA_SUCCESS)
        return refused;
    int by_threads = 2048 / (threads > 0 ? threads : 1);
    size_t bytes = shared + function->shared_bytes;
    int by_shared = bytes == 0 ? by_threads : (int)(228 * 1024 / bytes);
    *n = by_threads < by_shared ? by_threads : by_shared;
    return GPU_CUDA_SUCCESS;
}

/* ---- the test's side ---- */

static enum fake_call call_of(const char *name) {
    static const char *const names[] = {
#define DRIVER(name, symbol, suffix, version, need, arguments) #name,
#include "gpu/driver.def"
#undef DRIVER
    };
    uint32_t i = 0;
    while (i < FAKE_CALLS && strcmp(names[i], name) != 0)
        i++;
    CHECK(i < FAKE_CALLS);
    return (enum fake_call)i;
}

void gpu_fake_fail(const char *name, uint32_t after, uint32_t times, gpu_cu_t result) {
    enum fake_call call = call_of(name);
    CHECK(gpu_fake.n_rules < FAKE_RULES_MAX);
    uint64_t from = gpu_fake.calls[call] + after;
    gpu_fake.rules[gpu_fake.n_rules++] = (struct fake_rule){call, from, from + times, result};
}

void gpu_fake_fail_work(uint32_t after, gpu_cu_t result) {
    gpu_fake.work_fails_at = gpu_fake.work_done + after + 1;
    gpu_fake.work_result = result;
}

uint64_t gpu_fake_calls(const char *name) {
    return gpu_fake.calls[call_of(name)];
}

uint64_t gpu_fake_waits(void) {
    return gpu_fake.waits;
}

uint64_t gpu_fake_foreign_calls(void) {
    return gpu_fake.foreign;
}

void gpu_fake_pressure(uint32_t device, uint64_t bytes) {
    gpu_fake.pressure[device] = bytes;
}

struct gpu_fake_alive gpu_fake_alive(void) {
    struct gpu_fake_alive alive = gpu_fake.alive;
    memcpy(alive.bytes, gpu_fake.used, sizeof alive.bytes);
    return alive;
}

/* Frees what an earlier test left. */
static void fake_end(void) {
    gpu_fake_streams_end();
    gpu_fake_memory_end();
    while (gpu_fake.functions != NULL) {
        struct gpu_cu_function *k = gpu_fake.functions;
        gpu_fake.functions = k->next;
        free(k);
    }
    while (gpu_fake.modules != NULL) {
        struct gpu_cu_module *m = gpu_fake.modules;
        gpu_fake.modules = m->next;
        free(m);
    }
    fake_context = NULL;
}

static void fake_fill(struct gpu_driver *t) {
    memset(t, 0, sizeof *t);
#define FILL(name) t->name = fake_##name
    FILL(init), FILL(version), FILL(error_name), FILL(error_string), FILL(device_count);
    FILL(device_get), FILL(device_name), FILL(device_bus), FILL(device_memory);
    FILL(device_attribute), FILL(context_retain), FILL(context_release), FILL(context_set);
    FILL(context_get), FILL(context_synchronize), FILL(module_load), FILL(module_unload);
    FILL(module_function), FILL(module_functions_n), FILL(module_functions), FILL(function_name);
    FILL(function_load);
    FILL(function_param), FILL(function_attribute), FILL(function_attribute_set), FILL(occupancy);
#undef FILL
    gpu_fake_memory_fill(t);
    gpu_fake_streams_fill(t);
}

const struct gpu_driver *gpu_fake_driver(const struct gpu_fake_config *config) {
    fake_end();
    memset(&gpu_fake, 0, sizeof gpu_fake);
    struct gpu_fake_config *c = &gpu_fake.config;
    *c = *config;
    c->devices = c->devices == 0 ? 1 : c->devices;
    c->memory_bytes = c->memory_bytes == 0 ? 1u << 30 : c->memory_bytes;
    c->driver_version = c->driver_version == 0 ? 13000 : c->driver_version;
    c->major = c->major == 0 ? 9 : c->major;
    CHECK(c->devices <= GPU_FAKE_DEVICES_MAX);
    for (int i = 0; i < GPU_FAKE_DEVICES_MAX; i++)
        gpu_fake.contexts[i].device = i;
    fake_fill(&gpu_fake.table);
    gpu_fake.table.driver_version = c->driver_version;
    gpu_fake.table.fake = true;
    return &gpu_fake.table;
}
