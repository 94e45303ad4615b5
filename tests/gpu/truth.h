/* SPDX-License-Identifier: Apache-2.0
 * Small models of every kind of shape and every family, and what the oracle says about a session
 * on one.
 */
#ifndef TESTS_GPU_TRUTH_H
#define TESTS_GPU_TRUTH_H

#include "tests/gpu/cpu_rig.h"

enum {
    TRUTH_LENGTH = 210,
    TRUTH_SHAPES = 15,
    TRUTH_LLAMAS = 7,
    TRUTH_MIXTURE = 11,
    TRUTH_CONTEXT = 256
};

struct truth_shape {
    const char *name;
    struct krn_config config;
    enum krn_dtype dtype;
    uint32_t v; /* the default V */
};
extern const struct truth_shape truth_shapes[TRUTH_SHAPES];

/* Random ids, and after each the logits' hash and the greedy token. */
struct truth {
    uint32_t ids[TRUTH_LENGTH];
    uint64_t hashes[TRUTH_LENGTH];
    uint32_t greedy[TRUTH_LENGTH];
};

/* Ends the program when a value is not finite. */
void truth_make(struct truth *t, const struct rig_model *m, uint64_t seed);
/* The first n of them. */
void truth_begin(struct truth *t, const struct rig_model *m, uint64_t seed, uint32_t n);

#endif
