/* SPDX-License-Identifier: Apache-2.0
 * roundhouse bench --tiers: what session memory gives and costs. Time to the first token of prompts
 * that are computed, on the device, in host memory and on disk; the disk beside a plain sequential
 * read of the same records; a decode beside heavy parking and restoring, and beside requests of the
 * same size that hit the device; the same work with no tiers at all. Alternating, medians.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lanes/programs/bench.h"
#include "lanes/programs/loading.h"
#include "lanes/programs/output.h"
#include "lanes/programs/scratch.h"
#include "sessions/disk.h"

enum {
    LENGTHS_MAX = 10,
    REPEATS_MAX = 5,
    STEPS_MAX = 512,
    LENGTH_LEAST = 256,
    LENGTH_MOST = 16384,
    DECODE_PROMPT = 64,
    DECODE_LONG = 768,    /* with one repeat a quarter of it */
    DECODE_FROM = 8,      /* the first tokens are not timed */
    BESIDE_EVERY = 12,    /* tokens of the decode between two requests beside it */
    SHAPE_CONTEXT = 8192, /* of a shape, unless --context says */
    COST_LENGTH = 1024,   /* of prompts with and without tiers */
    READ_DEPTH = 32
};

enum source { COLD, DEVICE, RAM, DISK, SOURCES };
static const char *const source_names[] = {"cold", "device", "ram", "disk"};
enum beside { ALONE, BESIDE_DEVICE, BESIDE_TIERS, BESIDES };

enum step_kind { STEP_FIRST, STEP_FILL, STEP_DECODE, STEP_FLUSH };

struct step {
    enum step_kind kind;
    uint32_t source, length, repeat; /* FIRST: length's index; FILL: a number of its own */
    uint32_t beside;                 /* DECODE */
    double *value;                   /* where it goes, and how many are there */
    uint32_t *n;
};

struct values {
    double v[REPEATS_MAX * 2];
    uint32_t n;
};

struct tiers {
    struct bench *b;
    struct lane_engine_config config;
    uint32_t page_tokens, context, pool_pages;
    uint64_t page_bytes, record_bytes;
    uint32_t n_lengths, length[LENGTHS_MAX], repeats, decode_new;
    struct step step[STEPS_MAX];
    uint32_t n_steps, at, serial;
    bool aside;              /* a request beside the decode is under way */
    uint32_t turn, n_asides; /* prompts that are asked for beside decodes: the first fillers */
    uint64_t from_ns;
    uint32_t from_n;
    struct values first[SOURCES][LENGTHS_MAX], decode[BESIDES], cost[2], cost_decode[2], read;
    uint64_t beside_pages; /* restored beside the decodes, and the time that took */
    double beside_s, copy_out, copy_in;
    uint32_t missed; /* measurements whose session was elsewhere than meant */
    struct scratch scratch;
    char folder[SCRATCH_PATH];
    bool direct;
    const char *disk_name;
};

/* ---- scripts ---- */

static void add(struct tiers *t, struct step step, struct values *into) {
    CHECK(t->n_steps < STEPS_MAX);
    if (into != NULL) {
        step.value = into->v;
        step.n = &into->n;
    }
    t->step[t->n_steps++] = step;
}

static void add_first(struct tiers *t, enum source source, uint32_t length, uint32_t repeat) {
    add(t, (struct step){.kind = STEP_FIRST, .source = source, .length = length, .repeat = repeat},
        &t->first[source][length]);
}

/* Prompts that nobody asks for again push all others off the device. */
static void add_fillers(struct tiers *t) {
    uint32_t longest = t->length[t->n_lengths - 1];
    for (uint32_t n = 0; n < t->pool_pages * t->page_tokens; n += longest)
        add(t, (struct step){.kind = STEP_FILL, .repeat = t->serial++}, NULL);
}

static void script_first(struct tiers *t) {
    t->n_steps = 0;
    add(t, (struct step){.kind = STEP_FILL, .repeat = t->serial++}, NULL);
    for (uint32_t r = 0; r < t->repeats; r++) {
        for (uint32_t i = 0; i < t->n_lengths; i++) {
            add_first(t, COLD, i, r);
            add_first(t, DEVICE, i, r);
        }
        add_fillers(t);
        t->n_asides = r == 0 ? t->serial : t->n_asides;
        for (uint32_t i = 0; i < t->n_lengths; i++)
            add_first(t, RAM, i, r);
    }
    for (uint32_t r = 0; r < t->repeats; r++)
        for (uint32_t k = 0; k < BESIDES; k++)
            add(t, (struct step){.kind = STEP_DECODE, .beside = (k + r) % BESIDES},
                &t->decode[(k + r) % BESIDES]);
    add(t, (struct step){.kind = STEP_FLUSH}, NULL);
}

