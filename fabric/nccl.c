/* SPDX-License-Identifier: Apache-2.0
 * Finding NCCL at run time.
 */
#include "fabric/nccl.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct fab_nccl_settings fab_nccl_settings_of(bool blocking) {
    /* INT_MIN and NULL: not said. */
    return (struct fab_nccl_settings){.size = sizeof(struct fab_nccl_settings),
                                      .magic = 0xcafebeef,
                                      .version = FAB_NCCL_LEAST,
                                      .blocking = blocking,
                                      .cluster = INT_MIN,
                                      .blocks_min = INT_MIN,
                                      .blocks_max = INT_MIN,
                                      .split_share = INT_MIN};
}

enum status fab_nccl_fill(struct fab_nccl *n, void *(*find)(void *self, const char *symbol),
                          void *self, struct status_note *note) {
    static const struct {
        const char *symbol;
        size_t at;
    } rows[] = {
#define NCCL(name, symbol, arguments) {symbol, offsetof(struct fab_nccl, name)},
#include "fabric/nccl.def"
#undef NCCL
        {"ncclGetErrorString", offsetof(struct fab_nccl, error_text)},
        {"ncclGetLastError", offsetof(struct fab_nccl, last_error)},
    };
    const char *lacks = NULL;
    memset(n, 0, sizeof *n);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *f = find(self, rows[i].symbol);
        if (f == NULL && lacks == NULL)
            lacks = rows[i].symbol;
        memcpy((unsigned char *)n + rows[i].at, &f, sizeof f);
    }
    int version = 0;
    if (n->version != NULL && n->version(&version) == FAB_NCCL_SUCCESS && version < FAB_NCCL_LEAST)
        return status_say(note, STATUS_UNSUPPORTED,
                          "NCCL %d.%d.%d is too old: ranks on GPUs need %d.%d or later",
                          version / 10000, version / 100 % 100, version % 100,
                          FAB_NCCL_LEAST / 10000, FAB_NCCL_LEAST / 100 % 100);
    if (lacks != NULL)
        return status_say(note, STATUS_UNSUPPORTED, "libnccl.so.2 lacks %s: update NCCL", lacks);
    n->found_version = version;
    return STATUS_OK;
}

static void *nccl_find(void *self, const char *symbol) {
    return dlsym(self, symbol);
}

enum status fab_nccl_open(const struct fab_nccl **out, struct status_note *note) {
    static struct fab_nccl table; /* one for the process, as its handle is */
    static bool open;
    if (!open) {
        void *handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL)
            return status_say(
                note, STATUS_UNSUPPORTED,
                "NCCL is not here (libnccl.so.2 is not found): ranks exchange through "
                "the host's memory");
        /* Else a capture would make ranks agree on addresses, and a rank that does not capture be
         * waited for. An operator's own setting stays. */
        setenv("NCCL_GRAPH_REGISTER", "0", 0);
        TRY(fab_nccl_fill(&table, nccl_find, handle, note)); /* it stays loaded */
        open = true;
    }
    *out = &table;
    return STATUS_OK;
}
