/* SPDX-License-Identifier: Apache-2.0
 * roundhouse serve: the engine behind a door. The first signal drains, the second halts, the third
 * leaves at once.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config.h"
#include "lanes/door/door.h"
#include "lanes/programs/loading.h"
#include "lanes/programs/options.h"
#include "sessions/reason.h"

enum {
    SERVE_QUEUE = 512,
    SERVE_LANES = 64,
    SERVE_DRAIN_S = 30,
    SERVE_DRAIN_S_MAX = 86400,
    SERVE_CLOSE_S = 5,
    SERVE_STOP_S = 60 /* a thread that a disk does not let go of is not waited for longer */
};

struct serve {
    struct options o;
    struct lane_engine *engine;
    struct door *door;
    uint64_t drain_ns;
    bool quiet;
    pthread_t signals;
    uint32_t status, cancelled; /* of the door's last word; written on the worker */
    bool closed;
};

/* ---- signals: a thread of their own that waits for them; everybody else has them blocked ---- */

static void serve_signal_set(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

static void *serve_signals(void *arg) {
    struct serve *s = arg;
    sigset_t set;
    serve_signal_set(&set);
    for (int count = 1;; count++) {
        int got = 0;
        if (sigwait(&set, &got) != 0)
            continue;
        if (count == 1) {
            if (!s->quiet)
                fprintf(stderr,
                        "roundhouse: draining for at most %" PRIu64
                        " s; a second signal halts now\n",
                        s->drain_ns / 1000000000);
            door_drain(s->door, s->drain_ns);
        } else if (count == 2) {
            fprintf(stderr, "roundhouse: halting\n");
            door_halt(s->door);
        } else {
            _exit(EXIT_HALTED);
        }
    }
    return NULL;
}

/* The packaged nng can wait for ever for a connection that it lost count of. All is said and
 * answered by then, so the process leaves with the code that it has. */
static volatile sig_atomic_t serve_code;

static void serve_close_late(int signal) {
    (void)signal;
    _exit(serve_code);
}

static void serve_close_within(enum program_exit code, unsigned seconds) {
    struct sigaction act = {.sa_handler = serve_close_late};
    serve_code = code;
    sigaction(SIGALRM, &act, NULL);
    alarm(seconds);
}

static enum program_exit serve_code_of(enum status status) {
    return status == STATUS_OK         ? EXIT_DONE
           : status == STATUS_SHUTDOWN ? EXIT_HALTED
                                       : EXIT_INTERNAL;
}

/* ---- the owner of the door ---- */

static void owner_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    struct serve *s = state;
    if (msg->kind == door_KIND_closed) {
        struct door_closed m;
        memcpy(&m, msg->body, sizeof m);
        s->status = m.status;
        s->cancelled = m.cancelled;
        s->closed = true;
        serve_close_within(serve_code_of((enum status)m.status), SERVE_STOP_S);
        act_rt_stop(act_rt_of(ctx));
    } else if (msg->kind == ACT_KIND_stop) {
        act_exit(ctx);
    }
}

static const struct act_kind owner_kind = {.name = "serve", .receive = owner_receive};

/* ---- opening ---- */

static const char *serve_base_name(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t at = n;
    while (at > 0 && path[at - 1] != '/')
        at--;
    static char name[128];
    snprintf(name, sizeof name, "%.*s", (int)(n - at < 127 ? n - at : 127), path + at);
    return name;
}

static enum status serve_open_door(struct serve *s, const struct lane_engine_config *e,
                                   struct status_note *note) {
    static char usual[DOOR_URL_MAX];
    const char *urls[OPT_REPEAT_MAX];
    const struct lane_tokenizer *t = lane_engine_tokenizer(s->engine);
    const struct krn_model *model = lane_engine_model(s->engine);
    bool unknown = false;
    uint32_t lanes = e->lanes_max != 0 ? e->lanes_max : SERVE_LANES;
    struct door_config c = {.rt = lane_engine_rt(s->engine), .worker = 0, .urls = urls};
    c.n_urls = s->o.n[OPT_listen];
    for (uint32_t i = 0; i < c.n_urls; i++)
        urls[i] = s->o.value[OPT_listen][i];
    if (c.n_urls == 0) {
        TRY(options_usual_url(usual, sizeof usual, note));
        urls[c.n_urls++] = usual;
    }
    c.desk = (struct door_desk_config){.planner = lane_engine_planner(s->engine),
                                       .memory = lane_engine_memory(s->engine),
                                       .tokenizer = t,
                                       .context = lane_engine_context(s->engine),
                                       .vocab = lane_engine_vocab(s->engine),
                                       .kv_tokens = lane_engine_kv_tokens(s->engine),
                                       .weights = lane_engine_weights(s->engine),
                                       .weights_bytes = lane_engine_weights_bytes(s->engine),
                                       .model = serve_base_name(e->model_path),
                                       .profile = lane_engine_profile(s->engine)->name,
                                       .version = PACKAGE_VERSION,
                                       .live_max = lanes + e->queue_max,
                                       .drain_ns = s->drain_ns};
    if (t != NULL)
        c.desk.template_name = lane_template_name(t, &unknown);
    TRY(options_sampling(&s->o, model != NULL ? &model->config : NULL, &c.desk.sampling, note));
    c.owner = act_spawn(c.rt, &owner_kind, s, 0);
    if (c.owner == 0)
        return status_say(note, STATUS_NO_MEMORY, "no room in the runtime");
    return door_open(&c, &s->door, note);
}

