/* SPDX-License-Identifier: Apache-2.0
 * Host memory and stores of all ranks, and what the stores agree on.
 */
#include "lanes/engine_tiers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gpu/plan.h"
#include "sessions/warm.h"

enum { TIERS_SLOTS_LEAST = 64, TIERS_SLOTS_MAX = 1 << 28, TIERS_RECORDS_MAX = 1 << 22 };

struct lane_tiers {
    struct lane_tiers_config config;
    uint64_t host_bytes;
    uint32_t n_slots, n_records, found;
    char text[SES_INDEX_TEXT];
    unsigned char *host[GPU_WORLD_MAX];
    uint32_t asked, pinned; /* ranks whose device was asked to know it, and those that do */
    struct ses_store *store[GPU_WORLD_MAX];
    struct ses_warm *warm; /* NULL: nothing to touch */
    bool may_warm;
};

static enum status tiers_size(struct lane_tiers *t, struct status_note *note) {
    const struct lane_tiers_config *c = &t->config;
    t->host_bytes = (c->page_bytes + SES_DISK_BLOCK - 1) / SES_DISK_BLOCK * SES_DISK_BLOCK;
    uint64_t n = c->tokens ? c->ram / c->page_tokens : c->ram / t->host_bytes;
    if (c->ram == 0)
        n = TIERS_SLOTS_LEAST;
    if (n == 0)
        return status_say(note, STATUS_NO_PAGES,
                          "a RAM cache of %llu bytes holds no page; one page of %u tokens takes "
                          "%llu bytes",
                          (unsigned long long)c->ram, c->page_tokens,
                          (unsigned long long)t->host_bytes);
    if (n > TIERS_SLOTS_MAX)
        return status_say(note, STATUS_TOO_LARGE,
                          "a RAM cache of %llu bytes is %llu pages; this build can number %d",
                          (unsigned long long)c->ram, (unsigned long long)n, TIERS_SLOTS_MAX);
    t->n_slots = (uint32_t)n;
    return STATUS_OK;
}