static void script_disk(struct tiers *t) {
    t->n_steps = 0;
    for (uint32_t r = 0; r < t->repeats; r++)
        for (uint32_t i = 0; i < t->n_lengths; i++)
            add_first(t, DISK, i, r);
}

static void script_cost(struct tiers *t, bool with) {
    t->n_steps = 0;
    add(t, (struct step){.kind = STEP_FILL, .repeat = t->serial++}, NULL);
    for (uint32_t r = 0; r < REPEATS_MAX; r++) {
        add(t, (struct step){.kind = STEP_FIRST, .source = SOURCES, .repeat = t->serial++},
            &t->cost[with]);
        add(t, (struct step){.kind = STEP_DECODE, .beside = ALONE}, &t->cost_decode[with]);
    }
}

/* ---- one run of a script ---- */

static void prompt_fill(struct tiers *t, uint32_t lane, uint64_t name, uint32_t n) {
    uint32_t vocab = lane_engine_vocab(t->b->engine);
    uint64_t x = name * 0x9e3779b97f4a7c15u + 1;
    for (uint32_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        t->b->prompt[lane][i] = (uint32_t)((x >> 33) % vocab);
    }
}

static uint64_t name_of(uint32_t length, uint32_t repeat) {
    return 1 + (uint64_t)length * 1000 + repeat;
}

static void submit(struct act_ctx *ctx, struct tiers *t, uint32_t lane, uint64_t name, uint32_t n,
                   uint32_t n_new, uint32_t flags) {
    struct client_call *c = &t->b->call[lane];
    prompt_fill(t, lane, name, n);
    c->request.prompt = t->b->prompt[lane];
    c->request.n_prompt = n;
    c->request.max_tokens = n_new;
    c->request.flags = LANE_NO_TEXT | LANE_IGNORE_EOS | flags;
    c->ids = t->b->ids[lane];
    client_submit(ctx, &t->b->client, c);
}

static void step_begin(struct act_ctx *ctx, struct tiers *t) {
    if (t->at == t->n_steps) {
        client_stop(ctx);
        return;
    }
    const struct step *s = &t->step[t->at];
    uint32_t longest = t->length[t->n_lengths - 1];
    if (t->b->progress)
        fprintf(stderr, "\r\033[Kbench --tiers %u of %u", t->at + 1, t->n_steps);
    switch (s->kind) {
    case STEP_FIRST:
        if (s->source == SOURCES)
            submit(ctx, t, 0, (uint64_t)s->repeat << 32,
                   COST_LENGTH < longest ? COST_LENGTH : longest, 1, 0);
        else
            submit(ctx, t, 0, name_of(s->length, s->repeat), t->length[s->length], 1, 0);
        break;
    case STEP_FILL:
        submit(ctx, t, 0, (uint64_t)s->repeat << 32, longest, 1, 0);
        break;
    case STEP_DECODE:
        t->from_ns = 0;
        submit(ctx, t, 0, ((uint64_t)++t->serial << 32) + 7, DECODE_PROMPT, t->decode_new,
               LANE_NO_REUSE | LANE_NO_KEEP);
        break;
    case STEP_FLUSH:
        ACT_SEND(ctx, lane_engine_memory(t->b->engine), ses, flush, .token = 1);
        break;
    }
}

/* A request beside the decode: in turn more long prompts than the device holds, or always the
 * same one. */
static void beside_begin(struct act_ctx *ctx, struct tiers *t, enum beside kind) {
    uint64_t name = kind == BESIDE_DEVICE ? 0 : t->turn++ % t->n_asides;
    t->aside = true;
    submit(ctx, t, 1, name << 32, t->length[t->n_lengths - 1], 1, 0);
}

static void on_token(struct act_ctx *ctx, struct client *c, struct client_call *call, uint32_t id) {
    (void)id;
    struct bench *b = c->driver.user;
    struct tiers *t = b->user;
    const struct step *s = &t->step[t->at];
    if (call != &b->call[0] || s->kind != STEP_DECODE)
        return;
    if (call->n_new == DECODE_FROM)
        t->from_ns = act_now_ns(ctx);
    if (call->n_new == t->decode_new && t->from_ns != 0) {
        double took = (double)(act_now_ns(ctx) - t->from_ns) * 1e-9;
        s->value[(*s->n)++] = (t->decode_new - DECODE_FROM) / took;
        if (s->beside == BESIDE_TIERS)
            t->beside_s += took;
    }
    if (s->beside != ALONE && !t->aside && call->n_new % BESIDE_EVERY == DECODE_FROM)
        beside_begin(ctx, t, (enum beside)s->beside);
}

