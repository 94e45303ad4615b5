/* SPDX-License-Identifier: Apache-2.0
 * Choosing the exchange of ranks, and their first meeting.
 */
#include "lanes/engine_exchange.h"

#include "actors/port.h"

/* Why NCCL cannot be had here. */
static enum status exchange_find(const struct lane_engine_config *c, uint32_t gpus,
                                 const struct fab_nccl **out, struct status_note *note) {
    if (gpus == 0)
        return status_say(note, STATUS_UNSUPPORTED,
                          "--exchange nccl is of ranks on GPUs; CPU ranks share the host's memory: "
                          "leave it out");
    if (gpus < c->world)
        return status_say(
            note, STATUS_UNSUPPORTED,
            "NCCL needs a GPU for each of the %u ranks and %u %s here: ranks exchange "
            "through the host's memory",
            c->world, gpus, gpus == 1 ? "is" : "are");
    return fab_nccl_open(out, note);
}

enum status lane_exchange_open(const struct lane_engine_config *c, uint32_t gpus,
                               struct fab_coll_nccl **out, struct status_note *note) {
    struct fab_coll_nccl_config config = {.world = c->world};
    *out = NULL;
    if (c->exchange == LANE_EXCHANGE_HOST || c->world < 2 || c->fake)
        return STATUS_OK;
    if (c->exchange == LANE_EXCHANGE_AUTO && gpus == 0)
        return STATUS_OK;
    struct status_note why = {{0}};
    enum status s = exchange_find(c, gpus, &config.nccl, &why);
    if (s == STATUS_OK)
        return fab_coll_nccl_open(&config, out, note);
    if (c->exchange == LANE_EXCHANGE_NCCL)
        return status_say(note, s, "%s", why.text);
    if (c->say != NULL)
        c->say(c->say_self, why.text);
    return STATUS_OK;
}

struct meeting {
    pthread_t thread;
    struct gpu_device *device;
    enum status status;
    struct status_note note;
};

static void *meet(void *self) {
    struct meeting *m = self;
    m->status = m->device->ops->meet(m->device, &m->note);
    return NULL;
}

enum status lane_exchange_meet(struct gpu_device *const *devices, uint32_t world,
                               struct status_note *note) {
    struct meeting m[GPU_WORLD_MAX];
    uint32_t started = 0, failed = world;
    for (uint32_t r = 0; r < world; r++)
        m[r] = (struct meeting){.device = devices[r]};
    while (started < world && act_port_thread_start(&m[started].thread, meet, &m[started]))
        started++;
    for (uint32_t r = 0; r < started; r++) {
        act_port_thread_join(m[r].thread);
        if (m[r].status != STATUS_OK && failed == world)
            failed = r;
    }
    if (failed < world)
        return status_say(note, m[failed].status, "%s", m[failed].note.text);
    if (started < world)
        return status_say(note, STATUS_NO_MEMORY, "no thread for the meeting of %u ranks", world);
    return STATUS_OK;
}
