/* SPDX-License-Identifier: Apache-2.0
 * Sessions carried from one server to another over the door: what resumes from an import is bit for
 * bit what was computed afresh, through lost, doubled and refused messages, while the session runs
 * on, with several ranks; and what is damaged, foreign or another's is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/door/engine_fixture.h"
#include "tests/door/fixture.h"
#include "tests/harness.h"

enum { FILE_MAX = 8 << 20, STORY = 150, MORE = 24, TOKENS_MAX = 512 };

static unsigned char file[FILE_MAX];
static size_t file_bytes;

struct reply {
    uint32_t ids[TOKENS_MAX], n;
    char hashes[TOKENS_MAX][20];
    int64_t resumed, from_tiers;
};

static char folder[64];

static struct lane_engine_config server(uint32_t world, bool disk) {
    struct lane_engine_config e = {.threads = 1,
                                   .world = world,
                                   .virtual_ranks = 2,
                                   .kv_bytes = (64 << 20) / world,
                                   .ram_cache = disk ? 0 : 16 << 20,
                                   .disk_budget = 64 << 20};
    snprintf(folder, sizeof folder, "/tmp/door-carry-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    e.disk_cache = disk ? folder : NULL;
    return e;
}

static void server_end(struct engine_fixture *f) {
    char command[96];
    engine_fixture_close(f);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static const char *text_of(const json_t *v, const char *key) {
    const char *text = json_string_value(json_object_get(v, key));
    return text != NULL ? text : "";
}

static int64_t number(const json_t *v, const char *key) {
    return json_integer_value(json_object_get(v, key));
}

/* Asks again while the server is busy. */
static json_t *ask(struct door_client *c, const json_t *message) {
    for (;;) {
        char *text = json_dumps(message, JSON_COMPACT);
        json_t *r = client_raw(c, text, strlen(text));
        free(text);
        if (reply_ok(r) || strcmp(reply_code(r), "busy") != 0)
            return r;
        json_decref(r);
    }
}

/* Prompt ids, then n more tokens with the hashes of their logits; the prompt grows by them. */
static struct reply generate(struct door_client *c, const char *name, json_t *prompt, int n,
                             bool reuse) {
    struct reply out = {.n = 0};
    json_t *m = json_pack("{s:s, s:s, s:O, s:i, s:b, s:b, s:b, s:b, s:i}", "cmd", "submit", "name",
                          name, "prompt_ids", prompt, "max_tokens", n, "ignore_eos", 1,
                          "logits_hash", 1, "reuse", (int)reuse, "keep", (int)reuse, "seed", 7);
    json_t *r = ask(c, m), *e;
    ck_assert_msg(reply_ok(r), "%s", reply_code(r));
    json_decref(m);
    json_decref(r);
    size_t i;
    for (bool ended = false; !ended;) {
        r = client_call(c, "{'cmd':'read','name':'%s','cursor':%d,'wait_ms':20000}", name,
                        out.n > 0 || out.resumed > 0 ? (int)out.n + 1 : 0);
        ck_assert(reply_ok(r));
        json_array_foreach(json_object_get(r, "events"), i, e) {
            if (strcmp(text_of(e, "type"), "started") == 0) {
                out.resumed = number(e, "resumed_tokens");
                out.from_tiers = number(e, "from_ram") + number(e, "from_disk");
            } else if (strcmp(text_of(e, "type"), "token") == 0) {
                ck_assert_uint_lt(out.n, TOKENS_MAX);
                snprintf(out.hashes[out.n], 20, "%s", text_of(e, "logits_hash"));
                out.ids[out.n++] = (uint32_t)number(e, "id");
            }
            ended = ended || strcmp(text_of(e, "type"), "ended") == 0;
        }
        json_decref(r);
    }
    return out;
}

static json_t *ids_of(const uint32_t *ids, uint32_t n) {
    json_t *all = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(all, json_integer(ids[i]));
    return all;
}

/* The name of the longest session that is remembered. */
static void longest(struct door_client *c, char name[40]) {
    json_t *r = client_call(c, "{'cmd':'stored'}"), *s;
    size_t i;
    int64_t most = 0;
    name[0] = 0;
    json_array_foreach(json_object_get(r, "stored"), i, s) {
        if (number(s, "tokens") > most) {
            most = number(s, "tokens");
            snprintf(name, 40, "%s", text_of(s, "session"));
        }
    }
    json_decref(r);
}

/* Reads a session's file; beside (may be NULL) is submitted as soon as its last page, which comes
 * first of three, has been read. */
