/* SPDX-License-Identifier: Apache-2.0
 * NCCL, found at run time: a machine without it starts all the same. Nothing of it is needed to
 * build: these are the declarations of nccl.h as of 2.18.
 */
#ifndef FABRIC_NCCL_H
#define FABRIC_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "actors/status.h"

typedef int fab_nccl_result_t; /* ncclResult_t */
enum { FAB_NCCL_SUCCESS = 0, FAB_NCCL_IN_PROGRESS = 7, FAB_NCCL_FLOAT = 7 };
enum { FAB_NCCL_LEAST = 21800 }; /* 10000 * major + 100 * minor + patch */

struct fab_nccl_comm; /* ncclComm_t */

struct fab_nccl_id { /* ncclUniqueId */
    char bytes[128];
};

/* ncclConfig_t as of FAB_NCCL_LEAST; later versions read it by its version. */
struct fab_nccl_settings {
    size_t size;
    unsigned magic, version;
    int blocking, cluster, blocks_min, blocks_max;
    const char *net;
    int split_share;
};
/* All else left to NCCL. */
struct fab_nccl_settings fab_nccl_settings_of(bool blocking);

struct fab_nccl {
#define NCCL(name, symbol, arguments) fab_nccl_result_t(*name) arguments;
#include "fabric/nccl.def"
#undef NCCL
    const char *(*error_text)(fab_nccl_result_t result);         /* ncclGetErrorString */
    const char *(*last_error)(const struct fab_nccl_comm *comm); /* ncclGetLastError */
    int found_version;
};

/* The library of this machine, loaded once for the process. UNSUPPORTED says that it is not there,
 * too old or lacks something, and what to do. */
enum status fab_nccl_open(const struct fab_nccl **out, struct status_note *note);
/* The same over a given loader: find(self, symbol) returns the function or NULL. */
enum status fab_nccl_fill(struct fab_nccl *n, void *(*find)(void *self, const char *symbol),
                          void *self, struct status_note *note);

#endif
