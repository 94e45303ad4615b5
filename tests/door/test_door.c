/* SPDX-License-Identifier: Apache-2.0
 * The door over real sockets, with the fake planner behind it: what each command answers, repeats,
 * waiting reads, reconnecting, drain, healing of a dead listener.
 */
#include "tests/door/fixture.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lanes/door/selfprobe.h"
#include "tests/harness.h"

/* A listener that nng itself killed leaves a connection behind that nng never frees. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libnng.so";
}

static int64_t number(const json_t *v, const char *key) {
    return json_integer_value(json_object_get(v, key));
}

static int64_t door_count(struct door_client *c, const char *key) {
    json_t *reply = client_call(c, "{'cmd':'stats'}");
    ck_assert(reply_ok(reply));
    int64_t n = number(json_object_get(reply, "door"), key);
    json_decref(reply);
    return n;
}

static int64_t engine_count(struct door_client *c, const char *key) {
    json_t *reply = client_call(c, "{'cmd':'stats'}");
    int64_t n = number(json_object_get(reply, "engine"), key);
    json_decref(reply);
    return n;
}

START_TEST(test_submit_and_read) {
    struct fixture f;
    char text[4096], want[4096];
    uint32_t ids[64], n;
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url);
    json_t *r =
        client_call(c, "{'cmd':'submit','name':'a','prompt_ids':[20,30],'max_tokens':10,'seed':5}");
    ck_assert(reply_ok(r));
    ck_assert_int_eq(number(r, "prompt_tokens"), 2);
    ck_assert_int_eq(number(r, "seed"), 5);
    json_decref(r);
    json_t *end = client_finish(c, "a", text, sizeof text, ids, &n);
    ck_assert_str_eq(json_string_value(json_object_get(end, "reason")), "length");
    json_decref(end);
    ck_assert_uint_eq(n, 10);
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_uint_eq(ids[i], fake_token(50, i));
        at += (size_t)snprintf(want + at, sizeof want - at, "w%u ", ids[i]);
    }
    ck_assert_str_eq(text, want);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* Any cursor gives the same events again, and pages of any size lose nothing. */
START_TEST(test_cursor) {
    struct fixture f;
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url);
    json_decref(client_call(
        c, "{'cmd':'submit','name':'a','prompt_ids':[20],'max_tokens':300,'logprobs':3}"));
    json_t *all = client_call(c, "{'cmd':'read','name':'a','max_events':4096}");
    json_t *events = json_object_get(all, "events");
    ck_assert_uint_eq(json_array_size(events), 302);
    ck_assert(json_is_false(json_object_get(all, "more")));
    for (size_t from = 0; from <= 302; from += 17) {
        for (int size = 1; size <= 100; size += 33) {
            json_t *r = client_call(c, "{'cmd':'read','name':'a','cursor':%zu,'max_events':%d}",
                                    from, size);
            json_t *some = json_object_get(r, "events"), *e;
            size_t i, n = json_array_size(some);
            ck_assert_uint_eq(n, 302 - from < (size_t)size ? 302 - from : (size_t)size);
            ck_assert_int_eq(number(r, "cursor"), (int64_t)(from + n));
            ck_assert_int_eq(json_is_true(json_object_get(r, "more")), from + n < 302);
            json_array_foreach(some, i, e) {
                ck_assert(json_equal(e, json_array_get(events, from + i)));
            }
            json_decref(r);
        }
    }
    json_t *past = client_call(c, "{'cmd':'read','name':'a','cursor':303}");
    ck_assert_str_eq(reply_field(past), "cursor");
    json_decref(past);
    json_decref(all);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

