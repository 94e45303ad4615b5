/* SPDX-License-Identifier: Apache-2.0
 * Modules, functions by name, launches.
 */
#include "gpu/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"

enum { LAUNCH_SLOTS = 2 * GPU_KERNELS_MAX }; /* a power of two */

struct launch_kernel {
    char name[KRN_CUDA_NAME_MAX];
    struct gpu_cu_function *function;
    uint32_t args_bytes;
    uint32_t shared_max; /* dynamic */
    bool overlaps;       /* it was compiled for what KRN_CUDA_OVERLAP needs */
};

struct gpu_launcher {
    struct gpu_launcher_config config;
    struct gpu_work no_work; /* for owners that keep none */
    struct gpu_cu_module *modules[GPU_KERNEL_IMAGES_MAX];
    uint32_t n_modules, n_left_out, n_kernels;
    uint16_t slots[LAUNCH_SLOTS]; /* 1 + index of a kernel, by the hash of its name; 0: free */
    struct launch_kernel kernels[GPU_KERNELS_MAX];
};

static uint32_t launch_hash(const char *name) {
    uint32_t h = 2166136261u;
    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h ^ h >> 15;
}

/* The slot that holds a name, or the free one where it belongs. */
static uint32_t launch_slot(const struct gpu_launcher *l, const char *name) {
    uint32_t at = launch_hash(name) & (LAUNCH_SLOTS - 1);
    while (l->slots[at] != 0 && strcmp(l->kernels[l->slots[at] - 1].name, name) != 0)
        at = (at + 1) & (LAUNCH_SLOTS - 1);
    return at;
}

static const struct launch_kernel *launch_find(const struct gpu_launcher *l, const char *name) {
    uint32_t i = l->slots[launch_slot(l, name)];
    return i == 0 ? NULL : &l->kernels[i - 1];
}

/* What one function needs before it may be launched: loaded, its argument size known, and as much
 * shared memory allowed as the device has. */
static enum status launch_prepare(struct gpu_launcher *l, struct gpu_cu_function *f,
                                  int shared_optin, struct status_note *note) {
    const struct gpu_driver *d = l->config.driver;
    const char *name = NULL;
    size_t offset = 0, bytes = 0;
    int fixed = 0, made_for = 0;
    gpu_cu_t r = d->function_name(&name, f);
    if (r != GPU_CUDA_SUCCESS)
        return gpu_fault_say(note, d, r, NULL, "asking for a kernel's name");
    if (strlen(name) >= KRN_CUDA_NAME_MAX || l->n_kernels == GPU_KERNELS_MAX)
        return status_say(note, STATUS_TOO_LARGE,
                          "kernel %s: names have at most %d bytes, and %d "
                          "kernels fit",
                          name, KRN_CUDA_NAME_MAX - 1, GPU_KERNELS_MAX);
    uint32_t slot = launch_slot(l, name);
    if (l->slots[slot] != 0)
        return status_say(note, STATUS_DUPLICATE, "two kernels of this build are named %s", name);
    r = d->function_load(f);
    if (r == GPU_CUDA_SUCCESS)
        r = d->function_param(f, 0, &offset, &bytes);
    if (r == GPU_CUDA_SUCCESS)
        r = d->function_attribute(&fixed, GPU_CU_FUNCTION_SHARED, f);
    if (r == GPU_CUDA_SUCCESS)
        r = d->function_attribute(&made_for, GPU_CU_FUNCTION_VIRTUAL, f);
    if (r == GPU_CUDA_SUCCESS && shared_optin > fixed)
        r = d->function_attribute_set(f, GPU_CU_FUNCTION_SHARED_MAX, shared_optin - fixed);
    if (r != GPU_CUDA_SUCCESS) {
        char what[32 + KRN_CUDA_NAME_MAX];
        snprintf(what, sizeof what, "preparing kernel %s", name);
        return gpu_fault_say(note, d, r, NULL, what);
    }
    if (d->function_param(f, 1, &offset, &offset) == GPU_CUDA_SUCCESS)
        return status_say(note, STATUS_UNSUPPORTED,
                          "kernel %s takes more than one parameter; it must take one struct", name);
    struct launch_kernel *k = &l->kernels[l->n_kernels++];
    snprintf(k->name, sizeof k->name, "%s", name);
    k->function = f;
    k->args_bytes = (uint32_t)bytes;
    k->overlaps = made_for >= 90; /* code for less waits for nobody */
    k->shared_max = shared_optin > fixed ? (uint32_t)(shared_optin - fixed) : 0;
    l->slots[slot] = (uint16_t)l->n_kernels;
    return STATUS_OK;
}

