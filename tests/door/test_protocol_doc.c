/* SPDX-License-Identifier: Apache-2.0
 * Runs the examples of doc/protocol.md in their order against a server with the real engine: each
 * reply has the keys, types and values that the page shows, except the values that the page says
 * vary. With DOOR_DOC_PRINT set the page is printed with the replies as they are now.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/door/engine_fixture.h"
#include "tests/door/fixture.h"
#include "tests/harness.h"

static char page[1 << 16];
static char differs[512];

static void page_read(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/doc/protocol.md", test_srcdir());
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s", path);
    size_t n = fread(page, 1, sizeof page - 1, f);
    fclose(f);
    ck_assert_uint_lt(n, sizeof page - 1);
    page[n] = 0;
}

/* Is the key in the list of the section "What varies"? */
static bool varies(const char *key) {
    char quoted[80];
    const char *list = strstr(page, "## What varies");
    snprintf(quoted, sizeof quoted, "`%s`", key);
    return list != NULL && strstr(list, quoted) != NULL;
}

static bool differ(const char *where, const char *how) {
    if (differs[0] == 0)
        snprintf(differs, sizeof differs, "%s: %s", where, how);
    return false;
}

static bool same(const char *where, const json_t *want, const json_t *got) {
    if (got == NULL)
        return differ(where, "is missing");
    bool numbers = json_is_number(want) && json_is_number(got);
    if (json_typeof(want) != json_typeof(got) && !numbers)
        return differ(where, "is of another type");
    if (json_is_object(want)) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)want, key, value) {
            if (!same(key, value, json_object_get(got, key)))
                return false;
        }
        json_object_foreach((json_t *)got, key, value) {
            if (json_object_get(want, key) == NULL)
                return differ(key, "is not on the page");
        }
        return true;
    }
    if (json_is_array(want)) {
        if (json_array_size(want) != json_array_size(got))
            return differ(where, "has another length");
        for (size_t i = 0; i < json_array_size(want); i++)
            if (!same(where, json_array_get(want, i), json_array_get(got, i)))
                return false;
        return true;
    }
    if (varies(where) || json_equal(want, got))
        return true;
    return differ(where, "has another value");
}

/* Reads on until the request has ended, so that the events that the page shows are all there; and
 * asks again while a session is on its way. */
static json_t *ask(struct door_client *c, const char *text, size_t n, bool until_ended) {
    json_t *reply = client_raw(c, text, n);
    while (!reply_ok(reply) && strcmp(reply_code(reply), "busy") == 0) {
        json_decref(reply);
        reply = client_raw(c, text, n);
    }
    while (until_ended && reply_ok(reply) &&
           strcmp(json_string_value(json_object_get(reply, "state")), "ended") != 0) {
        json_decref(reply);
        reply = client_raw(c, text, n);
    }
    return reply;
}

/* The next block whose fence begins with `info`; NULL at the end. */
static char *next_block(char *from, const char *info, char **begin, size_t *n, char **fence) {
    char *at = strstr(from, info);
    if (at == NULL)
        return NULL;
    *fence = at;
    *begin = strchr(at, '\n') + 1;
    char *end = strstr(*begin, "\n```");
    ck_assert_ptr_nonnull(end);
    *n = (size_t)(end - *begin);
    return end + 4;
}