START_TEST(test_same_name) {
    struct fixture f;
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url);
    static const char submit[] =
        "{'cmd':'submit','name':'a','prompt_ids':[2],'max_tokens':9,'temperature':0.5}";
    json_t *first = client_call(c, "%s", submit);
    json_t *again = client_call(c, "%s", submit);
    ck_assert(reply_ok(first));
    ck_assert(json_equal(first, again));
    json_decref(again);
    json_t *other = client_call(
        c, "{'cmd':'submit','name':'a','prompt_ids':[2],'max_tokens':9,'temperature':0.25}");
    ck_assert_str_eq(reply_code(other), "duplicate");
    ck_assert_str_eq(reply_field(other), "name");
    json_decref(other);
    /* Refused by the planner: nothing ran, the name stays free. */
    for (int i = 0; i < 2; i++) {
        json_t *full = client_call(c, "{'cmd':'submit','name':'b','prompt_ids':[1]}");
        ck_assert_str_eq(reply_code(full), "queue_full");
        ck_assert_int_eq(number(json_object_get(full, "error"), "retry_ms"), 250);
        ck_assert_int_eq(number(json_object_get(full, "error"), "limit"), 7);
        json_decref(full);
    }
    json_decref(client_call(c, "{'cmd':'submit','name':'b','prompt_ids':[20]}"));
    json_decref(client_call(c, "{'cmd':'cancel','name':'a'}"));
    /* Ended: still the same reply, and it did not run again. */
    again = client_call(c, "%s", submit);
    ck_assert(json_equal(first, again));
    json_decref(again);
    json_decref(first);
    ck_assert_int_eq(engine_count(c, "requests"), 2);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

START_TEST(test_cancel) {
    struct fixture f;
    char text[256];
    uint32_t ids[8], n;
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url);
    for (int script = FAKE_HOLD; script <= FAKE_QUEUED; script += FAKE_QUEUED - FAKE_HOLD) {
        json_decref(
            client_call(c, "{'cmd':'submit','name':'c%d','prompt_ids':[%d]}", script, script));
        json_t *r = client_call(c, "{'cmd':'cancel','name':'c%d'}", script);
        ck_assert(reply_ok(r));
        json_decref(r);
        char name[8];
        snprintf(name, sizeof name, "c%d", script);
        json_t *end = client_finish(c, name, text, sizeof text, ids, &n);
        ck_assert_str_eq(json_string_value(json_object_get(end, "reason")), "cancelled");
        json_decref(end);
        r = client_call(c, "{'cmd':'cancel','name':'c%d'}", script);
        ck_assert_str_eq(json_string_value(json_object_get(r, "state")), "ended");
        json_decref(r);
    }
    json_t *r = client_call(c, "{'cmd':'cancel','name':'nobody'}");
    ck_assert_str_eq(reply_code(r), "not_found");
    json_decref(r);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* Cancelled before the planner accepted: the cancel follows the acceptance. */
