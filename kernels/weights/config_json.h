/* SPDX-License-Identifier: Apache-2.0
 * config.json and generation_config.json as struct krn_config, and the limits of every field.
 */
#ifndef KERNELS_WEIGHTS_CONFIG_JSON_H
#define KERNELS_WEIGHTS_CONFIG_JSON_H

#include <stddef.h>

#include "kernels/model.h"

enum {
    KRN_CONFIG_VOCAB_MAX = 1 << 22,
    KRN_CONFIG_HIDDEN_MAX = 1 << 16,
    KRN_CONFIG_FFN_MAX = 1 << 20,
    KRN_CONFIG_HEADS_MAX = 1024
};

/* file and generation_file: labels for messages. generation may be NULL. What this build cannot run
 * as the file means it (activation, RoPE kind, quantisation, windows, architecture) is refused by
 * name. */
enum status krn_config_parse(const char *file, const void *json, size_t n,
                             const char *generation_file, const void *generation,
                             size_t n_generation, struct krn_config *out, struct status_note *note);

/* The limits of every field, by its key in config.json; also for configurations that were never a
 * file. */
enum status krn_config_check(const char *file, const struct krn_config *config,
                             struct status_note *note);

#endif
