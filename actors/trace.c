/* SPDX-License-Identifier: Apache-2.0
 * One table from kind to name.
 */
#include "actors/trace.h"

#include <stddef.h>

static const char *trace_names[ACT_KIND_MAX] = {
    [ACT_KIND_start] = "start",
    [ACT_KIND_timer] = "timer",
    [ACT_KIND_gone] = "gone",
    [ACT_KIND_stop] = "stop",
};

void act_trace_register(uint16_t first, const struct act_protocol_row *rows, uint32_t n) {
    CHECK(first >= ACT_KIND_FIRST && first + n <= ACT_KIND_MAX);
    for (uint32_t i = 0; i < n; i++)
        trace_names[first + i] = rows[i].name;
}

const char *act_trace_name(uint16_t kind) {
    const char *name = kind < ACT_KIND_MAX ? trace_names[kind] : NULL;
    return name != NULL ? name : "unnamed";
}
