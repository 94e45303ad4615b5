/* SPDX-License-Identifier: Apache-2.0
 * What all devices are asked alike before they open.
 */
#include "gpu/device.h"

#include "actors/check.h"
#include "gpu/shard.h"
#include "kernels/matmul.h"

uint64_t gpu_page_bytes(const struct krn_config *config, const struct krn_profile *profile,
                        uint32_t page_tokens, uint32_t rank, uint32_t world) {
    (void)rank; /* every rank has as many heads */
    return (uint64_t)config->layers * gpu_shard_kv_heads(config, world) * page_tokens *
           krn_kv_tile_bytes(profile, config->head_dim) / KRN_TILE;
}

enum status gpu_device_check(const struct gpu_device_config *config, const char *device,
                             struct status_note *note) {
    const struct krn_config *m = &config->net->model->config;
    if (config->page_tokens == 0 || config->page_tokens % KRN_TILE != 0)
        return status_say(note, STATUS_BAD_REQUEST,
                          "pages of %u tokens: the %s device needs a multiple of %d",
                          config->page_tokens, device, KRN_TILE);
    if (config->n_pages < 2)
        return status_say(note, STATUS_BAD_REQUEST, "%u KV pages: two are the least",
                          config->n_pages);
    if (config->limits.vocab != m->vocab || config->limits.rows == 0)
        return status_say(note, STATUS_BAD_REQUEST,
                          "limits of %u rows and vocabulary %u: the model has %u",
                          config->limits.rows, config->limits.vocab, m->vocab);
    TRY(gpu_world_check(m, &config->profile, config->world, note));
    CHECK(config->rank < config->world);
    CHECK(config->world == 1 || config->collective != NULL);
    return STATUS_OK;
}