static void export_all(struct door_client *c, const char *session, const json_t *beside) {
    size_t size = 1;
    for (file_bytes = 0; file_bytes < size;) {
        json_t *m = json_pack("{s:s, s:s, s:I}", "cmd", "export", "session", session, "offset",
                              (json_int_t)file_bytes);
        json_t *r = ask(c, m);
        ck_assert_msg(reply_ok(r), "%s", reply_code(r));
        const json_t *data = json_object_get(r, "data");
        size_t n = 0;
        size = (size_t)number(r, "size");
        ck_assert_uint_le(size, FILE_MAX - 4);
        ck_assert(door_base64_from(json_string_value(data), json_string_length(data),
                                   file + file_bytes, &n));
        ck_assert_uint_gt(n, 0);
        if (file_bytes > 0 && n % 3 == 0) { /* an answer that was lost: the same again */
            json_t *again = ask(c, m);
            ck_assert(json_equal(again, r));
            json_decref(again);
        }
        file_bytes += n;
        if (beside != NULL && file_bytes > size / 3 + 1000) {
            json_decref(ask(c, beside));
            beside = NULL;
        }
        json_decref(m);
        json_decref(r);
    }
    ck_assert_uint_eq(file_bytes, size);
}

static json_t *send_piece(struct door_client *c, const char *name, size_t at, size_t n,
                          const char *tenant) {
    static char text[DOOR_DATA_MAX * 2];
    struct door_out o;
    door_out_begin(&o, text, sizeof text);
    door_out_object(&o, NULL);
    door_out_str(&o, "cmd", "import");
    door_out_str(&o, "name", name);
    if (tenant[0] != 0)
        door_out_str(&o, "tenant", tenant);
    door_out_u64(&o, "offset", at);
    door_out_base64(&o, "data", file + at, n);
    door_out_end(&o, '}');
    for (;;) {
        json_t *r = client_raw(c, o.buf, o.n);
        if (reply_ok(r) || strcmp(reply_code(r), "busy") != 0)
            return r;
        json_decref(r);
    }
}

/* Imports the file in pieces, some of them twice and one too early; returns the last answer. */
static json_t *import_all(struct door_client *c, const char *name, size_t piece) {
    json_t *r = NULL;
    for (size_t at = 0; at < file_bytes; at += piece) {
        size_t n = file_bytes - at < piece ? file_bytes - at : piece;
        json_decref(r);
        if (at / piece % 5 == 3 && file_bytes - at > n + 1) {
            r = send_piece(c, name, at + 1, n, "");
            ck_assert_str_eq(reply_code(r), "bad_request");
            ck_assert_str_eq(reply_field(r), "offset");
            json_decref(r);
        }
        r = send_piece(c, name, at, n, "");
        if (at / piece % 3 == 0 && reply_ok(r)) {
            json_decref(r);
            r = send_piece(c, name, at, n, "");
        }
        if (!reply_ok(r))
            return r;
    }
    return r;
}

/* Made on one server, gone on with on another. */
static void carry(uint32_t world, bool from_disk, bool to_disk) {
    static struct reply story, fresh, resumed;
    struct engine_fixture f;
    char session[40];
    struct lane_engine_config e = server(world, from_disk);
    engine_fixture_open_as(&f, &e);
    struct door_client *c = client_open(f.url);
    const uint32_t begin[] = {5, 77, 300, 12};
    json_t *prompt = ids_of(begin, 4);
    story = generate(c, "story", prompt, STORY, true);
    longest(c, session);
    if (!from_disk) { /* what is on the device only goes to RAM when it is pinned */
        json_t *m = json_pack("{s:s, s:s}", "cmd", "pin", "session", session);
        json_t *r = ask(c, m);
        ck_assert(reply_ok(r));
        json_decref(m);
        json_decref(r);
    }
    for (uint32_t i = 0; i < story.n; i++)
        json_array_append_new(prompt, json_integer(story.ids[i]));
    fresh = generate(c, "fresh", prompt, MORE, false);
    /* It goes on while it is read. */
    json_t *side = json_copy(prompt);
    json_array_append_new(side, json_integer(99));
    json_t *busy = json_pack("{s:s, s:s, s:o, s:i, s:b}", "cmd", "submit", "name", "beside",
                             "prompt_ids", side, "max_tokens", 400, "ignore_eos", 1);
    export_all(c, session, busy);
    json_decref(busy);
    json_decref(client_call(c, "{'cmd':'cancel','name':'beside'}"));
    door_client_close(c);
    server_end(&f);

    e = server(world, to_disk);
    engine_fixture_open_as(&f, &e);
    c = client_open(f.url);
    json_t *r = import_all(c, "in", 50000);
    ck_assert_msg(reply_ok(r), "%s", reply_code(r));
    ck_assert_str_eq(text_of(r, "session"), session);
    json_decref(r);
    r = import_all(c, "again", DOOR_DATA_MAX); /* what is there already changes nothing */
    ck_assert_str_eq(text_of(r, "session"), session);
    json_decref(r);
    resumed = generate(c, "resumed", prompt, MORE, true);
    ck_assert_int_eq(resumed.resumed, 4 + STORY - 1);
    ck_assert_int_eq(resumed.from_tiers, resumed.resumed);
    ck_assert_uint_eq(resumed.n, fresh.n);
    for (uint32_t i = 0; i < fresh.n; i++) {
        ck_assert_uint_eq(resumed.ids[i], fresh.ids[i]);
        ck_assert_str_eq(resumed.hashes[i], fresh.hashes[i]);
    }
    json_decref(prompt);
    door_client_close(c);
    server_end(&f);
}

