/* SPDX-License-Identifier: Apache-2.0
 * The fixture with the real engine.
 */
#include "tests/door/engine_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness.h"

static void owner_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct engine_fixture *f = state;
    if (msg->kind == door_KIND_closed) {
        struct door_closed m;
        memcpy(&m, msg->body, sizeof m);
        f->closed++;
        f->closed_status = m.status;
        act_rt_stop(act_rt_of(ctx));
    } else if (msg->kind == ACT_KIND_stop) {
        act_exit(ctx);
    }
}

static const struct act_kind owner_kind = {.name = "owner", .receive = owner_receive};

static void *run(void *arg) {
    act_rt_run(lane_engine_rt(((struct engine_fixture *)arg)->engine));
    return NULL;
}

static void make_folder(struct engine_fixture *f) {
    memset(f, 0, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "/tmp/door-engine-XXXXXX");
    CHECK(mkdtemp(f->folder) != NULL);
    snprintf(f->url, sizeof f->url, "ipc://%s/s", f->folder);
}

static void open_both(struct engine_fixture *f, struct lane_engine_config e) {
    struct status_note note = {{0}};
    char model[512];
    bool unknown = false;
    snprintf(model, sizeof model, "%s/share/fable-5m", test_srcdir());
    const char *urls[1] = {f->url};
    e.model_path = model;
    enum status s = lane_engine_open(&e, &f->engine, &note);
    if (s != STATUS_OK)
        fprintf(stderr, "engine: %s\n", note.text);
    CHECK(s == STATUS_OK);
    const struct krn_config *m = &lane_engine_model(f->engine)->config;
    struct door_config c = {.rt = lane_engine_rt(f->engine),
                            .urls = urls,
                            .n_urls = 1,
                            .linger_ns = 50000000,
                            .owner = act_spawn(lane_engine_rt(f->engine), &owner_kind, f, 0)};
    c.desk = (struct door_desk_config){.planner = lane_engine_planner(f->engine),
                                       .memory = lane_engine_memory(f->engine),
                                       .tokenizer = lane_engine_tokenizer(f->engine),
                                       .context = lane_engine_context(f->engine),
                                       .vocab = lane_engine_vocab(f->engine),
                                       .kv_tokens = lane_engine_kv_tokens(f->engine),
                                       .weights = lane_engine_weights(f->engine),
                                       .weights_bytes = lane_engine_weights_bytes(f->engine),
                                       .model = "fable-5m",
                                       .profile = lane_engine_profile(f->engine)->name,
                                       .version = "0",
                                       .drain_ns = 30000000000};
    c.desk.template_name = lane_template_name(c.desk.tokenizer, &unknown);
    c.desk.sampling = (struct krn_sampling){
        .temperature = m->temperature, .top_p = m->top_p, .top_k = m->top_k, .repetition = 1};
    s = door_open(&c, &f->door, &note);
    if (s != STATUS_OK)
        fprintf(stderr, "door: %s\n", note.text);
    CHECK(s == STATUS_OK);
    CHECK(pthread_create(&f->thread, NULL, run, f) == 0);
}

void engine_fixture_open(struct engine_fixture *f) {
    char cache[96];
    make_folder(f);
    snprintf(cache, sizeof cache, "%s/cache", f->folder);
    open_both(
        f, (struct lane_engine_config){
               .threads = 2, .kv_bytes = 64 << 20, .disk_cache = cache, .disk_budget = 64 << 20});
}

void engine_fixture_open_as(struct engine_fixture *f, const struct lane_engine_config *config) {
    make_folder(f);
    open_both(f, *config);
}

void engine_fixture_join(struct engine_fixture *f) {
    pthread_join(f->thread, NULL);
    f->thread = 0;
}

void engine_fixture_close(struct engine_fixture *f) {
    if (f->thread != 0) {
        act_rt_stop(lane_engine_rt(f->engine));
        engine_fixture_join(f);
    }
    struct status_note note = {{0}};
    CHECK(door_desk_audit(door_desk_of(f->door), &note));
    door_stop(f->door);
    lane_engine_close(f->engine);
    door_close(f->door);
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", f->folder);
    CHECK(system(command) == 0);
}
