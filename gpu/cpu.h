/* SPDX-License-Identifier: Apache-2.0
 * Private to the CPU device's files: device_cpu.c (life, steps, pages), pack_cpu.c (weights),
 * step_cpu.c (the forward pass), experts_cpu.c (its mixtures of experts).
 */
#ifndef GPU_CPU_H
#define GPU_CPU_H

#include "gpu/device_cpu.h"
#include "gpu/experts_cpu.h"
#include "gpu/shard.h"
#include "gpu/team.h"
#include "kernels/matmul.h"

enum {
    CPU_LOGITS_ROWS = 32, /* drawn rows whose logits exist at one time */
    CPU_PRIVATE_FLOATS =
        4096, /* up to so many floats each member norms all rows itself, which saves a region */
    CPU_PRIVATE_BYTES = 16384, /* the same of rounded rows */
    CPU_GROUP_MAX = 3
};

/* A product as this rank computes it. */
struct cpu_product {
    struct krn_packed w;
    const float *bias; /* of the rank's outputs, or of all where it is added after the reduction */
    struct gpu_shard shard;
    enum krn_buf src, dst;
    bool add;
};

/* What runs as one region of the team or a few; the op list is cut into these when the device
 * opens. */
enum cpu_stage_kind {
    CPU_EMBED,
    CPU_GROUP,
    CPU_ATTEND,
    CPU_GATE,
    CPU_EXPERTS,
    CPU_FINAL,
    CPU_LOGITS
};

struct cpu_stage {
    enum cpu_stage_kind kind;
    uint32_t layer;
    bool has_norm;     /* GROUP: its products read norm_dst, the normed norm_src */
    const float *norm; /* GROUP and FINAL: the weight */
    float eps;         /* of the norm or the heads' norms */
    enum krn_buf norm_src, norm_dst;
    uint32_t n_products;
    bool rounds;                  /* GROUP, LOGITS: a product reads rounded rows */
    bool gate;                    /* GROUP: products are gate and up, and the gate follows */
    bool gelu;                    /* GROUP, GATE: gelu in place of silu */
    bool norm_add;                /* GROUP: norm_dst += the normed norm_src; no products */
    uint32_t gate_n;              /* GATE */
    const float *q_norm, *k_norm; /* ATTEND: of each head before its rotation, or NULL */
    float scale;                  /* EMBED: of the row; ATTEND: of the scores */
    bool local_rope;              /* ATTEND: by the angles of windowed layers */
    uint32_t window;              /* ATTEND: keys that a row sees; 0: all */
    struct cpu_product product[CPU_GROUP_MAX]; /* EMBED: [0] is the table; EXPERTS: the sum */
    const struct cpu_expert *experts;          /* EXPERTS, as all below; rounds: gate and up */
    struct krn_packed router;                  /* of the row functions, in every profile */
    bool rounds_down;
    uint32_t n_experts, used;
    bool norm_used;
};

struct cpu_last {
    uint64_t number;
    uint32_t token;
};

struct cpu {
    struct gpu_device device;
    struct gpu_device_config config;
    struct krn_config model;
    struct gpu_limits limits;
    const struct krn_rowfn *fn;
    struct krn_matmul matmul;
    struct krn_attention attention;
    struct gpu_team *team;
    struct cpu_stage *stages;
    uint32_t n_stages;
    bool logits_round; /* the logits product reads rounded rows */

    /* memory, each one mapping */
    unsigned char *weights, *buffers, *pool;
    uint64_t weights_bytes, buffers_bytes, pool_bytes;
    const float *rope[2]; /* [context][head_dim]: of all layers, of windowed ones */

    /* row buffers: [rows][width] */
    float *buf[KRN_BUFS];
    size_t ld[KRN_BUFS];
    unsigned char *rounded;   /* the rows that a group's products read, as matmul.round left them */
    size_t ld_rounded;        /* bytes from row to row */
    struct cpu_mixture mix;   /* of models with experts */
    float *partial;           /* world > 1: [rows][hidden] to be reduced */
    float *logits_part;       /* world > 1: [CPU_LOGITS_ROWS][stride] */
    size_t logits_stride;     /* outputs a rank has room for */
    uint32_t heads, kv_heads; /* of this rank */
    struct krn_kv kv;         /* layer_off 0 */
    uint64_t layer_bytes;

    /* per step */
    uint32_t *token;          /* [rows] */
    struct krn_span *spans;   /* [rows] */
    uint32_t *position;       /* [rows] */
    uint32_t n_spans, n_rows; /* rows that belong to seqs */
    bool one_span_a_seq;
    unsigned char *bad;     /* [rows] */
    uint32_t *kept;         /* [draws]: place in result->logits */
    unsigned char *changed; /* [draws]: perturbed */
    const struct gpu_plan *plan;
    struct gpu_result *result;
    uint32_t nan_row;   /* fault: this row's embedding is NaN; or GPU_ROW_FINE */
    enum status status; /* written by the holder of a unit */

    /* member scratch: rowfn scratch, draw scratch, private rows, the same rounded, merged counts */
    size_t scratch_draw, scratch_rows, scratch_rounded, scratch_counts;

    struct cpu_last last[GPU_SLOTS_MAX];
    struct gpu_perturb_memory seen;
    uint64_t failed_number;
    uint32_t undone; /* steps that poll has not reported */
    gpu_event_t events;
    uint32_t perturb;
    float *perturb_row; /* [2][max of hidden and vocabulary stride] */
    bool poison;
};

/* pack_cpu.c: cuts the op list into stages and packs this rank's weights. */
enum status gpu_cpu_pack(struct cpu *c, struct status_note *note);

/* step_cpu.c: norm_dst = the normed norm_src, all rows. */
void gpu_cpu_norm(struct cpu *c, const struct cpu_stage *s, struct gpu_member *m);
/* The ranks' partial sums in the tree's order, then bias and residual. */
void gpu_cpu_reduce(struct cpu *c, const struct cpu_product *p, struct gpu_member *m);
/* The forward pass of c->plan on one member of the team. */
void gpu_cpu_forward(void *cpu, struct gpu_member *m);

#endif
