/* SPDX-License-Identifier: Apache-2.0
 * The door with the real engine and the model that ships: clients side by side get the tokens of a
 * solo run, a client that leaves frees its lane, text is the text of the tokens.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/door/engine_fixture.h"
#include "tests/door/fixture.h"
#include "tests/harness.h"

enum { CLIENTS = 4, TOKENS = 40, TEXT = 8192 };

struct side {
    const char *url;
    char name[32], text[TEXT];
    uint32_t ids[TOKENS], n;
    int k;
    bool drafts;
};

static const char *const prompts[CLIENTS] = {"Once upon a time", "The fox said",
                                             "In the morning the old woman", "There was a king"};

/* Submits and reads to the end, over a connection of its own. Even ones are greedy, odd ones
 * draw. */
static void *client_run(void *arg) {
    struct side *s = arg;
    struct door_client *c = client_open(s->url);
    json_t *r = client_call(c,
                            "{'cmd':'submit','name':'%s','prompt':'%s','max_tokens':%d,'seed':7,"
                            "'temperature':%d,'ignore_eos':true,'draft':%d,'reuse':%s}",
                            s->name, prompts[s->k], TOKENS, s->k % 2, s->drafts ? 8 : 0,
                            s->drafts ? "true" : "false");
    CHECK(reply_ok(r));
    json_decref(r);
    json_decref(client_finish(c, s->name, s->text, TEXT, s->ids, &s->n));
    door_client_close(c);
    return NULL;
}

START_TEST(test_side_by_side) {
    static struct side solo[CLIENTS], together[CLIENTS];
    struct engine_fixture f;
    pthread_t threads[CLIENTS];
    engine_fixture_open(&f);
    for (int k = 0; k < CLIENTS; k++) {
        solo[k] = (struct side){.url = f.url, .k = k};
        snprintf(solo[k].name, sizeof solo[k].name, "solo-%d", k);
        client_run(&solo[k]);
        ck_assert_uint_eq(solo[k].n, TOKENS);
    }
    for (int k = 0; k < CLIENTS; k++) {
        together[k] = (struct side){.url = f.url, .k = k, .drafts = true};
        snprintf(together[k].name, sizeof together[k].name, "together-%d", k);
        ck_assert_int_eq(pthread_create(&threads[k], NULL, client_run, &together[k]), 0);
    }
    for (int k = 0; k < CLIENTS; k++) {
        pthread_join(threads[k], NULL);
        ck_assert_uint_eq(together[k].n, TOKENS);
        ck_assert_mem_eq(together[k].ids, solo[k].ids, sizeof solo[k].ids);
        ck_assert_str_eq(together[k].text, solo[k].text);
        /* The text is the bytes of the tokens. */
        const struct lane_tokenizer *t = lane_engine_tokenizer(f.engine);
        char bytes[TEXT];
        size_t n = 0;
        for (uint32_t i = 0; i < TOKENS; i++) {
            uint32_t m;
            const char *b = lane_tokenizer_bytes(t, solo[k].ids[i], &m);
            if (lane_tokenizer_is_special(t, solo[k].ids[i]))
                continue;
            memcpy(bytes + n, b, m);
            n += m;
        }
        bytes[n] = 0;
        if (strstr(solo[k].text, "\xef\xbf\xbd") == NULL)
            ck_assert_str_eq(solo[k].text, bytes);
    }
    engine_fixture_close(&f);
}
END_TEST

/* A client goes away in the middle of a long reply: its lane is free again long before the reply
 * would have ended. */
START_TEST(test_client_leaves) {
    struct engine_fixture f;
    engine_fixture_open(&f);
    struct door_client *c = client_open(f.url), *watch = client_open(f.url);
    json_decref(client_call(c, "{'cmd':'submit','name':'gone','prompt':'Once','max_tokens':4000,"
                               "'ignore_eos':true,'idle_cancel_ms':100}"));
    json_decref(client_call(c, "{'cmd':'read','name':'gone','wait_ms':5000}"));
    door_client_close(c);
    for (bool running = true; running;) {
        json_t *r = client_call(watch, "{'cmd':'stats'}");
        const json_t *engine = json_object_get(r, "engine"), *door = json_object_get(r, "door");
        running = json_integer_value(json_object_get(engine, "running")) > 0 ||
                  json_integer_value(json_object_get(door, "live")) > 0;
        json_decref(r);
    }
    json_t *r = client_call(watch, "{'cmd':'read','name':'gone','max_events':4096}");
    const json_t *events = json_object_get(r, "events");
    const json_t *last = json_array_get(events, json_array_size(events) - 1);
    ck_assert_str_eq(json_string_value(json_object_get(last, "reason")), "cancelled");
    json_decref(r);
    door_client_close(watch);
    engine_fixture_close(&f);
}
END_TEST

/* A prompt over the context is refused before any work, and the one beside it is not disturbed. */
START_TEST(test_long_prompt) {
    struct engine_fixture f;
    static char text[200000];
    static struct side solo = {.k = 0};
    engine_fixture_open(&f);
    struct door_client *c = client_open(f.url);
    json_decref(client_call(c,
                            "{'cmd':'submit','name':'beside','prompt':'%s','max_tokens':%d,"
                            "'seed':7,'temperature':0,'ignore_eos':true}",
                            prompts[0], TOKENS));
    size_t n = (size_t)sprintf(text, "{\"cmd\":\"submit\",\"name\":\"long\",\"prompt\":\"");
    for (int i = 0; i < 20000; i++)
        n += (size_t)sprintf(text + n, "the fox ");
    n += (size_t)sprintf(text + n, "\"}");
    json_t *r = client_raw(c, text, n);
    ck_assert_str_eq(reply_code(r), "prompt_too_long");
    ck_assert_str_eq(reply_field(r), "prompt");
    json_decref(r);
    json_decref(client_finish(c, "beside", solo.text, TEXT, solo.ids, &solo.n));
    struct side again = {.url = f.url, .k = 0, .name = "again"};
    client_run(&again);
    ck_assert_uint_eq(solo.n, TOKENS);
    ck_assert_mem_eq(again.ids, solo.ids, sizeof solo.ids);
    door_client_close(c);
    engine_fixture_close(&f);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("engine_door");
    TCase *t = tcase_create("engine_door");
    tcase_set_timeout(t, 0);
    tcase_add_test(t, test_side_by_side);
    tcase_add_test(t, test_client_leaves);
    tcase_add_test(t, test_long_prompt);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return test_run(suite());
}
