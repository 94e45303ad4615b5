/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: any bytes as a message to the front door. What is accepted lies in its ranges; what
 * is refused has a code, a message and a reply that is valid JSON; a second decoding says the same.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "actors/check.h"
#include "lanes/door/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct door_limits limits = {.context = 512,
                                          .vocab = 1000,
                                          .has_text = true,
                                          .has_chat = true,
                                          .sampling = {.top_p = 1, .repetition = 1},
                                          .drain_ms = 1000};

static void check_prompt(const struct door_submit *s) {
    switch (s->kind) {
    case DOOR_PROMPT_TEXT:
        CHECK(s->text != NULL && s->text_bytes > 0 && s->text[s->text_bytes] == 0);
        for (size_t i = 0; i < s->text_bytes;) {
            size_t n = door_utf8_char((const unsigned char *)s->text + i, s->text_bytes - i);
            CHECK(n > 0);
            i += n;
        }
        break;
    case DOOR_PROMPT_IDS:
        CHECK(s->n_ids > 0 && s->n_ids <= limits.context);
        for (uint32_t i = 0; i < s->n_ids; i++)
            CHECK(s->ids[i] < limits.vocab);
        break;
    default:
        CHECK(s->n_messages > 0 && s->n_messages <= DOOR_MESSAGES_MAX);
        for (uint32_t i = 0; i < s->n_messages; i++) {
            CHECK(s->messages[i].role != NULL);
            CHECK(s->messages[i].content[s->messages[i].content_bytes] == 0);
        }
    }
}

static void check_submit(const struct door_call *call) {
    const struct lane_request *r = &call->submit.request;
    const struct krn_sampling *p = &r->sampling;
    CHECK(door_name_valid(call->name, strlen(call->name)));
    check_prompt(&call->submit);
    CHECK(r->max_tokens >= 1 && r->max_tokens <= KRN_CONTEXT_MAX);
    CHECK(p->temperature >= 0 && p->temperature <= 100);
    CHECK(p->top_p > 0 && p->top_p <= 1 && p->min_p >= 0 && p->min_p <= 1);
    CHECK(p->repetition > 0 && isfinite(p->presence) && isfinite(p->frequency));
    CHECK(p->n_top <= KRN_TOP_MAX && p->seed <= INT64_MAX);
    CHECK(r->draft_max <= LANE_DRAFT_MAX && r->priority <= 100);
    CHECK(r->n_stops <= LANE_STOPS_MAX && r->n_bias <= LANE_BIAS_MAX);
    CHECK(r->n_stops == 0 || (r->flags & LANE_NO_TEXT) == 0);
    for (uint32_t i = 0; i < r->n_stops; i++)
        CHECK(r->stops[i].bytes > 0 && r->stops[i].bytes < LANE_STOP_BYTES_MAX);
    for (uint32_t i = 0; i < r->n_bias; i++) {
        CHECK(r->bias[i].id < limits.vocab && fabsf(r->bias[i].bias) <= 100);
        CHECK(i == 0 || r->bias[i].id > r->bias[i - 1].id);
    }
}

static void check_refused(const struct door_error *error) {
    char text[4096];
    struct door_out o;
    json_error_t e;
    CHECK(error->status != STATUS_OK && error->status < STATUS_COUNT);
    CHECK(error->message[0] != 0);
    door_out_begin(&o, text, sizeof text);
    door_out_error(&o, error);
    CHECK(!o.full);
    json_t *v = json_loadb(text, o.n, JSON_REJECT_DUPLICATES, &e);
    CHECK(v != NULL);
    json_decref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct door_arena arena, small;
    static struct door_call call, again;
    static struct door_error error, error_again;
    if (arena.base == NULL) {
        door_json_setup();
        CHECK(door_arena_open(&arena, DOOR_ARENA_BYTES));
        CHECK(door_arena_open(&small, DOOR_JSON_ARENA_MIN));
    }
    bool ok = door_decode(&arena, &limits, data, size, &call, &error);
    if (!ok) {
        check_refused(&error);
    } else {
        CHECK((unsigned)call.cmd < DOOR_CMDS);
        if (call.cmd == DOOR_SUBMIT)
            check_submit(&call);
        CHECK(call.cmd != DOOR_READ || (call.wait_ms <= DOOR_WAIT_MS_MAX && call.max_events >= 1 &&
                                        call.max_events <= DOOR_EVENTS_MAX));
    }
    CHECK(door_decode(&arena, &limits, data, size, &again, &error_again) == ok);
    CHECK(ok || error.status == error_again.status);
    /* With little memory the answer is the same, or that there is too little. */
    CHECK(door_decode(&small, &limits, data, size, &again, &error_again) == ok || small.ran_out);
    CHECK(!small.ran_out || error_again.status == STATUS_TOO_LARGE);
    return 0;
}
