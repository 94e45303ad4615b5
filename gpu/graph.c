/* SPDX-License-Identifier: Apache-2.0
 * Settings and names of graphs.
 */
#include "gpu/graph.h"

#include <stdlib.h>
#include <string.h>

#include "actors/check.h"

struct gpu_graph_settings gpu_graph_settings(uint32_t max) {
    struct gpu_graph_settings s = {.max = max < GPU_GRAPHS_MAX ? max : GPU_GRAPHS_MAX};
    s.floor = s.max < GPU_GRAPHS_FLOOR ? s.max : GPU_GRAPHS_FLOOR;
    return s;
}

enum status gpu_graph_parse(const char *text, const char *where, uint32_t *max,
                            struct status_note *note) {
    if (strcmp(text, "on") == 0) {
        *max = GPU_GRAPHS_MAX;
        return STATUS_OK;
    }
    if (strcmp(text, "off") == 0) {
        *max = 0;
        return STATUS_OK;
    }
    char *end = NULL;
    unsigned long n = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || n > GPU_GRAPHS_MAX)
        return status_say(note, STATUS_BAD_REQUEST, "%s is \"%.40s\"; it is on, off or 0 to %d",
                          where, text, GPU_GRAPHS_MAX);
    *max = (uint32_t)n;
    return STATUS_OK;
}

const char *gpu_graph_word_name(enum gpu_graph_word word) {
    static const char *const names[] = {"room", "no room", "captured", "not captured",
                                        "lost", "tight",   "easy"};
    CHECK((unsigned)word < sizeof names / sizeof *names);
    return names[word];
}
