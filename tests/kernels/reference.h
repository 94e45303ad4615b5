/* SPDX-License-Identifier: Apache-2.0
 * The reference outputs of fable-5m (tests/reference/fable-5m, its README says how they were made)
 * as arrays. A test program adds tests/kernels/reference.c to its sources. Whatever is wrong with
 * the files ends the program with one line.
 */
#ifndef TESTS_KERNELS_REFERENCE_H
#define TESTS_KERNELS_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REFERENCE_PROMPTS = 12,
    REFERENCE_STEPS = 64, /* greedy tokens after each prompt */
    REFERENCE_VOCAB = 4096,
    REFERENCE_HIDDEN = 256,
    REFERENCE_BOUNDARIES = 7, /* embedding, layers 1 to 5, layer 6 after the final norm */
    REFERENCE_HELDOUT = 20000,
    REFERENCE_WINDOWS = 2
};

/* Below this margin (best logit less second best) two float32 programs may part. */
#define REFERENCE_MARGIN 1e-3F

struct reference_greedy {
    uint32_t ids[REFERENCE_STEPS]; /* not stopped at an end token */
    uint32_t second[REFERENCE_STEPS];
    float margin[REFERENCE_STEPS];
};

struct reference_prompt {
    const char *name, *text;
    bool add_bos; /* ids begin with bos, which text does not spell */
    uint32_t n_ids;
    uint32_t *ids;
    struct reference_greedy f32, bf16_gpu;
    float top_logit[REFERENCE_STEPS];                  /* of f32 */
    const float *first_logits, *first_logits_bf16_gpu; /* at the last position of the prompt */
};

/* Every boundary of one prompt: hidden[boundary][token][REFERENCE_HIDDEN], logits[token][vocab]. */
struct reference_trace {
    const struct reference_prompt *prompt;
    const float *hidden, *logits;
};

/* The held-out ids cut in rows of `width`, each run alone from position 0 with no bos; arrays are
 * [rows][width - 1], entry t about the prediction of token t + 1 of the row. */
struct reference_window {
    uint32_t width, rows;
    const float *nll, *margin;
    const int32_t *top;
    double mean_nll, mean_nll_bf16_gpu;
};

struct reference {
    struct reference_prompt prompts[REFERENCE_PROMPTS];
    struct reference_trace traces[2];
    const int32_t *heldout; /* REFERENCE_HELDOUT ids */
    const char *heldout_text;
    size_t heldout_bytes;
    struct reference_window windows[REFERENCE_WINDOWS];
    char model_path[1024]; /* share/fable-5m */
    void *store;           /* private */
};

struct reference *reference_open(void);
void reference_close(struct reference *r);
/* NULL when there is no prompt of that name. */
const struct reference_prompt *reference_find(const struct reference *r, const char *name);
/* Largest difference of n values, relative to the largest magnitude of `expected`; not finite when
 * a value is not. */
double reference_error(const float *x, const float *expected, size_t n);

#endif
