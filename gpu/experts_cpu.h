/* SPDX-License-Identifier: Apache-2.0
 * Mixtures of experts on the CPU device; private to its files. cpu.h includes it.
 */
#ifndef GPU_EXPERTS_CPU_H
#define GPU_EXPERTS_CPU_H

#include "kernels/rowfn.h"

struct cpu;
struct cpu_stage;
struct gpu_member;

/* An expert's weights on this rank: outputs of gate and up, and of down each segment's inputs
 * alone, because experts add inside a segment. */
struct cpu_expert {
    struct krn_packed gate, up, down[KRN_V_MAX];
};

/* How the rows of a step lie by expert. A slot is one row at one of its experts; an expert's slots
 * follow each other in the order of rows. Room is for every row at every expert that it uses. */
struct cpu_mixture {
    uint32_t *chosen; /* [rows][used], ascending */
    float *weight;
    uint32_t *first;             /* [experts + 1]: an expert's first slot */
    uint32_t *active, *n_active; /* experts with slots, ascending */
    uint32_t *row;               /* [slots] */
    float *slot_weight;          /* [slots] */
    unsigned char *rounded;      /* [slots]: input, c->ld_rounded apart */
    unsigned char *inner;        /* [slots][segments]: gate*up rounded, a segment alone */
    size_t inner_bytes;          /* of a segment */
    uint64_t ld_inner;           /* floats from slot to slot of gate and up */
    float *input;                /* [slots][hidden] */
    float *one;                  /* [rows][hidden]: of one expert and segment */
    float *sums[4];              /* [rows][hidden] each: the tree's stack over segments */
};

/* Norms and routes the rows and adds their experts to X, or to the partial sums. */
void gpu_cpu_experts(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m);

#endif
