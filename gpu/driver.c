/* SPDX-License-Identifier: Apache-2.0
 * Finding the driver at run time.
 */
#include "gpu/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu/fault.h"

enum { DRIVER_LEAST = 12040 };

/* cuGetProcAddress as of 11.3 and 12.0. */
typedef gpu_cu_t (*driver_address_old)(const char *, void **, int, uint64_t);
typedef gpu_cu_t (*driver_address_new)(const char *, void **, int, uint64_t, int *);

struct driver_library {
    void *handle;
    driver_address_old by_version;
    driver_address_new by_version_2;
};

static void *driver_find(void *self, const char *symbol, int version, const char *suffix) {
    const struct driver_library *l = self;
    void *f = NULL;
    if (l->by_version_2 != NULL) {
        int found = 0;
        if (l->by_version_2(symbol, &f, version, 0, &found) == GPU_CUDA_SUCCESS && f != NULL)
            return f;
    } else if (l->by_version != NULL && l->by_version(symbol, &f, version, 0) == GPU_CUDA_SUCCESS &&
               f != NULL) {
        return f;
    }
    char name[96];
    snprintf(name, sizeof name, "%s%s", symbol, suffix);
    return dlsym(l->handle, name);
}

/* Says which CUDA a version number is, as people write it. */
static enum status driver_too_old(struct status_note *note, int has, uint32_t needed) {
    return status_say(
        note, STATUS_UNSUPPORTED,
        "the GPU driver supports CUDA %d.%d and the kernels of this build need %u.%u: "
        "update the driver, or build with an older toolkit",
        has / 1000, has % 1000 / 10, needed / 1000, needed % 1000 / 10);
}

enum status gpu_driver_fill(struct gpu_driver *d, uint32_t needed,
                            void *(*find)(void *self, const char *symbol, int version,
                                          const char *suffix),
                            void *self, struct status_note *note) {
    static const struct {
        const char *symbol, *suffix;
        int version;
        bool need;
        size_t at;
    } rows[] = {
#define DRIVER(name, symbol, suffix, version, need, arguments)                                     \
    {symbol, suffix, version, need, offsetof(struct gpu_driver, name)},
#include "gpu/driver.def"
#undef DRIVER
    };
    memset(d, 0, sizeof *d);
    const char *lacks = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *f = find(self, rows[i].symbol, rows[i].version, rows[i].suffix);
        if (f == NULL && rows[i].need && lacks == NULL)
            lacks = rows[i].symbol;
        memcpy((unsigned char *)d + rows[i].at, &f, sizeof f);
    }
    if (needed < DRIVER_LEAST)
        needed = DRIVER_LEAST;
    if (d->version == NULL || d->init == NULL)
        return status_say(note, STATUS_UNSUPPORTED,
                          "libcuda.so.1 is there but has no %s: it is not a GPU driver", lacks);
    if (d->version(&d->driver_version) != GPU_CUDA_SUCCESS)
        d->driver_version = 0;
    if ((uint32_t)d->driver_version < needed)
        return driver_too_old(note, d->driver_version, needed);
    if (lacks != NULL)
        return status_say(note, STATUS_UNSUPPORTED,
                          "the GPU driver (CUDA %d.%d) lacks %s: update it",
                          d->driver_version / 1000, d->driver_version % 1000 / 10, lacks);
    gpu_cu_t result = d->init(0);
    int n = 0;
    if (result == GPU_CUDA_SUCCESS)
        result = d->device_count(&n);
    if (result == GPU_CUDA_SUCCESS && n == 0)
        result = GPU_CUDA_ERROR_NO_DEVICE;
    if (result == GPU_CUDA_SUCCESS)
        return STATUS_OK;
    return status_say(note, STATUS_UNSUPPORTED,
                      "the GPU driver cannot start: %s (%d); nvidia-smi shows what it sees",
                      gpu_result_name(d, result), result);
}

enum status gpu_driver_open(uint32_t needed, const struct gpu_driver **out,
                            struct status_note *note) {
    static struct gpu_driver table; /* the driver is one for the process, as its handle is */
    static bool open;
    if (open) {
        if ((uint32_t)table.driver_version < needed)
            return driver_too_old(note, table.driver_version, needed);
        *out = &table;
        return STATUS_OK;
    }
    struct driver_library l = {.handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (l.handle == NULL)
        return status_say(
            note, STATUS_UNSUPPORTED,
            "no GPU driver here (libcuda.so.1 is not found); --device cpu needs none");
    void *f = dlsym(l.handle, "cuGetProcAddress_v2");
    memcpy(&l.by_version_2, &f, sizeof f);
    f = dlsym(l.handle, "cuGetProcAddress");
    memcpy(&l.by_version, &f, sizeof f);
    enum status status = gpu_driver_fill(&table, needed, driver_find, &l, note);
    if (status != STATUS_OK)
        return status; /* it stays loaded: it may have started threads */
    open = true;
    *out = &table;
    return STATUS_OK;
}