static bool is_where_meant(const struct tiers *t, const struct step *s,
                           const struct client_call *c) {
    uint32_t most = c->n_prompt - 1;
    switch (s->source) {
    case COLD:
    case SOURCES:
        return c->n_resumed == 0;
    case DEVICE:
        return c->n_resumed == most && c->from_ram + c->from_disk == 0;
    case RAM: /* some may be on the device still */
        return c->n_resumed == most && c->from_disk == 0 &&
               c->from_ram + t->page_tokens >= most - most / 8;
    default:
        return c->n_resumed == most && c->from_disk == most;
    }
}

static void on_over(struct act_ctx *ctx, struct client *c, struct client_call *call) {
    struct bench *b = c->driver.user;
    struct tiers *t = b->user;
    const struct step *s = &t->step[t->at];
    if (call->end == LANE_END_FAILED || call->refused) {
        client_call_say(call, &b->note);
        b->status = call->status;
        client_stop(ctx);
        return;
    }
    if (call == &b->call[1]) {
        t->aside = false;
        if (s->kind == STEP_DECODE && s->beside == BESIDE_TIERS)
            t->beside_pages += (call->from_ram + call->from_disk) / t->page_tokens;
        if (b->call[0].state != CLIENT_OVER)
            return;
    } else if (s->kind == STEP_FIRST) {
        if (is_where_meant(t, s, call))
            s->value[(*s->n)++] = (double)(call->first_ns - call->submit_ns) * 1e-9;
        else
            t->missed++;
    }
    if (t->aside)
        return; /* the one beside is still under way */
    t->at++;
    step_begin(ctx, t);
}

static void on_other(struct act_ctx *ctx, struct client *c, const struct act_msg *msg) {
    struct bench *b = c->driver.user;
    struct tiers *t = b->user;
    if (msg->kind != ses_KIND_flushed)
        return;
    t->at++;
    step_begin(ctx, t);
}

static void on_start(struct act_ctx *ctx, struct client *c, void *user) {
    (void)c;
    step_begin(ctx, ((struct bench *)user)->user);
}

static enum status run_script(struct tiers *t) {
    struct bench *b = t->b;
    struct client_driver driver = {
        .start = on_start, .token = on_token, .over = on_over, .other = on_other, .user = b};
    b->status = STATUS_OK;
    t->at = 0;
    t->aside = false;
    client_open(&b->client, b->engine, &driver);
    client_run(&b->client);
    return b->status;
}

static void close_engine(struct tiers *t) {
    lane_engine_close(t->b->engine);
    t->b->engine = NULL;
}

/* with: tiers below the device. */
static enum status open_engine(struct tiers *t, bool with) {
    struct lane_engine_config c = t->config;
    if (!with) {
        c.ram_cache = 0;
        c.disk_cache = NULL;
    }
    TRY(loading_engine(&c, options_has(&t->b->o, OPT_quiet), &t->b->engine, &t->b->note));
    return bench_alloc(t->b, 2);
}

/* ---- the disk by itself ---- */

struct reader {
    struct ses_disk *disk;
    struct ses_disk_op op[READ_DEPTH];
    unsigned char *bytes;
    uint64_t block, done;
    int error;
};

static void reap(struct reader *r, uint32_t *free_op, uint32_t *n_free) {
    struct ses_disk_op *op = r->disk->ops->wait(r->disk);
    if (op->result == (int64_t)r->block)
        r->done += r->block;
    else if (op->result < 0)
        r->error = (int)-op->result;
    free_op[(*n_free)++] = (uint32_t)(op - r->op);
}

