/* SPDX-License-Identifier: Apache-2.0
 * Private to bench: a list of experiments, run one after the other on one engine, each some calls
 * submitted at once (bench_run.c); bench.c is the plan for a model, bench_shape.c the plan for a
 * shape without files.
 */
#ifndef LANES_PROGRAMS_BENCH_H
#define LANES_PROGRAMS_BENCH_H

#include "lanes/programs/client.h"
#include "lanes/programs/input.h"
#include "lanes/programs/options.h"

enum {
    BENCH_LANES_MAX = 128,
    BENCH_EXPERIMENTS_MAX = 64,
    BENCH_REPEATS_MAX = 9,
    BENCH_SAMPLES = 8192
};

enum bench_kind {
    BENCH_WARM,
    BENCH_COLD,
    BENCH_DECODE,
    BENCH_TTFT_COLD,
    BENCH_TTFT_RESUMED,
    BENCH_KEEP /* as many prompts as `size` are computed and kept: for decodes that resume them */
};

struct bench_experiment {
    enum bench_kind kind;
    uint32_t size;          /* prompt tokens, or lanes */
    uint32_t prompt, n_new; /* of a lane: DECODE, KEEP */
    bool resumes;           /* DECODE: from what KEEP left */
    uint32_t n;
    double value[BENCH_REPEATS_MAX]; /* tokens/s or seconds */
    double idle[BENCH_REPEATS_MAX];  /* DECODE: share of the time in which the device did nothing */
    uint64_t digest;                 /* of all tokens; repeats with fixed prompts must agree */
};

struct bench {
    struct options o;
    struct lane_engine *engine;
    struct client client;
    struct client_call call[BENCH_LANES_MAX];
    uint32_t *prompt[BENCH_LANES_MAX], *ids[BENCH_LANES_MAX];
    uint32_t lanes; /* that have memory */
    struct bench_experiment list[BENCH_EXPERIMENTS_MAX];
    uint32_t n, at, over, live, repeats;
    bool fixed; /* prompts are the same each time, made from `seed` */
    uint64_t seed, rng;
    /* Decode: from the moment when all lanes have two tokens until each has made `steps` more. */
    uint32_t ready, reached, steps;
    uint32_t from[BENCH_LANES_MAX]; /* tokens that a lane had then */
    uint64_t all_ns, end_ns, kernel_ns;
    double load_s; /* to open the engine: read, check, pack, self-test */
    bool progress;
    void *user; /* of a plan of its own */
    enum status status;
    struct status_note note;
};

/* Memory for so many lanes' prompts and tokens, once an engine is open; freed by bench_free. */
enum status bench_alloc(struct bench *b, uint32_t lanes);
void bench_free(struct bench *b);
/* Runs the list `repeats` times on b->engine. */
enum status bench_run(struct bench *b);
double bench_median(double *value, uint32_t n);
/* Host microseconds of the last rounds with so many lanes; false when too few were seen. */
bool bench_host_us(struct bench *b, uint32_t lanes, double *p50, double *p99);
/* Writes the result where --json says, and to a person what print prints unless JSON goes there. */
enum status bench_write(struct bench *b, const json_t *j, void (*print)(const json_t *j));
/* The most memory that this process had. */
int64_t bench_peak_bytes(void);

/* bench_shape.c: all of `bench --shape NAME`. */
enum status bench_shape(struct bench *b);

/* bench_tiers.c: all of `bench --tiers`; bench_svg.c: its picture. */
enum status bench_tiers(struct bench *b);
void bench_svg(FILE *f, const json_t *j);

#endif