START_TEST(test_cancel_before_accepted) {
    struct fixture f;
    char text[256];
    uint32_t ids[64], n;
    fixture_open(&f, NULL);
    nng_socket s;
    nng_msg *m;
    struct door_client *c = client_open(f.url);
    ck_assert_int_eq(nng_req0_open(&s), 0);
    ck_assert_int_eq(nng_dial(s, f.url, NULL, 0), 0);
    static const char submit[] =
        "{\"cmd\":\"submit\",\"name\":\"l\",\"prompt_ids\":[6],\"max_tokens\":4}";
    ck_assert_int_eq(nng_msg_alloc(&m, 0), 0);
    nng_msg_append(m, submit, sizeof submit - 1);
    ck_assert_int_eq(nng_sendmsg(s, m, 0), 0);
    for (;;) { /* until it has arrived */
        json_t *r = client_call(c, "{'cmd':'cancel','name':'l'}");
        bool ok = reply_ok(r);
        json_decref(r);
        if (ok)
            break;
    }
    ck_assert_int_eq(engine_count(c, "requests"), 1); /* the question lets the planner accept */
    ck_assert_int_eq(nng_recvmsg(s, &m, 0), 0);
    ck_assert(strstr(nng_msg_body(m), "\"ok\":true") != NULL);
    nng_msg_free(m);
    json_t *end = client_finish(c, "l", text, sizeof text, ids, &n);
    json_decref(end);
    nng_close(s);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

START_TEST(test_ends) {
    struct fixture f;
    char text[512];
    uint32_t ids[8], n;
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url);
    json_decref(client_call(c, "{'cmd':'submit','name':'f','prompt_ids':[3]}"));
    json_t *end = client_finish(c, "f", text, sizeof text, ids, &n);
    ck_assert_str_eq(json_string_value(json_object_get(end, "reason")), "failed");
    const json_t *error = json_object_get(end, "error");
    ck_assert_str_eq(json_string_value(json_object_get(error, "code")), "round_failed");
    ck_assert_int_gt(number(error, "retry_ms"), 0);
    json_decref(end);
    json_decref(client_call(c, "{'cmd':'submit','name':'b','prompt_ids':[4]}"));
    json_t *r = client_call(c, "{'cmd':'read','name':'b'}");
    const json_t *token = json_array_get(json_object_get(r, "events"), 1);
    ck_assert_str_eq(json_string_value(json_object_get(token, "text")),
                     "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                     "b\"\\\x01\xc3\xa9");
    ck_assert_str_eq(json_string_value(json_object_get(token, "bytes_hex")),
                     "61ffe28262225c01c3a9");
    json_decref(r);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* The request is sent again every 30 ms while its answer stays away, and is served once. */
START_TEST(test_resend) {
    struct fixture f;
    struct status_note note;
    struct door_client *c, *fast;
    char *reply;
    size_t n;
    fixture_open(&f, NULL);
    c = client_open(f.url);
    ck_assert_int_eq(door_client_open(f.url, 30, &fast, &note), STATUS_OK);
    json_decref(client_call(fast, "{'cmd':'submit','name':'q','prompt_ids':[5]}"));
    static const char wait[] = "{\"cmd\":\"read\",\"name\":\"q\",\"wait_ms\":700}";
    ck_assert_int_eq(
        door_client_call(fast, wait, sizeof wait - 1, FIXTURE_TIMEOUT_MS, &reply, &n, &note),
        STATUS_OK);
    ck_assert(strstr(reply, "\"events\":[]") != NULL); /* the keepalive */
    free(reply);
    ck_assert_int_gt(door_count(c, "repeated"), 0);
    ck_assert_int_eq(door_count(c, "reads"), 1);
    ck_assert_int_eq(door_count(c, "keepalives"), 1);
    door_client_close(fast);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

enum { MANY = 1000 };

/* A thousand reads wait on one connection, the limit refuses one more by name, and one cancel
 * answers them all. */
START_TEST(test_many_waits) {
    static nng_ctx ctx[MANY];
    static nng_aio *aio[MANY];
    struct fixture f;
    struct door_config config = {.desk.waits_max = MANY + 1};
    nng_socket s;
    nng_msg *m;
    fixture_open(&f, &config);
    struct door_client *c = client_open(f.url);
    json_decref(client_call(c, "{'cmd':'submit','name':'q','prompt_ids':[5]}"));
    ck_assert_int_eq(nng_req0_open(&s), 0);
    nng_socket_set_ms(s, NNG_OPT_REQ_RESENDTIME, 3000);
    ck_assert_int_eq(nng_dial(s, f.url, NULL, 0), 0);
    static const char wait[] = "{\"cmd\":\"read\",\"name\":\"q\",\"wait_ms\":60000}";
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(nng_ctx_open(&ctx[i], s), 0);
        ck_assert_int_eq(nng_aio_alloc(&aio[i], NULL, NULL), 0);
        nng_msg_alloc(&m, 0);
        nng_msg_append(m, wait, sizeof wait - 1);
        nng_aio_set_msg(aio[i], m);
        nng_ctx_send(ctx[i], aio[i]);
    }
    for (int i = 0; i < MANY; i++) {
        nng_aio_wait(aio[i]);
        ck_assert_int_eq(nng_aio_result(aio[i]), 0);
        nng_aio_set_timeout(aio[i], FIXTURE_TIMEOUT_MS);
        nng_ctx_recv(ctx[i], aio[i]);
    }
    while (door_count(c, "waiting") < MANY + 1) /* the question itself waits too */
        ;
    json_t *r = client_call(c, "{'cmd':'ping'}"); /* all hold no context of the server */
    ck_assert(reply_ok(r));
    json_decref(r);
    /* Fill the last place with another read, then one more is refused. */
    nng_socket s2;
    ck_assert_int_eq(nng_req0_open(&s2), 0);
    ck_assert_int_eq(nng_dial(s2, f.url, NULL, 0), 0);
    nng_msg_alloc(&m, 0);
    nng_msg_append(m, wait, sizeof wait - 1);
    ck_assert_int_eq(nng_sendmsg(s2, m, 0), 0);
    while (door_count(c, "waiting") < MANY + 2)
        ;
    r = client_call(c, "{'cmd':'read','name':'q','wait_ms':1}");
    ck_assert_str_eq(reply_code(r), "queue_full");
    ck_assert_str_eq(reply_field(r), "wait_ms");
    json_decref(r);
    json_decref(client_call(c, "{'cmd':'cancel','name':'q'}"));
    for (int i = 0; i < MANY; i++) {
        nng_aio_wait(aio[i]);
        ck_assert_int_eq(nng_aio_result(aio[i]), 0);
        nng_msg *got = nng_aio_get_msg(aio[i]);
        ck_assert(strstr(nng_msg_body(got), "\"cancelled\"") != NULL);
        nng_msg_free(got);
        nng_aio_free(aio[i]);
        nng_ctx_close(ctx[i]);
    }
    nng_close(s2);
    nng_close(s);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* A client is cut off in the middle and another goes on from its cursor: nothing is lost or
 * doubled. */
START_TEST(test_reconnect) {
    struct fixture f;
    uint32_t n = 0;
    uint64_t cursor = 0;
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url);
    json_decref(client_call(c, "{'cmd':'submit','name':'s','prompt_ids':[8,9],'max_tokens':60}"));
    for (bool ended = false; !ended;) {
        door_client_close(c);
        c = client_open(f.url);
        json_t *r =
            client_call(c, "{'cmd':'read','name':'s','cursor':%llu,'wait_ms':5000,'max_events':7}",
                        (unsigned long long)cursor);
        json_t *events = json_object_get(r, "events"), *e;
        size_t i;
        json_array_foreach(events, i, e) {
            const char *type = json_string_value(json_object_get(e, "type"));
            if (strcmp(type, "token") == 0) {
                ck_assert_int_eq(number(e, "index"), n);
                ck_assert_int_eq(number(e, "id"), fake_token(17, n));
                n++;
            }
            ended = ended || strcmp(type, "ended") == 0;
        }
        cursor = (uint64_t)number(r, "cursor");
        json_decref(r);
    }
    ck_assert_uint_eq(n, 60);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* Connects as no nng client would, and says nothing. */
static int bare_connect(const char *url) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(url + 6);
    ck_assert_uint_lt(n, sizeof a.sun_path);
    memcpy(a.sun_path, url + 6, n);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    if (connect(fd, (const struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd); /* just now it is being opened again */
    return -1;
}

/* A bare connect-and-close kills the ipc listener of the packaged nng; the door notices, opens
 * it again and hangs up on who was left without service. */
START_TEST(test_heal) {
    struct fixture f;
    char ipc[96];
    struct stat st;
    const char *urls[] = {"tcp://127.0.0.1:0", ipc};
    struct door_config config = {
        .probe_ns = 20000000, .probe_deadline_ms = 500, .urls = urls, .n_urls = 2};
    snprintf(ipc, sizeof ipc, "ipc:///tmp/door-heal-%ld.s", (long)getpid());
    fixture_open(&f, &config);
    struct door_client *c = client_open(f.url); /* tcp: is not disturbed */
    for (int tries = 0; tries < 100 && door_count(c, "healed") == 0; tries++) {
        int fd = bare_connect(ipc);
        if (fd >= 0)
            close(fd);
        for (int64_t n = door_count(c, "probes"); door_count(c, "probes") == n;)
            ; /* until the door has looked */
    }
    ck_assert_int_gt(door_count(c, "healed"), 0);
    struct door_client *fresh = client_open(ipc);
    json_t *r = client_call(fresh, "{'cmd':'ping'}");
    ck_assert(reply_ok(r));
    json_decref(r);
    door_client_close(fresh);
    ck_assert_int_eq(stat(ipc + 6, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* A client that opens a connection and says nothing, or nonsense, disturbs nobody. */
START_TEST(test_silent_connections) {
    struct fixture f;
    int fds[32];
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url);
    for (int i = 0; i < 32; i++) {
        fds[i] = bare_connect(f.url);
        ck_assert_int_ge(fds[i], 0);
        if (i % 2 == 1)
            ck_assert_int_eq(write(fds[i], "GET / HTTP/1.1\r\n", 16), 16);
    }
    json_t *r = client_call(c, "{'cmd':'ping'}");
    ck_assert(reply_ok(r));
    json_decref(r);
    for (int i = 0; i < 32; i++)
        close(fds[i]);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

START_TEST(test_tcp) {
    struct fixture f;
    const char *urls[] = {"tcp://127.0.0.1:0"};
    struct door_config config = {.urls = urls, .n_urls = 1};
    fixture_open(&f, &config);
    ck_assert_str_ne(f.url, urls[0]);
    struct door_client *c = client_open(f.url);
    json_t *r = client_call(c, "{'cmd':'info'}");
    ck_assert(reply_ok(r));
    ck_assert_int_eq(number(r, "context"), FAKE_CONTEXT);
    ck_assert_int_eq(number(r, "kv_tokens"), 4096);
    json_decref(r);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* Draining: new requests are refused, running ones end by the deadline with their reason, the
 * program is told once. */
START_TEST(test_drain) {
    struct fixture f;
    char text[256];
    uint32_t ids[8], n;
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url);
    json_decref(client_call(c, "{'cmd':'submit','name':'h','prompt_ids':[2]}"));
    json_t *r = client_call(c, "{'cmd':'drain','deadline_ms':300}");
    ck_assert(reply_ok(r));
    ck_assert_int_eq(number(r, "live"), 1);
    json_decref(r);
    r = client_call(c, "{'cmd':'submit','name':'late','prompt_ids':[20]}");
    ck_assert_str_eq(reply_code(r), "draining");
    ck_assert_int_gt(number(json_object_get(r, "error"), "retry_ms"), 0);
    json_decref(r);
    r = client_call(c, "{'cmd':'ping'}"); /* still open */
    ck_assert(json_is_true(json_object_get(r, "draining")));
    json_decref(r);
    json_t *end = client_finish(c, "h", text, sizeof text, ids, &n);
    ck_assert_str_eq(json_string_value(json_object_get(end, "reason")), "cancelled");
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(end, "error"), "code")),
                     "draining");
    json_decref(end);
    fixture_join(&f);
    ck_assert_uint_eq(f.closed, 1);
    ck_assert_uint_eq(f.closed_status, STATUS_OK);
    ck_assert_uint_eq(f.closed_cancelled, 1);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* Who waits for the end of a drain hears what came of it. */
START_TEST(test_drain_waited_for) {
    struct fixture f;
    fixture_open(&f, NULL);
    f.planner->unsaved = 12;
    struct door_client *c = client_open(f.url);
    json_decref(client_call(c, "{'cmd':'submit','name':'h','prompt_ids':[2]}"));
    json_t *r = client_call(c, "{'cmd':'drain','deadline_ms':300,'wait':true}");
    ck_assert(reply_ok(r));
    ck_assert_int_eq(number(r, "cancelled"), 1);
    ck_assert_int_eq(number(r, "unsaved"), 12);
    ck_assert_str_eq(json_string_value(json_object_get(r, "why")), status_text(STATUS_IO));
    json_decref(r);
    fixture_join(&f);
    ck_assert_uint_eq(f.closed_status, STATUS_OK);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

START_TEST(test_halt) {
    struct fixture f;
    char text[256];
    uint32_t ids[8], n;
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url);
    json_decref(client_call(c, "{'cmd':'submit','name':'h','prompt_ids':[2]}"));
    door_drain(f.door, 3600000000000);
    door_halt(f.door);
    json_t *end = client_finish(c, "h", text, sizeof text, ids, &n);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(end, "error"), "code")),
                     "shutdown");
    json_decref(end);
    fixture_join(&f);
    ck_assert_uint_eq(f.closed_status, STATUS_SHUTDOWN);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

START_TEST(test_device_lost) {
    struct fixture f;
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url);
    json_decref(client_call(c, "{'cmd':'submit','name':'d','prompt_ids':[7]}"));
    fixture_join(&f);
    ck_assert_uint_eq(f.closed, 1);
    ck_assert_uint_eq(f.closed_status, STATUS_DEVICE);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* Nobody reads for the time that the request names: it is cancelled; one that is waited for is
 * not. */
START_TEST(test_idle_cancel) {
    struct fixture f;
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url);
    json_decref(client_call(c, "{'cmd':'submit','name':'i','prompt_ids':[2],'idle_cancel_ms':50}"));
    json_decref(client_call(c, "{'cmd':'submit','name':'k','prompt_ids':[2],'idle_cancel_ms':0}"));
    while (engine_count(c, "cancelled") == 0)
        ;
    ck_assert_int_eq(door_count(c, "idle_cancels"), 1);
    json_t *r = client_call(c, "{'cmd':'read','name':'k'}");
    ck_assert_str_eq(json_string_value(json_object_get(r, "state")), "running");
    json_decref(r);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* Ended requests make room for new ones, oldest first; their names are gone, not unknown, and
 * never run again. */
START_TEST(test_gone) {
    struct fixture f;
    struct door_config config = {.desk.live_max = 4, .desk.ended_max = 3};
    fixture_open(&f, &config);
    struct door_client *c = client_open(f.url);
    for (int i = 0; i < 5; i++)
        json_decref(
            client_call(c, "{'cmd':'submit','name':'g%d','prompt_ids':[20],'max_tokens':2}", i));
    for (int i = 0; i < 5; i++) {
        json_t *r = client_call(c, "{'cmd':'read','name':'g%d'}", i);
        ck_assert_str_eq(reply_code(r), i < 2 ? "gone" : "");
        json_decref(r);
    }
    json_t *r = client_call(c, "{'cmd':'submit','name':'g0','prompt_ids':[20],'max_tokens':2}");
    ck_assert_str_eq(reply_code(r), "gone");
    json_decref(r);
    /* The live limit is refused with a time to come back. */
    for (int i = 0; i < 5; i++) {
        r = client_call(c, "{'cmd':'submit','name':'l%d','prompt_ids':[5]}", i);
        ck_assert_str_eq(reply_code(r), i < 4 ? "" : "queue_full");
        if (i == 4) {
            ck_assert_int_eq(number(json_object_get(r, "error"), "limit"), 4);
            ck_assert_int_gt(number(json_object_get(r, "error"), "retry_ms"), 0);
        }
        json_decref(r);
    }
    r = client_call(c, "{'cmd':'sessions'}");
    ck_assert_uint_eq(json_array_size(json_object_get(r, "sessions")), 7);
    json_decref(r);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

START_TEST(test_keep_time) {
    struct fixture f;
    struct door_config config = {.desk.keep_ns = 30000000};
    fixture_open(&f, &config);
    struct door_client *c = client_open(f.url);
    json_decref(client_call(c, "{'cmd':'submit','name':'k','prompt_ids':[20],'max_tokens':2}"));
    for (bool gone = false; !gone;) {
        json_t *r = client_call(c, "{'cmd':'read','name':'k'}");
        gone = strcmp(reply_code(r), "gone") == 0;
        ck_assert(gone || reply_ok(r));
        json_decref(r);
    }
    ck_assert_int_eq(door_count(c, "log_bytes"), 0);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* The reply log is promised before a request runs: what does not fit is refused, and room comes
 * back. */
START_TEST(test_log_budget) {
    struct fixture f;
    struct door_config config = {.desk.log_bytes = 64 << 10};
    fixture_open(&f, &config);
    struct door_client *c = client_open(f.url);
    int held = 0;
    for (;; held++) {
        ck_assert_int_lt(held, 100);
        json_t *r =
            client_call(c, "{'cmd':'submit','name':'h%d','prompt_ids':[2],'max_tokens':500}", held);
        bool ok = reply_ok(r);
        ck_assert_str_eq(reply_code(r), ok ? "" : "queue_full");
        json_decref(r);
        if (!ok)
            break;
    }
    ck_assert_int_gt(held, 1);
    for (int i = 0; i < held; i++)
        json_decref(client_call(c, "{'cmd':'cancel','name':'h%d'}", i));
    for (int i = 0; i < 40; i++) {
        json_t *r =
            client_call(c, "{'cmd':'submit','name':'n%d','prompt_ids':[20],'max_tokens':500}", i);
        ck_assert(reply_ok(r));
        json_decref(r);
    }
    json_t *r = client_call(
        c, "{'cmd':'submit','name':'x','prompt_ids':[20],'max_tokens':500,'logprobs':20,"
           "'logits_hash':true}");
    ck_assert_str_eq(reply_code(r), "too_large");
    ck_assert_str_eq(reply_field(r), "max_tokens");
    json_decref(r);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* Bad messages are refused one by one, and a request beside them goes on undisturbed. */
START_TEST(test_bad_input) {
    struct fixture f;
    char text[4096];
    uint32_t ids[128], n;
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url);
    json_decref(client_call(c, "{'cmd':'submit','name':'s','prompt_ids':[8],'max_tokens':100}"));
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "null",
        "{'cmd':'fly'}",
        "{'cmd':'submit'}",
        "{'cmd':'submit','name':'x','prompt_ids':[1000]}",
        "{'cmd':'submit','name':'x','prompt_ids':[]}",
        "{'cmd':'submit','name':'x','prompt':'text'}",
        "{'cmd':'submit','name':'x','prompt_ids':[20],'max_tokens':1e30}",
        "{'cmd':'read','name':'s','cursor':-1}",
        "{'cmd':'read','name':'s','wait_ms':60001}",
        "{'cmd':'ping','x':1}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json_t *r = client_call(c, "%s%s", bad[i], " ");
        ck_assert_msg(!reply_ok(r), "%s", bad[i]);
        ck_assert_str_ne(reply_code(r), "");
        json_decref(r);
    }
    char *huge = malloc(DOOR_MESSAGE_MAX + 2);
    memset(huge, ' ', DOOR_MESSAGE_MAX + 2);
    json_t *r = client_raw(c, huge, DOOR_MESSAGE_MAX + 1);
    ck_assert_str_eq(reply_code(r), "too_large");
    json_decref(r);
    free(huge);
    r = client_call(c, "{'cmd':'submit','name':'long','prompt_ids':[%0*d]}", 3000, 5);
    ck_assert(!reply_ok(r)); /* leading zeros are no JSON */
    json_decref(r);
    json_decref(client_finish(c, "s", text, sizeof text, ids, &n));
    ck_assert_uint_eq(n, 100);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_uint_eq(ids[i], fake_token(8, i));
    ck_assert_int_eq(engine_count(c, "requests"), 1);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

/* More than the transport takes closes that connection, and only that one. */
START_TEST(test_beyond_transport) {
    struct fixture f;
    struct status_note note;
    char *reply = NULL;
    size_t n;
    fixture_open(&f, NULL);
    struct door_client *c = client_open(f.url), *rude = client_open(f.url);
    char *huge = malloc(DOOR_TRANSPORT_MAX + 1);
    memset(huge, ' ', DOOR_TRANSPORT_MAX + 1);
    ck_assert_int_eq(door_client_call(rude, huge, DOOR_TRANSPORT_MAX + 1, 300, &reply, &n, &note),
                     STATUS_TIMEOUT);
    free(huge);
    json_t *r = client_call(c, "{'cmd':'ping'}");
    ck_assert(reply_ok(r));
    json_decref(r);
    ck_assert_int_eq(door_count(c, "refused"), 0); /* it never came as far as the door */
    door_client_close(rude);
    door_client_close(c);
    fixture_close(&f);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("door");
    TCase *t = tcase_create("door");
    tcase_set_timeout(t, 0);
    tcase_add_test(t, test_submit_and_read);
    tcase_add_test(t, test_cursor);
    tcase_add_test(t, test_same_name);
    tcase_add_test(t, test_cancel);
    tcase_add_test(t, test_cancel_before_accepted);
    tcase_add_test(t, test_ends);
    tcase_add_test(t, test_resend);
    tcase_add_test(t, test_many_waits);
    tcase_add_test(t, test_reconnect);
    tcase_add_test(t, test_heal);
    tcase_add_test(t, test_silent_connections);
    tcase_add_test(t, test_tcp);
    tcase_add_test(t, test_drain);
    tcase_add_test(t, test_drain_waited_for);
    tcase_add_test(t, test_halt);
    tcase_add_test(t, test_device_lost);
    tcase_add_test(t, test_idle_cancel);
    tcase_add_test(t, test_gone);
    tcase_add_test(t, test_keep_time);
    tcase_add_test(t, test_log_budget);
    tcase_add_test(t, test_bad_input);
    tcase_add_test(t, test_beyond_transport);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return test_run(suite());
}
