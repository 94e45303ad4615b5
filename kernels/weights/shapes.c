/* SPDX-License-Identifier: Apache-2.0
 * The shapes: what their models' config.json says of dimensions and rotation.
 */
#include "kernels/weights/shapes.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    struct krn_config config;
} shapes[] = {
    {"llama-8b",
     {.family = "llama",
      .vocab = 128256,
      .hidden = 4096,
      .layers = 32,
      .heads = 32,
      .kv_heads = 8,
      .head_dim = 128,
      .ffn = 14336,
      .context = 131072,
      .norm_eps = 1e-5F,
      .rope = {KRN_ROPE_LLAMA3, 500000.0, 8.0, 1.0, 4.0, 8192}}},
    {"llama-1b",
     {.family = "llama",
      .vocab = 128256,
      .hidden = 2048,
      .layers = 16,
      .heads = 32,
      .kv_heads = 8,
      .head_dim = 64,
      .ffn = 8192,
      .context = 131072,
      .norm_eps = 1e-5F,
      .rope = {KRN_ROPE_LLAMA3, 500000.0, 32.0, 1.0, 4.0, 8192},
      .tied = true}},
    {"qwen3-1.7b",
     {.family = "qwen3",
      .vocab = 151936,
      .hidden = 2048,
      .layers = 28,
      .heads = 16,
      .kv_heads = 8,
      .head_dim = 128,
      .ffn = 6144,
      .context = 40960,
      .norm_eps = 1e-6F,
      .rope = {KRN_ROPE_PLAIN, 1000000.0, 0, 0, 0, 0},
      .tied = true}},
    {"smollm2-135m",
     {.family = "llama",
      .vocab = 49152,
      .hidden = 576,
      .layers = 30,
      .heads = 9,
      .kv_heads = 3,
      .head_dim = 64,
      .ffn = 1536,
      .context = 8192,
      .norm_eps = 1e-5F,
      .rope = {KRN_ROPE_PLAIN, 100000.0, 0, 0, 0, 0},
      .tied = true}},
    {"fable-5m",
     {.family = "llama",
      .vocab = 4096,
      .hidden = 256,
      .layers = 6,
      .heads = 4,
      .kv_heads = 2,
      .head_dim = 64,
      .ffn = 704,
      .context = 4096,
      .norm_eps = 1e-5F,
      .rope = {KRN_ROPE_PLAIN, 10000.0, 0, 0, 0, 0},
      .tied = true}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

const char *krn_model_shape_name(unsigned i) {
    return i < SHAPES ? shapes[i].name : NULL;
}

enum status krn_shape_config(const char *name, struct krn_config *out, struct status_note *note) {
    char names[256] = "";
    for (unsigned i = 0, at = 0; i < SHAPES; i++) {
        if (strcmp(shapes[i].name, name) == 0) {
            *out = shapes[i].config;
            return STATUS_OK;
        }
        at += (unsigned)snprintf(names + at, sizeof names - at, "%s%s", i == 0 ? "" : ", ",
                                 shapes[i].name);
    }
    return status_say(note, STATUS_NOT_FOUND, "there is no shape '%s'; this build knows %s", name,
                      names);
}