static enum status launch_load(struct gpu_launcher *l, const struct krn_cuda_image *image,
                               int shared_optin, struct status_note *note) {
    const struct gpu_driver *d = l->config.driver;
    struct gpu_cu_module *module = NULL;
    char what[64 + KRN_CUDA_NAME_MAX];
    snprintf(what, sizeof what, "loading the kernels of %.64s", image->name);
    gpu_cu_t r = d->module_load(&module, image->bytes);
    if (r == GPU_CUDA_ERROR_NO_BINARY_FOR_GPU || r == GPU_CUDA_ERROR_INVALID_PTX) {
        l->n_left_out++;
        return STATUS_OK;
    }
    if (r != GPU_CUDA_SUCCESS)
        return gpu_fault_say(note, d, r, NULL, what);
    l->modules[l->n_modules++] = module;
    struct gpu_cu_function *functions[GPU_KERNELS_MAX];
    unsigned n = 0;
    r = d->module_functions_n(&n, module);
    if (r == GPU_CUDA_SUCCESS && n > GPU_KERNELS_MAX)
        return status_say(note, STATUS_TOO_LARGE, "%s: %u kernels in one file", what, n);
    if (r == GPU_CUDA_SUCCESS && n > 0)
        r = d->module_functions(functions, n, module);
    if (r != GPU_CUDA_SUCCESS)
        return gpu_fault_say(note, d, r, NULL, what);
    for (unsigned i = 0; i < n; i++)
        TRY(launch_prepare(l, functions[i], shared_optin, note));
    return STATUS_OK;
}

/* None of the images has code for this device. */
static enum status launch_foreign(const struct gpu_launcher *l, struct status_note *note) {
    const struct gpu_driver *d = l->config.driver;
    int major = 0, minor = 0;
    d->device_attribute(&major, GPU_CU_ATTR_MAJOR, l->config.device);
    d->device_attribute(&minor, GPU_CU_ATTR_MINOR, l->config.device);
    if (l->config.n_images == 0)
        return status_say(note, STATUS_UNSUPPORTED,
                          "this build has no kernels for a GPU: configure it where nvcc is");
    return status_say(note, STATUS_UNSUPPORTED,
                      "GPU %d is sm_%d%d and this build has kernels for %s: build with "
                      "--with-cuda-arch=%d%d (8.0 is the least)",
                      l->config.device, major, minor, l->config.images[0].archs, major, minor);
}

