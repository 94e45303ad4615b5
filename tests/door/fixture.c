/* SPDX-License-Identifier: Apache-2.0
 * The fixture.
 */
#include "tests/door/fixture.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void owner_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct fixture *f = state;
    if (msg->kind == door_KIND_closed) {
        struct door_closed m;
        memcpy(&m, msg->body, sizeof m);
        f->closed++;
        f->closed_status = m.status;
        f->closed_cancelled = m.cancelled;
        act_rt_stop(act_rt_of(ctx));
    } else if (msg->kind == ACT_KIND_stop) {
        act_exit(ctx);
    }
}

static const struct act_kind owner_kind = {.name = "owner", .receive = owner_receive};

static void *run(void *arg) {
    act_rt_run(((struct fixture *)arg)->rt);
    return NULL;
}

void fixture_open(struct fixture *f, const struct door_config *config) {
    struct status_note note = {{0}};
    struct act_rt_config rt = {.port = ACT_PORT_THREADS,
                               .workers = 1,
                               .actors_max = 64,
                               .messages_max = 1 << 16,
                               .timers_max = 8192};
    struct door_config c = config != NULL ? *config : (struct door_config){0};
    memset(f, 0, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "/tmp/door-test-XXXXXX");
    CHECK(mkdtemp(f->folder) != NULL);
    snprintf(f->url, sizeof f->url, "ipc://%s/s", f->folder);
    const char *urls[1] = {f->url};
    f->planner = calloc(1, sizeof *f->planner);
    CHECK(f->planner != NULL);
    CHECK(act_rt_open(&rt, &f->rt, &note) == STATUS_OK);
    c.rt = f->rt;
    c.desk.planner = act_spawn(f->rt, &fake_planner_kind, f->planner, 0);
    c.owner = act_spawn(f->rt, &owner_kind, f, 0);
    c.desk.context = FAKE_CONTEXT;
    c.desk.vocab = FAKE_VOCAB;
    c.desk.kv_tokens = 4096;
    c.desk.model = "fake";
    c.desk.profile = "none";
    c.desk.version = "0";
    c.desk.sampling = (struct krn_sampling){.top_p = 1, .repetition = 1};
    c.desk.drain_ns = 5000000000;
    if (c.urls == NULL) {
        c.urls = urls;
        c.n_urls = 1;
    }
    if (c.linger_ns == 0)
        c.linger_ns = 50000000;
    enum status s = door_open(&c, &f->door, &note);
    if (s != STATUS_OK)
        fprintf(stderr, "door: %s\n", note.text);
    CHECK(s == STATUS_OK);
    snprintf(f->url, sizeof f->url, "%s", door_url(f->door, 0));
    CHECK(pthread_create(&f->thread, NULL, run, f) == 0);
}

void fixture_join(struct fixture *f) {
    pthread_join(f->thread, NULL);
    f->thread = 0;
}

void fixture_close(struct fixture *f) {
    struct status_note note = {{0}};
    if (f->thread != 0) {
        act_rt_stop(f->rt);
        fixture_join(f);
    }
    bool balanced = door_desk_audit(door_desk_of(f->door), &note);
    if (!balanced)
        fprintf(stderr, "%s\n", note.text);
    CHECK(balanced);
    door_stop(f->door);
    act_rt_close(f->rt);
    door_close(f->door);
    free(f->planner);
    rmdir(f->folder);
}

struct door_client *client_open(const char *url) {
    struct status_note note = {{0}};
    struct door_client *c = NULL;
    enum status s = door_client_open(url, 1000, &c, &note);
    if (s != STATUS_OK)
        fprintf(stderr, "client: %s\n", note.text);
    CHECK(s == STATUS_OK);
    return c;
}

json_t *client_raw(struct door_client *c, const void *bytes, size_t n) {
    struct status_note note = {{0}};
    char *reply = NULL;
    size_t n_reply = 0;
    json_error_t error;
    enum status s = door_client_call(c, bytes, n, FIXTURE_TIMEOUT_MS, &reply, &n_reply, &note);
    if (s != STATUS_OK)
        fprintf(stderr, "call: %s\n", note.text);
    CHECK(s == STATUS_OK);
    json_t *v = json_loadb(reply, n_reply, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (v == NULL)
        fprintf(stderr, "not JSON: %s: %s\n", error.text, reply);
    CHECK(v != NULL);
    free(reply);
    return v;
}

json_t *client_call(struct door_client *c, const char *format, ...) {
    char text[8192];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CHECK(n > 0 && n < (int)sizeof text);
    for (char *p = text; *p != 0; p++)
        if (*p == '\'')
            *p = '"';
    return client_raw(c, text, (size_t)n);
}

bool reply_ok(const json_t *reply) {
    return json_is_true(json_object_get(reply, "ok"));
}

const char *reply_code(const json_t *reply) {
    const char *s = json_string_value(json_object_get(json_object_get(reply, "error"), "code"));
    return s != NULL ? s : "";
}

const char *reply_field(const json_t *reply) {
    const char *s = json_string_value(json_object_get(json_object_get(reply, "error"), "field"));
    return s != NULL ? s : "";
}

json_t *client_finish(struct door_client *c, const char *name, char *text, size_t cap,
                      uint32_t *ids, uint32_t *n_ids) {
    uint64_t cursor = 0;
    size_t n = 0;
    *n_ids = 0;
    text[0] = 0;
    for (;;) {
        json_t *reply = client_call(c, "{'cmd':'read','name':'%s','cursor':%llu,'wait_ms':5000}",
                                    name, (unsigned long long)cursor);
        CHECK(reply_ok(reply));
        json_t *events = json_object_get(reply, "events"), *e, *last = NULL;
        size_t i;
        json_array_foreach(events, i, e) {
            const char *type = json_string_value(json_object_get(e, "type"));
            const char *piece = json_string_value(json_object_get(e, "text"));
            if (strcmp(type, "token") == 0)
                ids[(*n_ids)++] = (uint32_t)json_integer_value(json_object_get(e, "id"));
            if (piece != NULL)
                n += (size_t)snprintf(text + n, cap - n, "%s", piece);
            CHECK(n < cap);
            if (strcmp(type, "ended") == 0)
                last = json_incref(e);
        }
        CHECK((uint64_t)json_integer_value(json_object_get(reply, "cursor")) ==
              cursor + json_array_size(events));
        cursor += json_array_size(events);
        json_decref(reply);
        if (last != NULL)
            return last;
    }
}