static enum status tiers_host(struct lane_tiers *t, uint32_t rank, struct status_note *note) {
    void *map = mmap(NULL, t->n_slots * t->host_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return status_say(note, STATUS_NO_MEMORY, "no address space for %u pages of %llu bytes",
                          t->n_slots, (unsigned long long)t->host_bytes);
    madvise(map, t->n_slots * t->host_bytes, MADV_HUGEPAGE); /* fewer faults and pins; may fail */
    t->host[rank] = map;
    struct ses_warm_range all = {map, t->n_slots * t->host_bytes};
    t->may_warm = ses_warm_first(&all);
    return STATUS_OK;
}

static enum status tiers_store(struct lane_tiers *t, uint32_t rank, struct status_note *note) {
    const struct lane_tiers_config *c = &t->config;
    char folder[4096];
    if (c->world == 1)
        snprintf(folder, sizeof folder, "%s", c->folder);
    else
        snprintf(folder, sizeof folder, "%s/rank-%u-of-%u", c->folder, rank, c->world);
    struct ses_store_config sc = {.folder = folder,
                                  .disk = c->disk,
                                  .budget = c->budget,
                                  .floor = c->floor,
                                  .segment_bytes = c->segment_bytes,
                                  .key = c->key,
                                  .text = c->text,
                                  .profile = c->profile,
                                  .root = rank == 0 ? c->folder : NULL,
                                  .rank = rank,
                                  .page_tokens = c->page_tokens,
                                  .page_bytes = c->page_bytes,
                                  .host = t->host[rank],
                                  .host_bytes = t->host_bytes,
                                  .n_host = t->n_slots,
                                  .say = c->say,
                                  .say_self = c->say_self};
    uint32_t most = ses_store_capacity(&sc);
    t->n_records = most < TIERS_RECORDS_MAX ? most : TIERS_RECORDS_MAX;
    sc.n_places = t->n_records > t->n_slots ? t->n_records : t->n_slots; /* the memory's */
    sc.n_numbers = sc.n_places + t->n_slots;
    return ses_store_open(&sc, &t->store[rank], note);
}

enum status lane_tiers_open(const struct lane_tiers_config *config, struct lane_tiers **out,
                            struct status_note *note) {
    *out = NULL;
    if (config->ram == 0 && config->folder == NULL)
        return STATUS_OK;
    struct lane_tiers *t = calloc(1, sizeof *t);
    if (t == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the tiers");
    t->config = *config;
    snprintf(t->text, sizeof t->text, "%s", config->text != NULL ? config->text : "");
    t->config.text = t->text;
    enum status s = tiers_size(t, note);
    for (uint32_t r = 0; r < config->world && s == STATUS_OK; r++)
        s = tiers_host(t, r, note);
    for (uint32_t r = 0; r < config->world && config->folder != NULL && s == STATUS_OK; r++)
        s = tiers_store(t, r, note);
    if (s != STATUS_OK) {
        lane_tiers_close(t);
        return s;
    }
    *out = t;
    return STATUS_OK;
}

void lane_tiers_close(struct lane_tiers *t) {
    if (t == NULL)
        return;
    for (uint32_t r = 0; r < GPU_WORLD_MAX; r++) {
        ses_store_close(t->store[r]);
        if (t->host[r] != NULL)
            munmap(t->host[r], t->n_slots * t->host_bytes);
    }
    ses_warm_close(t->warm);
    free(t);
}

unsigned char *const *lane_tiers_hosts(const struct lane_tiers *t) {
    return t != NULL ? t->host : NULL;
}

const char *lane_tiers_of(const struct lane_tiers *t) {
    return t != NULL ? t->text : "";
}

unsigned char *lane_tiers_host(const struct lane_tiers *t, uint32_t rank) {
    return t != NULL ? t->host[rank] : NULL;
}

void lane_tiers_pin(struct lane_tiers *t, uint32_t rank, struct gpu_device *device) {
    if (t == NULL || device->ops->host_use == NULL)
        return;
    t->asked++;
    t->pinned += device->ops->host_use(device, t->host[rank], t->n_slots * t->host_bytes);
}

uint64_t lane_tiers_host_bytes(const struct lane_tiers *t) {
    return t != NULL ? t->host_bytes : 0;
}

uint32_t lane_tiers_slots(const struct lane_tiers *t) {
    return t != NULL ? t->n_slots : 0;
}

uint32_t lane_tiers_records(const struct lane_tiers *t) {
    return t != NULL ? t->n_records : 0;
}

static void tiers_other(void *memory, const struct ses_record *r) {
    ses_memory_found_other(memory, r);
}

enum status lane_tiers_found(struct lane_tiers *t, struct ses_memory *memory,
                             struct status_note *note) {
    if (t == NULL || t->config.folder == NULL)
        return STATUS_OK;
    uint32_t world = t->config.world, at[GPU_WORLD_MAX];
    for (uint32_t i = 0; i < ses_store_n_found(t->store[0]); i++) {
        const struct ses_record *r = ses_store_found(t->store[0], i);
        bool all = true;
        at[0] = i;
        for (uint32_t k = 1; k < world && all; k++) {
            at[k] = ses_store_find(t->store[k], r);
            all = at[k] != UINT32_MAX;
        }
        if (!all || !ses_memory_found(memory, r, t->found))
            continue;
        for (uint32_t k = 0; k < world; k++)
            ses_store_bind(t->store[k], at[k], t->found);
        t->found++;
    }
    ses_memory_found_all(memory);
    ses_store_each_other(t->store[0], memory, tiers_other);
    for (uint32_t k = 0; k < world; k++)
        TRY(ses_store_settle(t->store[k], note));
    return STATUS_OK;
}

/* What a driver pinned is there already. */
static enum status spawn_warm(struct lane_tiers *t, struct act_rt *rt, struct status_note *note) {
    struct ses_warm_range range[GPU_WORLD_MAX];
    if (!t->may_warm || (t->asked > 0 && t->pinned == t->asked))
        return STATUS_OK;
    for (uint32_t r = 0; r < t->config.world; r++)
        range[r] = (struct ses_warm_range){t->host[r], t->n_slots * t->host_bytes};
    TRY(ses_warm_open(range, t->config.world, &t->warm, note));
    if (act_spawn(rt, &ses_warm_kind, t->warm, ACT_OWN_THREAD) == 0)
        return status_say(note, STATUS_NO_MEMORY, "the runtime has no room for the tiers");
    return STATUS_OK;
}

enum status lane_tiers_spawn(struct lane_tiers *t, struct act_rt *rt, struct ses_memory *memory,
                             act_id_t memory_id, bool own, struct status_note *note) {
    if (t != NULL && own)
        TRY(spawn_warm(t, rt, note));
    if (t == NULL || t->config.folder == NULL)
        return STATUS_OK;
    act_id_t id[GPU_WORLD_MAX];
    for (uint32_t r = 0; r < t->config.world; r++) {
        ses_store_wire(t->store[r], memory_id);
        id[r] = act_spawn(rt, &ses_store_kind, t->store[r], own ? ACT_OWN_THREAD : 0);
        if (id[r] == 0)
            return status_say(note, STATUS_NO_MEMORY, "the runtime has no room for the stores");
    }
    ses_memory_wire_stores(memory, id, t->config.world);
    return STATUS_OK;
}

void lane_tiers_text(const struct lane_tiers *t, char *text, size_t bytes) {
    text[0] = '\0';
    if (t == NULL)
        return;
    int n = snprintf(text, bytes, "RAM cache of %u pages, %.1f MiB a rank", t->n_slots,
                     (double)(t->n_slots * t->host_bytes) / (1 << 20));
    if (t->asked > 0 && n >= 0 && (size_t)n < bytes)
        n += snprintf(text + n, bytes - (size_t)n, "%s",
                      t->pinned == t->asked ? ", pinned" : ", which the driver did not pin");
    if (t->config.folder == NULL || n < 0 || (size_t)n >= bytes)
        return;
    struct ses_store_counts c;
    lane_tiers_counts(t, &c);
    snprintf(text + n, bytes - (size_t)n,
             "; disk cache %s: room for %u pages, %u found, %llu of other models or settings "
             "(%s%s)",
             t->config.folder, t->n_records, t->found, (unsigned long long)c.found_other,
             ses_store_disk_name(t->store[0]),
             ses_store_direct(t->store[0]) ? ", past the page cache" : "");
}

void lane_tiers_counts(const struct lane_tiers *t, struct ses_store_counts *out) {
    *out = (struct ses_store_counts){.stored = 0};
    for (uint32_t r = 0; t != NULL && r < t->config.world && t->store[r] != NULL; r++) {
        struct ses_store_counts c;
        ses_store_count(t->store[r], &c);
        ses_store_counts_add(out, &c);
    }
}
