/* SPDX-License-Identifier: Apache-2.0
 * Proving the contract on the user's own model and machine: reference sessions run alone, fresh,
 * undrafted, in one piece; then the same sessions in the situation of each axis, token for token
 * and logits row for logits row.
 */
#ifndef LANES_PROGRAMS_PROVE_H
#define LANES_PROGRAMS_PROVE_H

#include "lanes/programs/client.h"

/* Numbers are shared with gpu/perturb.h. */
enum prove_axis {
    PROVE_NONE,
    PROVE_COMPANY,
    PROVE_MEMORY,
    PROVE_DRAFTS,
    PROVE_PIECES,
    PROVE_THREADS,
    PROVE_TROUBLE,
    PROVE_RANKS,
    PROVE_GRAPHS,
    PROVE_AXES
};
extern const char *const prove_axis_names[PROVE_AXES];

enum {
    PROVE_SESSIONS_MAX = 4096,
    PROVE_NEW_MAX = 64,
    PROVE_NO_BASE = 0xffffffff,
    PROVE_PARTS_MAX = 8
};

/* One session and what it answers when nothing is around it. */
struct prove_session {
    uint32_t *prompt;
    uint32_t n_prompt, n_new; /* n_new: asked for */
    uint32_t flags;
    uint32_t base; /* the session whose prompt and reply begin this prompt, or PROVE_NO_BASE */
    struct krn_sampling sampling;
    uint32_t n_out;
    uint32_t out[PROVE_NEW_MAX];
    uint64_t hash[PROVE_NEW_MAX];
};

struct prove_count {
    uint64_t cases, rows, differ;
    uint64_t resumed, from_ram, from_disk, drafted, accepted, failed_rounds, cancelled, replays,
        refused_graphs;                /* that the axis really happened */
    uint32_t first_session, first_row; /* of the first difference */
};

/* One team size or instruction set; left out where the axis's time was over. */
struct prove_part {
    char name[16];
    bool done;
};

struct prove {
    struct lane_engine_config config; /* what the user asked for */
    uint64_t seed;
    double seconds;
    bool axes[PROVE_AXES];
    bool asked; /* the axes were named */
    struct prove_session *sessions;
    uint32_t n_sessions;
    uint64_t rng;
    struct prove_count count[PROVE_AXES];
    struct prove_count oracle;
    double oracle_token_s; /* what a token took there: as the plainest instruction set does */
    struct prove_part parts[PROVE_PARTS_MAX]; /* of the axis threads */
    uint32_t n_parts;
    void (*progress)(struct prove *p, const char *what, uint64_t rows); /* NULL: quiet */
    /* Of the reference engine, for the receipt. */
    uint64_t fingerprint[2], parameters;
    struct krn_profile profile;
    uint64_t page_bytes; /* of one rank alone */
    uint32_t context, vocab, threads;
    bool has_graphs; /* the device can capture */
    char device[8], device_words[160];
};

/* Makes the reference sessions; the engine's own errors are returned. */
enum status prove_reference(struct prove *p, double seconds, struct status_note *note);
/* Runs one axis for about so many seconds. */
enum status prove_run_axis(struct prove *p, enum prove_axis axis, double seconds,
                           struct status_note *note);
/* Compares with the scalar oracle. */
enum status prove_run_oracle(struct prove *p, double seconds, struct status_note *note);
void prove_free(struct prove *p);
double prove_now(void);

#endif