START_TEST(test_examples) {
    struct engine_fixture f;
    char *at = page, *request, *reply, *fence, *unused, *printed = page;
    size_t n_request, n_reply;
    int examples = 0;
    bool print = getenv("DOOR_DOC_PRINT") != NULL;
    page_read();
    engine_fixture_open(&f);
    struct door_client *c = client_open(f.url);
    while ((at = next_block(at, "```json request", &request, &n_request, &fence)) != NULL) {
        bool until_ended = strncmp(fence, "```json request until-ended", 27) == 0;
        json_t *got = ask(c, request, n_request, until_ended);
        at = next_block(at, "```json reply", &reply, &n_reply, &unused);
        ck_assert_ptr_nonnull(at);
        if (print) {
            char *text = json_dumps(got, JSON_REAL_PRECISION(7));
            printf("%.*s%s", (int)(reply - printed), printed, text);
            printed = reply + n_reply;
            free(text);
        } else {
            json_error_t e;
            json_t *want = json_loadb(reply, n_reply, JSON_REJECT_DUPLICATES, &e);
            ck_assert_msg(want != NULL, "%s: %.*s", e.text, (int)n_reply, reply);
            char *text = json_dumps(got, 0);
            ck_assert_msg(same("reply", want, got), "%s\n%.*s\n%s", differs, (int)n_request,
                          request, text);
            free(text);
            json_decref(want);
        }
        json_decref(got);
        examples++;
    }
    if (print)
        printf("%s", printed);
    ck_assert_int_ge(examples, 20);
    door_client_close(c);
    engine_fixture_join(&f); /* the page's last examples drain the server */
    ck_assert_uint_eq(f.closed, 1);
    ck_assert_uint_eq(f.closed_status, STATUS_OK);
    engine_fixture_close(&f);
}
END_TEST

/* Every error code of the page is one that the program can say, and the other way round. */
START_TEST(test_codes) {
    page_read();
    const char *table = strstr(page, "## Errors");
    ck_assert_ptr_nonnull(table);
    static const enum status said[] = {
        STATUS_BAD_REQUEST, STATUS_TOO_LARGE,  STATUS_EMPTY_PROMPT, STATUS_PROMPT_TOO_LONG,
        STATUS_BAD_TOKEN,   STATUS_DUPLICATE,  STATUS_NOT_FOUND,    STATUS_GONE,
        STATUS_UNSUPPORTED, STATUS_QUEUE_FULL, STATUS_NO_PAGES,     STATUS_DRAINING,
        STATUS_CANCELLED,   STATUS_TIMEOUT,    STATUS_NOT_FINITE,   STATUS_ROUND_FAILED,
        STATUS_DEVICE,      STATUS_DESYNC,     STATUS_SHUTDOWN,     STATUS_AGAIN,
        STATUS_BAD_FILE,
    };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        char quoted[64];
        snprintf(quoted, sizeof quoted, "`%s`", status_code(said[i]));
        ck_assert_msg(strstr(table, quoted) != NULL, "%s", quoted);
    }
}
END_TEST

/* Every field of submit that the page's table names is one that the decoder takes. */
START_TEST(test_fields) {
    struct door_arena arena;
    struct door_limits limits = {.context = 100, .vocab = 100, .has_text = true, .has_chat = true};
    static struct door_call call;
    struct door_error error;
    int fields = 0;
    page_read();
    door_json_setup();
    ck_assert(door_arena_open(&arena, DOOR_ARENA_BYTES));
    char *row = strstr(page, "## submit"), *end = strstr(page, "## read");
    while ((row = strstr(row, "\n| `")) != NULL && row < end) {
        char *name = row + 4, *stop = strchr(name, '`');
        char text[256], field[64];
        snprintf(field, sizeof field, "%.*s", (int)(stop - name), name);
        bool prompt = strncmp(field, "prompt", 6) == 0 || strcmp(field, "messages") == 0;
        /* An object is never right: refused as such when the field is known, as unknown
         * otherwise. */
        snprintf(text, sizeof text, "{\"cmd\":\"submit\",%s%s\"%s\":{\"x\":null}}",
                 strcmp(field, "name") == 0 ? "" : "\"name\":\"n\",",
                 prompt ? "" : "\"prompt_ids\":[1],", field);
        ck_assert(!door_decode(&arena, &limits, text, strlen(text), &call, &error));
        ck_assert_msg(strcmp(error.field, field) == 0, "%s: %s", field, error.message);
        ck_assert_ptr_null(strstr(error.message, "no such field"));
        fields++;
        row = stop;
    }
    ck_assert_int_ge(fields, 26);
    door_arena_close(&arena);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("protocol_doc");
    TCase *t = tcase_create("protocol_doc");
    tcase_set_timeout(t, 0);
    tcase_add_test(t, test_examples);
    tcase_add_test(t, test_codes);
    tcase_add_test(t, test_fields);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return test_run(suite());
}