enum status gpu_launcher_open(const struct gpu_launcher_config *config, struct gpu_launcher **out,
                              struct status_note *note) {
    CHECK(config->n_images <= GPU_KERNEL_IMAGES_MAX);
    struct gpu_launcher *l = calloc(1, sizeof *l);
    if (l == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the table of kernels");
    l->config = *config;
    if (l->config.work == NULL)
        l->config.work = &l->no_work;
    int optin = 0;
    gpu_cu_t r = config->driver->device_attribute(&optin, GPU_CU_ATTR_SHARED_OPTIN, config->device);
    enum status status =
        gpu_fault_say(note, config->driver, r, NULL, "asking for the device's shared memory");
    for (size_t i = 0; i < config->n_images && status == STATUS_OK; i++)
        status = launch_load(l, &config->images[i], optin, note);
    if (status == STATUS_OK && l->n_kernels == 0)
        status = launch_foreign(l, note);
    if (status != STATUS_OK) {
        gpu_launcher_close(l);
        return status;
    }
    *out = l;
    return STATUS_OK;
}

void gpu_launcher_close(struct gpu_launcher *l) {
    if (l == NULL)
        return;
    for (uint32_t i = 0; i < l->n_modules; i++)
        l->config.driver->module_unload(l->modules[i]);
    free(l);
}

bool gpu_launcher_has(const struct gpu_launcher *l, const char *kernel) {
    return launch_find(l, kernel) != NULL;
}

uint32_t gpu_launcher_count(const struct gpu_launcher *l, uint32_t *left_out) {
    if (left_out != NULL)
        *left_out = l->n_left_out;
    return l->n_kernels;
}

uint32_t gpu_launcher_resident(const struct gpu_launcher *l, const struct krn_cuda_call *call) {
    const struct launch_kernel *k = launch_find(l, call->kernel);
    int blocks = 0;
    if (k == NULL ||
        l->config.driver->occupancy(&blocks, k->function,
                                    (int)(call->block[0] * call->block[1] * call->block[2]),
                                    call->shared) != GPU_CUDA_SUCCESS)
        return 0;
    return (uint32_t)blocks;
}

static enum status launch_failed(const struct gpu_launcher *l, const struct krn_cuda_call *call,
                                 const char *how, gpu_cu_t result, struct status_note *note) {
    char what[256];
    snprintf(what, sizeof what, "%s kernel %s (grid %ux%ux%u, block %ux%ux%u, %u shared bytes)",
             how, call->kernel, call->grid[0], call->grid[1], call->grid[2], call->block[0],
             call->block[1], call->block[2], call->shared);
    struct gpu_work work = *l->config.work;
    work.kernel = NULL; /* named already */
    return gpu_fault_say(note, l->config.driver, result, &work, what);
}

static uint32_t launch_attributes(const struct krn_cuda_call *call, const struct launch_kernel *k,
                                  struct gpu_cu_launch_attribute *a) {
    uint32_t n = 0;
    if (call->cluster[0] != 0) {
        a[n].id = GPU_CU_LAUNCH_CLUSTER;
        memcpy(a[n].value.cluster, call->cluster, sizeof call->cluster);
        n++;
    }
    if ((call->flags & KRN_CUDA_OVERLAP) && k->overlaps) {
        a[n].id = GPU_CU_LAUNCH_OVERLAP;
        a[n++].value.flag = 1;
    }
    if (call->flags & KRN_CUDA_COOPERATIVE) {
        a[n].id = GPU_CU_LAUNCH_COOPERATIVE;
        a[n++].value.flag = 1;
    }
    return n;
}

enum status gpu_launch(struct gpu_launcher *l, struct gpu_cu_stream *stream,
                       const struct krn_cuda_call *call, struct status_note *note) {
    const struct gpu_driver *d = l->config.driver;
    const struct launch_kernel *k = launch_find(l, call->kernel);
    if (k == NULL)
        return status_say(note, STATUS_UNSUPPORTED,
                          "kernel %s is not in this build for this device", call->kernel);
    CHECK(call->args_bytes == k->args_bytes);
    struct gpu_cu_launch_attribute attributes[3] = {{0}};
    struct gpu_cu_launch launch = {.shared = call->shared,
                                   .stream = stream,
                                   .attributes = attributes,
                                   .n_attributes = launch_attributes(call, k, attributes)};
    memcpy(launch.grid, call->grid, sizeof launch.grid);
    memcpy(launch.block, call->block, sizeof launch.block);
    void *params[1];
    memcpy(&params[0], &call->args, sizeof params[0]); /* the driver copies and does not write */
    l->config.work->kernel = k->name;
    gpu_cu_t r = d->launch(&launch, k->function, params, NULL);
    if (r != GPU_CUDA_SUCCESS)
        return launch_failed(l, call, "launching", r, note);
    if (!l->config.each)
        return STATUS_OK;
    int capturing = GPU_CU_CAPTURING_NOT;
    r = d->capture_state(stream, &capturing);
    if (r == GPU_CUDA_SUCCESS && capturing == GPU_CU_CAPTURING_NOT)
        r = d->stream_synchronize(stream);
    return r == GPU_CUDA_SUCCESS ? STATUS_OK : launch_failed(l, call, "running", r, note);
}