static void read_file(struct reader *r, const char *path) {
    uint32_t free_op[READ_DEPTH], n_free = READ_DEPTH;
    for (uint32_t i = 0; i < READ_DEPTH; i++)
        free_op[i] = i;
    int fd = r->disk->ops->open(r->disk, path);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    for (uint64_t at = 0; at + r->block <= (uint64_t)size; at += r->block) {
        if (n_free == 0)
            reap(r, free_op, &n_free);
        struct ses_disk_op *op = &r->op[free_op[--n_free]];
        *op = (struct ses_disk_op){.kind = SES_DISK_READ,
                                   .fd = fd,
                                   .offset = at,
                                   .part = {{r->bytes + (size_t)(op - r->op) * r->block, r->block}},
                                   .n_parts = 1};
        r->disk->ops->submit(r->disk, op);
    }
    while (n_free < READ_DEPTH)
        reap(r, free_op, &n_free);
    if (fd >= 0)
        close(fd);
}

/* The segments from front to back, a record at a time, as many under way as the store has. */
static enum status read_rate(struct tiers *t) {
    struct reader r = {.block = t->record_bytes};
    void *bytes = NULL;
    char path[4096 + 32];
    TRY(ses_disk_open(&r.disk, &t->b->note));
    if (posix_memalign(&bytes, SES_DISK_BLOCK, READ_DEPTH * r.block) != 0) {
        r.disk->ops->close(r.disk);
        return status_say(&t->b->note, STATUS_NO_MEMORY, "no memory to read segments");
    }
    r.bytes = bytes;
    memset(bytes, 0, READ_DEPTH * r.block);
    uint64_t begun = loading_now_ns();
    for (uint32_t n = 1; n < 100000; n++) {
        snprintf(path, sizeof path, "%s/segment-%05u", t->folder, n);
        if (access(path, R_OK) != 0)
            break;
        read_file(&r, path);
    }
    double s = (double)(loading_now_ns() - begun) * 1e-9;
    t->disk_name = r.disk->name;
    t->direct = r.disk->direct;
    r.disk->ops->close(r.disk);
    free(bytes);
    if (r.error != 0)
        return status_say(&t->b->note, STATUS_IO, "%s cannot be read: %s", t->folder,
                          strerror(r.error));
    if (r.done > 0)
        t->read.v[t->read.n++] = (double)r.done / s;
    return STATUS_OK;
}

/* ---- what comes of it ---- */

static double median_of(struct values *v) {
    return v->n > 0 ? bench_median(v->v, v->n) : 0;
}

