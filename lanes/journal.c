/* SPDX-License-Identifier: Apache-2.0
 * The planner's journal records.
 */
#include "lanes/journal.h"

#include <string.h>

void lane_journal_put(struct journal *j, uint64_t now, enum lane_record_kind kind,
                      const void *payload, size_t bytes) {
    /* A loss is counted and marked in the file by the journal itself; serving goes on. */
    if (j != NULL)
        (void)journal_append(j, (uint16_t)kind, 0, now, payload, bytes);
}

/* The lane's name and then an array, in one record. */
static void journal_array(struct journal *j, uint64_t now, enum lane_record_kind kind,
                          const struct lane_slot *s, const void *array, size_t bytes) {
    static _Thread_local unsigned char buf[JOURNAL_RECORD_MAX / 2];
    uint64_t lane = lane_slot_name(s);
    CHECK(bytes + sizeof lane <= sizeof buf);
    memcpy(buf, &lane, sizeof lane);
    memcpy(buf + sizeof lane, array, bytes);
    lane_journal_put(j, now, kind, buf, sizeof lane + bytes);
}

void lane_journal_request(struct journal *j, uint64_t now, const struct lane_slot *s) {
    if (j == NULL)
        return;
    struct lane_record_request r = {.lane = lane_slot_name(s),
                                    .request = s->request,
                                    .tenant = s->tenant,
                                    .flags = s->flags,
                                    .priority = s->priority,
                                    .n_prompt = s->n_prompt,
                                    .new_max = s->new_max,
                                    .draft_max = s->draft_max,
                                    .n_bias = s->n_bias,
                                    .sampling = s->sampling};
    lane_journal_put(j, now, LANE_RECORD_request, &r, sizeof r);
    lane_journal_ids(j, now, LANE_RECORD_prompt, s, 0, s->n_prompt);
    if (s->n_bias > 0)
        journal_array(j, now, LANE_RECORD_bias, s, s->bias, s->n_bias * sizeof s->bias[0]);
    if (s->masked)
        journal_array(j, now, LANE_RECORD_mask, s, s->mask,
                      ((size_t)s->shared->vocab + 31) / 32 * sizeof(uint32_t));
}

void lane_journal_ids(struct journal *j, uint64_t now, enum lane_record_kind kind,
                      const struct lane_slot *s, uint32_t first, uint32_t n) {
    static _Thread_local unsigned char
        buf[sizeof(struct lane_record_ids) + LANE_RECORD_IDS * sizeof(uint32_t)];
    while (j != NULL && n > 0) {
        uint32_t part = n < LANE_RECORD_IDS ? n : LANE_RECORD_IDS;
        struct lane_record_ids r = {.lane = lane_slot_name(s), .first = first, .n = part};
        memcpy(buf, &r, sizeof r);
        memcpy(buf + sizeof r, s->ids + first, part * sizeof(uint32_t));
        lane_journal_put(j, now, kind, buf, sizeof r + part * sizeof(uint32_t));
        first += part;
        n -= part;
    }
}