static void serve_say_ready(const struct serve *s, const struct lane_engine_config *e) {
    const struct krn_model *m = lane_engine_model(s->engine);
    const struct krn_profile *p = lane_engine_profile(s->engine);
    uint32_t n_urls = s->o.n[OPT_listen] > 0 ? s->o.n[OPT_listen] : 1;
    if (!s->quiet) {
        fprintf(stderr, "roundhouse: model %s: %s, %.1f M parameters, context %u tokens\n",
                e->model_path, m->config.family, (double)m->parameters / 1e6,
                lane_engine_context(s->engine));
        fprintf(stderr, "roundhouse: device %s: %s\n", lane_engine_device_name(s->engine),
                lane_engine_device_words(s->engine));
        if (lane_engine_device_why(s->engine)[0] != '\0')
            fprintf(stderr, "roundhouse: no GPU is used: %s\n", lane_engine_device_why(s->engine));
        fprintf(stderr, "roundhouse: profile %s version %u, %u virtual ranks\n", p->name,
                p->version, p->virtual_ranks);
        char weights[64];
        lane_engine_weights_text(s->engine, weights, sizeof weights);
        fprintf(stderr, "roundhouse: %s; KV capacity %" PRIu64 " tokens; %.1f MiB in all\n",
                weights, lane_engine_kv_tokens(s->engine),
                (double)lane_engine_bytes(s->engine) / (1 << 20));
        char tiers[4608];
        lane_engine_tiers_text(s->engine, tiers, sizeof tiers);
        if (tiers[0] != '\0')
            fprintf(stderr, "roundhouse: %s\n", tiers);
        for (uint32_t i = 0; i < n_urls; i++)
            fprintf(stderr, "roundhouse: listening on %s\n", door_url(s->door, i));
        fprintf(stderr, "roundhouse: ready\n");
    }
    if (options_has(&s->o, OPT_json_lines)) {
        char line[4096];
        struct door_out o;
        door_out_begin(&o, line, sizeof line);
        door_out_object(&o, NULL);
        door_out_bool(&o, "ready", true);
        door_out_u64(&o, "pid", (uint64_t)getpid());
        door_out_str(&o, "model", e->model_path);
        door_out_str(&o, "profile", p->name);
        door_out_u64(&o, "context", lane_engine_context(s->engine));
        door_out_u64(&o, "kv_tokens", lane_engine_kv_tokens(s->engine));
        door_out_str(&o, "weights", lane_engine_weights(s->engine));
        door_out_u64(&o, "weights_bytes", lane_engine_weights_bytes(s->engine));
        door_out_array(&o, "listen");
        for (uint32_t i = 0; i < n_urls; i++)
            door_out_str(&o, NULL, door_url(s->door, i));
        door_out_end(&o, ']');
        door_out_end(&o, '}');
        printf("%.*s\n", (int)o.n, o.buf);
        fflush(stdout);
    }
}