START_TEST(test_one_rank) {
    carry(1, true, true);
    carry(1, true, false);
    carry(1, false, true);
}
END_TEST

START_TEST(test_two_ranks) {
    carry(2, true, true);
}
END_TEST

/* What is wrong is refused with its reason, and what stands before it serves. */
START_TEST(test_refused) {
    static struct reply first, second;
    struct engine_fixture f;
    char session[40];
    struct lane_engine_config e = server(1, true);
    engine_fixture_open_as(&f, &e);
    struct door_client *c = client_open(f.url);
    const uint32_t begin[] = {5, 77, 300, 12};
    json_t *prompt = ids_of(begin, 4);
    first = generate(c, "a", prompt, STORY, true);
    longest(c, session);
    export_all(c, session, NULL);
    json_t *r =
        client_call(c, "{'cmd':'export','session':'%s','offset':%zu}", session, file_bytes + 1);
    ck_assert_str_eq(reply_field(r), "offset");
    json_decref(r);
    static const char *const commands[] = {"export", "tokens", "pin", "forget"};
    for (int i = 0; i < 4; i++) {
        r = client_call(c, "{'cmd':'%s','session':'%s','tenant':'else'}", commands[i], session);
        ck_assert_str_eq(reply_code(r), "not_found");
        json_decref(r);
    }
    r = client_call(c, "{'cmd':'stored','tenant':'else'}");
    ck_assert_uint_eq(json_array_size(json_object_get(r, "stored")), 0);
    json_decref(r);
    r = send_piece(c, "foreign", 0, 50000, "else");
    ck_assert_str_eq(reply_code(r), "bad_request");
    json_decref(r);
    door_client_close(c);
    server_end(&f);

    e = server(1, true);
    engine_fixture_open_as(&f, &e);
    c = client_open(f.url);
    r = client_call(c, "{'cmd':'export','session':'%s'}", session);
    ck_assert_str_eq(reply_code(r), "not_found");
    json_decref(r);
    r = send_piece(c, "late", 4096, 4096, "");
    ck_assert_str_eq(reply_code(r), "not_found");
    json_decref(r);
    file[file_bytes - 100] ^= 1; /* in the last page */
    r = import_all(c, "flipped", 50000);
    ck_assert_str_eq(reply_code(r), "bad_file");
    json_decref(r);
    second = generate(c, "b", prompt, STORY, true);
    ck_assert_mem_eq(second.ids, first.ids, sizeof first.ids);
    ck_assert_int_eq(second.resumed, 3);
    json_decref(prompt);
    door_client_close(c);
    server_end(&f);

    e = server(1, true);
    e.virtual_ranks = 1;
    engine_fixture_open_as(&f, &e);
    c = client_open(f.url);
    r = import_all(c, "profile", 50000);
    ck_assert_str_eq(reply_code(r), "unsupported");
    ck_assert_ptr_nonnull(
        strstr(text_of(json_object_get(r, "error"), "message"), "another profile"));
    json_decref(r);
    door_client_close(c);
    server_end(&f);
}
END_TEST

int main(void) {
    Suite *s = suite_create("carry");
    TCase *t = tcase_create("carry");
    tcase_set_timeout(t, 0);
    tcase_add_test(t, test_one_rank);
    tcase_add_test(t, test_two_ranks);
    tcase_add_test(t, test_refused);
    suite_add_tcase(s, t);
    return test_run(s);
}