static json_t *lengths_json(struct tiers *t) {
    json_t *rows = json_array();
    for (uint32_t i = 0; i < t->n_lengths; i++) {
        json_t *row = json_pack("{s:i}", "tokens", (int)t->length[i]);
        for (uint32_t k = 0; k < SOURCES; k++)
            if (t->first[k][i].n > 0)
                json_object_set_new(row, source_names[k], json_real(median_of(&t->first[k][i])));
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *result(struct tiers *t, const char *title) {
    uint32_t last = t->n_lengths - 1;
    double alone = median_of(&t->decode[ALONE]), read = median_of(&t->read);
    double round = alone > 0 ? 1 / alone : 0, disk = median_of(&t->first[DISK][last]);
    double pages = (double)((t->length[last] - 1 + t->page_tokens - 1) / t->page_tokens);
    double bytes = pages * (double)t->record_bytes, bound = read > 0 ? bytes / read + round : 0;
    double ram = median_of(&t->first[RAM][last]);
    return json_pack(
        "{s:s, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
        "s:I, s:s, s:b, s:i}",
        "title", title, "first_token_s", lengths_json(t), "decode_round_s", round, "read_B_s", read,
        "restore_B_s", disk > round ? bytes / (disk - round) : 0.0, "restore_share",
        disk > round && read > 0 ? bytes / (disk - round) / read : 0.0, "disk_bound_s", bound,
        "disk_over_bound", bound > 0 ? disk / bound : 0.0, "ram_B_s",
        ram > round ? pages * (double)t->page_bytes / (ram - round) : 0.0, "copy_out_B_s",
        t->copy_out, "copy_in_B_s", t->copy_in, "decode_alone", alone, "decode_beside_device",
        median_of(&t->decode[BESIDE_DEVICE]), "decode_beside_tiers",
        median_of(&t->decode[BESIDE_TIERS]), "beside_B_s",
        t->beside_s > 0 ? (double)(t->beside_pages * t->page_bytes) / t->beside_s : 0.0,
        "cost_first", t->cost[0].n > 0 ? median_of(&t->cost[1]) / median_of(&t->cost[0]) - 1 : 0.0,
        "cost_decode",
        t->cost_decode[0].n > 0 ? median_of(&t->cost_decode[0]) / median_of(&t->cost_decode[1]) - 1
                                : 0.0,
        "page_bytes", (json_int_t)t->page_bytes, "disk", t->disk_name != NULL ? t->disk_name : "",
        "direct", t->direct, "missed", (int)t->missed);
}

static double real_of(const json_t *j, const char *name) {
    return json_number_value(json_object_get(j, name));
}

static void print(const json_t *j) {
    size_t i;
    json_t *row;
    printf("bench --tiers: %s\n\nfirst token, ms   computed   from disk    from RAM   on device\n",
           json_string_value(json_object_get(j, "title")));
    json_array_foreach(json_object_get(j, "first_token_s"), i, row) printf(
        "%6lld tokens   %10.2f  %10.2f  %10.2f  %10.2f\n",
        (long long)json_integer_value(json_object_get(row, "tokens")), real_of(row, "cold") * 1e3,
        real_of(row, "disk") * 1e3, real_of(row, "ram") * 1e3, real_of(row, "device") * 1e3);
    printf("\nrestore from disk    %7.2f GB/s: %.0f %% of a sequential read's %.2f (%s%s)\n",
           real_of(j, "restore_B_s") / 1e9, real_of(j, "restore_share") * 100,
           real_of(j, "read_B_s") / 1e9, json_string_value(json_object_get(j, "disk")),
           json_is_true(json_object_get(j, "direct")) ? ", past the page cache" : "");
    printf("first from disk      %7.2f ms at best: %.2fx of that\n",
           real_of(j, "disk_bound_s") * 1e3, real_of(j, "disk_over_bound"));
    printf("restore from RAM     %7.2f GB/s; pages alone %.2f GB/s out, %.2f GB/s in\n",
           real_of(j, "ram_B_s") / 1e9, real_of(j, "copy_out_B_s") / 1e9,
           real_of(j, "copy_in_B_s") / 1e9);
    double alone = real_of(j, "decode_alone"), device = real_of(j, "decode_beside_device");
    printf("decode               %7.0f tok/s alone, %.0f beside hits on the device, %.0f beside "
           "%.2f GB/s of parking and restoring: %.1f %% of that, %.1f %% of alone\n",
           alone, device, real_of(j, "decode_beside_tiers"), real_of(j, "beside_B_s") / 1e9,
           device > 0 ? real_of(j, "decode_beside_tiers") / device * 100 : 0.0,
           alone > 0 ? real_of(j, "decode_beside_tiers") / alone * 100 : 0.0);
    printf("cost without hits    %+7.2f %% of the first token, %+.2f %% of a decode\n",
           real_of(j, "cost_first") * 100, real_of(j, "cost_decode") * 100);
    if (json_integer_value(json_object_get(j, "missed")) > 0)
        printf("%lld measurements found their session elsewhere than meant and do not count\n",
               (long long)json_integer_value(json_object_get(j, "missed")));
}

/* ---- all of it ---- */

static enum status make_folder(struct tiers *t) {
    const char *tmp = getenv("TMPDIR");
    const char *base = options_text(&t->b->o, OPT_disk_cache, tmp != NULL ? tmp : "/var/tmp");
    TRY(scratch_make(&t->scratch, base, "bench", &t->b->note));
    snprintf(t->folder, sizeof t->folder, "%s", t->scratch.folder);
    return STATUS_OK;
}

/* Sizes: a device for little more than one long session, host memory for everything that is asked,
 * a disk for the same. */
static void size_all(struct tiers *t) {
    struct bench *b = t->b;
    t->context = lane_engine_context(b->engine);
    t->page_tokens = lane_engine_counters(b->engine)->page_tokens;
    t->page_bytes = lane_engine_page_bytes(b->engine);
    uint64_t host = (t->page_bytes + SES_DISK_BLOCK - 1) / SES_DISK_BLOCK * SES_DISK_BLOCK;
    t->record_bytes = host + SES_DISK_BLOCK;
    uint32_t most = t->context - 1 < LENGTH_MOST ? t->context - 1 : LENGTH_MOST;
    for (uint32_t n = LENGTH_LEAST; n < most && t->n_lengths < LENGTHS_MAX - 1; n *= 2)
        if (n + n / 2 < most)
            t->length[t->n_lengths++] = n;
    t->length[t->n_lengths++] = most;
    t->pool_pages = (most + most / 4) / t->page_tokens + 16;
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < t->n_lengths; i++)
        tokens += t->length[i] + t->page_tokens;
    tokens = (tokens + 3 * (uint64_t)most) * t->repeats + 2 * (uint64_t)most;
    uint64_t pages = tokens / t->page_tokens + 256;
    t->config.kv_bytes = t->pool_pages * t->page_bytes;
    t->config.kv_percent = 0;
    t->config.ram_cache = pages * host;
    t->config.disk_cache = t->folder;
    t->config.disk_budget = pages * t->record_bytes + (pages * t->record_bytes) / 2;
    t->config.disk_floor = 0;
}

static enum status measure(struct tiers *t) {
    TRY(open_engine(t, true));
    lane_engine_copy_rates(t->b->engine, &t->copy_out, &t->copy_in);
    script_first(t);
    TRY(run_script(t));
    close_engine(t);
    TRY(read_rate(t));
    TRY(open_engine(t, true));
    script_disk(t);
    TRY(run_script(t));
    close_engine(t);
    TRY(read_rate(t));
    for (uint32_t i = 0; i < (t->repeats > 1 ? 4u : 2u); i++) {
        bool with = i % 2 == 0;
        t->cost[with].n = t->cost[with].n > REPEATS_MAX ? REPEATS_MAX : t->cost[with].n;
        t->cost_decode[with].n = t->cost[with].n;
        TRY(open_engine(t, with));
        script_cost(t, with);
        TRY(run_script(t));
        if (i + 1 < (t->repeats > 1 ? 4u : 2u))
            close_engine(t);
    }
    return STATUS_OK;
}

static enum status write_svg(struct bench *b, const json_t *j) {
    const char *path = options_text(&b->o, OPT_svg, NULL);
    if (path == NULL)
        return STATUS_OK;
    struct output file;
    TRY(output_open(&file, path, &b->note));
    bench_svg(file.f, j);
    return output_close(&file, true, &b->note);
}

/* Dimensions without files instead of a model. */
static enum status take_shape(struct tiers *t) {
    struct bench *b = t->b;
    if (!options_has(&b->o, OPT_shape))
        return STATUS_OK;
    if (options_has(&b->o, OPT_model))
        return status_say(&b->note, STATUS_BAD_REQUEST,
                          "--shape takes the place of --model: leave one out");
    TRY(options_u64(&b->o, OPT_seed, 0, UINT64_MAX, false, &b->seed, &b->note));
    t->config.model_path = NULL;
    t->config.shape = options_text(&b->o, OPT_shape, "");
    t->config.seed = b->seed;
    if (!options_has(&b->o, OPT_context))
        t->config.context = SHAPE_CONTEXT;
    return STATUS_OK;
}

static enum status tiers_all(struct tiers *t) {
    struct bench *b = t->b;
    float seconds = 20.0f;
    char title[256];
    TRY(options_engine(&b->o, &t->config, &b->note));
    TRY(options_float(&b->o, OPT_seconds, 0.1f, 1e6f, &seconds, &b->note));
    TRY(output_writable(options_text(&b->o, OPT_svg, NULL), &b->note));
    TRY(take_shape(t));
    TRY(make_folder(t));
    t->repeats = seconds >= 10 ? 5 : seconds >= 5 ? 3 : 1;
    t->decode_new = t->repeats > 1 ? DECODE_LONG : DECODE_LONG / 4;
    t->config.disk_cache = NULL;
    t->config.ram_cache = 0;
    TRY(loading_engine(&t->config, options_has(&b->o, OPT_quiet), &b->engine, &b->note));
    size_all(t);
    const char *model = options_text(&b->o, OPT_shape, options_text(&b->o, OPT_model, "fable-5m"));
    const char *slash = strrchr(model, '/');
    snprintf(title, sizeof title, "%s, profile %s, %s: %s", slash != NULL ? slash + 1 : model,
             lane_engine_profile(b->engine)->name, lane_engine_device_name(b->engine),
             lane_engine_device_words(b->engine));
    close_engine(t);
    TRY(measure(t));
    if (b->progress)
        fprintf(stderr, "\r\033[K");
    json_t *j = result(t, title);
    enum status s = write_svg(b, j);
    if (s == STATUS_OK)
        s = bench_write(b, j, print);
    json_decref(j);
    return s;
}

enum status bench_tiers(struct bench *b) {
    struct tiers *t = calloc(1, sizeof *t);
    if (t == NULL)
        return status_say(&b->note, STATUS_NO_MEMORY, "no memory for bench");
    t->b = b;
    b->user = t;
    enum status s = tiers_all(t);
    lane_engine_close(b->engine); /* before its directory goes */
    b->engine = NULL;
    scratch_remove(&t->scratch);
    free(t);
    return s;
}