/* Connections are bounded by file descriptors: as many as the system lets us have. */
static void serve_raise_files(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

/* What memory did for requests, and the disk for memory; after the runtime has stopped. */
static void serve_say_sessions(const struct serve *s) {
    const struct lane_counters *c = lane_engine_counters(s->engine);
    uint64_t device = c->resumed - c->resumed_ram - c->resumed_disk;
    fprintf(stderr,
            "roundhouse: resumed %" PRIu64 " tokens: %" PRIu64 " from the device, %" PRIu64
            " from RAM, %" PRIu64 " from disk; requests:",
            c->resumed, device, c->resumed_ram, c->resumed_disk);
    for (int i = 0; i < SES_REASONS; i++)
        if (c->reasons[i] > 0)
            fprintf(stderr, " %s %" PRIu64, ses_reason_name((enum ses_reason)i), c->reasons[i]);
    fputc('\n', stderr);
    if (!lane_engine_has_disk(s->engine))
        return;
    struct ses_store_counts d;
    lane_engine_store_counts(s->engine, &d);
    const struct {
        const char *name;
        uint64_t n;
    } odd[] = {{"refused by budget or floor", d.refused},
               {"input or output errors", d.io_errors},
               {"damaged headers", d.bad_header},
               {"damaged pages", d.bad_sum},
               {"short reads", d.short_reads},
               {"lost segments", d.lost_segments},
               {"senseless entries", d.bad_entries},
               {"indexes made anew", d.rebuilt},
               {"dropped by compaction", d.dropped}};
    fprintf(stderr,
            "roundhouse: disk cache: %" PRIu64 " pages stored, %" PRIu64 " loaded, %" PRIu64
            " erased, %" PRIu64 " compactions, %.1f MiB",
            d.stored, d.loaded, d.erased, d.compactions, (double)d.bytes / (1 << 20));
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (odd[i].n > 0)
            fprintf(stderr, ", %" PRIu64 " %s", odd[i].n, odd[i].name);
    fputc('\n', stderr);
}

static enum program_exit serve_run(struct serve *s) {
    if (pthread_create(&s->signals, NULL, serve_signals, s) != 0) {
        fprintf(stderr, "roundhouse: no thread for signals\n");
        return EXIT_NO_RESOURCES;
    }
    act_rt_run(lane_engine_rt(s->engine));
    pthread_cancel(s->signals); /* sigwait is a cancellation point */
    pthread_join(s->signals, NULL);
    if (!s->closed)
        return EXIT_INTERNAL;
    if (s->status == STATUS_SHUTDOWN) {
        fprintf(stderr, "roundhouse: halted\n");
        return serve_code_of(STATUS_SHUTDOWN);
    }
    if (s->status != STATUS_OK) {
        fprintf(stderr, "roundhouse: the engine is lost: %s\n",
                status_text((enum status)s->status));
        return serve_code_of((enum status)s->status);
    }
    if (!s->quiet)
        fprintf(stderr, "roundhouse: drained, %u requests cancelled at the deadline\n",
                s->cancelled);
    if (!s->quiet)
        serve_say_sessions(s);
    return EXIT_DONE;
}

int program_serve(int argc, char **argv) {
    static struct serve s;
    struct lane_engine_config e;
    struct status_note note = {{0}};
    sigset_t set;
    uint64_t drain_s = SERVE_DRAIN_S;
    enum status status = options_parse(P_SERVE, argc, argv, &s.o, &note);
    if (status == STATUS_OK && s.o.n_args > 0)
        status = status_say(&note, STATUS_BAD_REQUEST, "serve takes no '%s'", s.o.args[0]);
    if (status == STATUS_OK)
        status = options_engine(&s.o, &e, &note);
    if (status == STATUS_OK)
        status = options_u64(&s.o, OPT_drain_seconds, 0, SERVE_DRAIN_S_MAX, false, &drain_s, &note);
    if (status != STATUS_OK) {
        fprintf(stderr, "roundhouse: %s\n", note.text);
        return EXIT_USAGE;
    }
    s.quiet = options_has(&s.o, OPT_quiet);
    s.drain_ns = drain_s * 1000000000;
    e.queue_max = e.queue_max != 0 ? e.queue_max : SERVE_QUEUE;
    enum program_exit code = EXIT_DONE;
    /* An address that cannot be listened on is said before the model is loaded. */
    for (uint32_t i = 0; i < s.o.n[OPT_listen] && code == EXIT_DONE; i++) {
        struct door_address a;
        status = door_address_parse(s.o.value[OPT_listen][i], &a, &note);
        if (status != STATUS_OK)
            code = status == STATUS_BAD_REQUEST ? EXIT_USAGE : EXIT_UNAVAILABLE;
    }
    if (code == EXIT_DONE) {
        status = loading_engine(&e, s.quiet, &s.engine, &note);
        code = program_exit_of(status);
    }
    /* From here on signals wait for the thread that takes them, also those that come while the
     * door opens. */
    serve_signal_set(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    serve_raise_files();
    if (code == EXIT_DONE && serve_open_door(&s, &e, &note) != STATUS_OK)
        code = EXIT_UNAVAILABLE;
    if (code != EXIT_DONE) {
        fprintf(stderr, "roundhouse: %s\n", note.text);
        lane_engine_close(s.engine);
        return code;
    }
    serve_say_ready(&s, &e);
    code = serve_run(&s);
    serve_close_within(code, SERVE_CLOSE_S);
    door_stop(s.door);
    lane_engine_close(s.engine);
    door_close(s.door);
    return code;
}
