/* SPDX-License-Identifier: Apache-2.0
 * The small tables: statuses, names of messages, printed traces, credits.
 */
#include <stdio.h>
#include <string.h>

#include "actors/credit.h"
#include "actors/trace.h"
#include "tests/actors/rig.h"

START_TEST(statuses_have_texts) {
    for (int s = 0; s < STATUS_COUNT; s++) {
        ck_assert_uint_gt(strlen(status_name((enum status)s)), 1);
        ck_assert_uint_gt(strlen(status_code((enum status)s)), 1);
        ck_assert_uint_gt(strlen(status_text((enum status)s)), 3);
        for (int t = 0; t < s; t++) {
            ck_assert_str_ne(status_name((enum status)s), status_name((enum status)t));
            ck_assert_str_ne(status_code((enum status)s), status_code((enum status)t));
        }
    }
    ck_assert_str_eq(status_code(STATUS_OK), "ok");
    ck_assert_ptr_nonnull(status_text((enum status)12345));
    ck_assert_ptr_nonnull(status_name((enum status) - 1));
}
END_TEST

START_TEST(notes_are_cut_to_fit) {
    struct status_note note;
    char longer[1000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    ck_assert_int_eq(status_say(&note, STATUS_IO, "%s: %d", "file", 7), STATUS_IO);
    ck_assert_str_eq(note.text, "file: 7");
    ck_assert_int_eq(status_say(&note, STATUS_IO, "%s", longer), STATUS_IO);
    ck_assert_uint_eq(strlen(note.text), sizeof note.text - 1);
    ck_assert_int_eq(status_say(NULL, STATUS_AGAIN, "nobody listens"), STATUS_AGAIN);
}
END_TEST

#define TALK_PROTOCOL(M)                                                                           \
    M(talk, hello, here, there, answer, none, none, uint32_t n;)                                   \
    M(talk, answer, there, here, none, none, none, uint64_t n;)
enum { talk_KIND_first = TEST_KIND_FIRST + 0x40 - 1, TALK_PROTOCOL(ACT_GEN_ENUM) talk_KIND_end };
TALK_PROTOCOL(ACT_GEN_STRUCT)

struct talker {
    act_id_t peer;
    uint64_t got;
};

static void talker_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct talker *me = state;
    if (msg->kind == ACT_KIND_start && me->peer != 0)
        ACT_SEND(ctx, me->peer, talk, hello, .n = 21);
    if (msg->kind == talk_KIND_hello)
        ACT_SEND(ctx, msg->from, talk, answer,
                 .n = 2 * ((const struct talk_hello *)(const void *)msg->body)->n);
    if (msg->kind == talk_KIND_answer)
        me->got = ((const struct talk_answer *)(const void *)msg->body)->n;
}

START_TEST(traces_have_names) {
    static const struct act_kind kind = {.name = "talker", .receive = talker_receive};
    ck_assert_str_eq(act_trace_name(ACT_KIND_start), "start");
    ck_assert_str_eq(act_trace_name(talk_KIND_hello), "unnamed");
    ck_assert_str_eq(act_trace_name(ACT_KIND_MAX), "unnamed");
    ACT_TRACE_REGISTER(TALK_PROTOCOL, talk);
    ck_assert_str_eq(act_trace_name(talk_KIND_hello), "talk.hello");
    ck_assert_str_eq(act_trace_name(talk_KIND_answer), "talk.answer");
    ck_assert_str_eq(act_trace_name(talk_KIND_end), "unnamed");
    struct act_rt *rt = rig_open(ACT_PORT_SIM, 1, 1);
    struct talker a = {0}, b = {0};
    a.peer = act_spawn(rt, &kind, &b, 0);
    act_spawn(rt, &kind, &a, 0);
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    act_sim_trace_print(rt, f);
    act_rt_run(rt);
    act_rt_close(rt);
    fclose(f);
    ck_assert_uint_eq(a.got, 42);
    ck_assert_ptr_nonnull(strstr(text, "talker#1 talk.hello from #2\n"));
    ck_assert_ptr_nonnull(strstr(text, "talker#2 talk.answer from #1\n"));
    free(text);
}
END_TEST

START_TEST(credits_are_counted) {
    struct act_credit c;
    act_credit_init(&c, 3);
    ck_assert(act_credit_take(&c, 2));
    ck_assert(!act_credit_take(&c, 2));
    ck_assert(act_credit_take(&c, 1));
    ck_assert(!act_credit_take(&c, UINT32_MAX));
    ck_assert_uint_eq(act_credit_left(&c), 0);
    act_credit_give(&c, 2);
    act_credit_must_take(&c, 1);
    ck_assert_uint_eq(act_credit_left(&c), 1);
    ck_assert_uint_eq(c.most, 3);
    ck_assert_uint_eq(c.refused, 2);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("status");
    TCase *c = tcase_create("status");
    tcase_add_test(c, statuses_have_texts);
    tcase_add_test(c, notes_are_cut_to_fit);
    tcase_add_test(c, traces_have_names);
    tcase_add_test(c, credits_are_counted);
    suite_add_tcase(suite, c);
    return test_run(suite);
}
