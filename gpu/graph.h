/* SPDX-License-Identifier: Apache-2.0
 * The words of captured graphs, shared by plans, devices, ranks and the conductor. A key is a shape
 * class of plans that launch the same sequence; 0 is no class. The conductor decides what a plan
 * does with its key, the same on all ranks; a rank tells what came of it. Wherever a replay is not
 * possible the step runs eagerly: the bits are the same.
 */
#ifndef GPU_GRAPH_H
#define GPU_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "actors/status.h"

enum {
    GPU_GRAPHS_MAX = 48,  /* captured at once */
    GPU_GRAPHS_FLOOR = 8, /* kept under memory pressure */
    GPU_GRAPHS_UNSET = 0xffffffff
};

/* What a plan does with its key. */
enum gpu_graph_order {
    GPU_GRAPH_NONE,   /* run eagerly */
    GPU_GRAPH_LIVE,   /* replay; all ranks have it */
    GPU_GRAPH_ASK,    /* run eagerly, reserve a slot and say whether there is room */
    GPU_GRAPH_CAPTURE /* capture into the reserved slot, then replay what was captured */
};

/* What a rank tells: the two votes on a key, and news. */
enum gpu_graph_word {
    GPU_GRAPH_ROOM,         /* vote 1: yes, the slot is reserved */
    GPU_GRAPH_NO_ROOM,      /* vote 1: no */
    GPU_GRAPH_CAPTURED,     /* vote 2: yes */
    GPU_GRAPH_NOT_CAPTURED, /* vote 2: no; the key is quarantined here */
    GPU_GRAPH_LOST,         /* a live key cannot be replayed here any more */
    GPU_GRAPH_TIGHT,        /* memory is short (key 0); said again while it lasts */
    GPU_GRAPH_EASY          /* memory is there again (key 0) */
};

struct gpu_graph_said {
    uint64_t key;
    enum gpu_graph_word word;
};

/* Settings that must be equal on all ranks. */
struct gpu_graph_settings {
    uint32_t max;   /* 0: everything runs eagerly */
    uint32_t floor; /* at most max */
};

/* Settings for max graphs (cut to GPU_GRAPHS_MAX), the floor clamped to them. */
struct gpu_graph_settings gpu_graph_settings(uint32_t max);
/* "on" (GPU_GRAPHS_MAX), "off" (0) or a number up to GPU_GRAPHS_MAX. BAD_REQUEST says what is
 * allowed; where names the place that the text came from, such as --graphs. */
enum status gpu_graph_parse(const char *text, const char *where, uint32_t *max,
                            struct status_note *note);
const char *gpu_graph_word_name(enum gpu_graph_word word);

#endif
