/* SPDX-License-Identifier: Apache-2.0
 * The process dies, or the power goes, at every point of the disk's work while a session is taken
 * in from a file, and while one is read out into a file. The next start finds the whole session or
 * right pages from its beginning on, all of it once it was said to be pinned, and takes the file
 * again; the other session of the store is as it was; and what was begun takes no room for ever.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/device.h"
#include "lanes/engine.h"
#include "lanes/protocol.h"
#include "sessions/export.h"
#include "sessions/query.h"
#include "sessions/reserve.h"
#include "tests/sessions/expect.h"
#include "tests/sessions/fake_disk.h"
#include "tests/sim/life.h"

enum { PAGE = 8, CONTEXT = 256, VOCAB = 200, TALE = 61, OTHER = 45, NEW = 3 };
enum { FILE_MAX = 64 << 10, PIECE = 250, SEGMENT = 5 * 8192, BUDGET = 24 * SEGMENT };
enum { LATER_NS = 200000, TRIES_MAX = 2000 };

enum step { TELL_OTHER = 1, TELL_TALE, LOOK, READ, SEND, PIN, FORGET, FORGET_ALL, REST, DRAIN };

/* Outlives a child that is killed. */
static struct shared {
    bool pinned, whole;
    uint64_t n_read;
    unsigned char read[FILE_MAX];
} * shared;

static unsigned char file[FILE_MAX];
static uint64_t file_bytes;
static char folder[64];
static uint32_t tale_tokens; /* that were found after the last cut */

static struct life {
    struct lane_engine *engine;
    const enum step *step;
    bool child;
    struct lane_request r;
    uint32_t prompt[CONTEXT], n;
    uint32_t resumed, from_disk; /* of the last request */
    uint32_t other_from_disk;
    struct ses_query query;
    struct ses_row other, tale;             /* as the last list has them; no tokens: not there */
    struct ses_row other_found, tale_found; /* as the step LOOK had them */
    uint32_t rows, rows_found;
    uint64_t at; /* of the file that is read or sent */
    uint32_t tries;
    bool forgot, drained;
    struct ses_store_counts counts;
} w;

/* ---- the client: one step after the other ---- */

static void tell(struct act_ctx *ctx, uint32_t word, uint32_t n, uint32_t n_new) {
    for (w.n = 0; w.n < n; w.n++)
        w.prompt[w.n] = 2 + (w.n * w.n * 7 + word) % (VOCAB - 2);
    w.r = (struct lane_request){.id = word,
                                .client = act_self(ctx),
                                .prompt = w.prompt,
                                .n_prompt = n,
                                .max_tokens = n_new,
                                .flags = LANE_NO_TEXT | LANE_IGNORE_EOS,
                                .sampling = {.top_p = 1.0f, .repetition = 1.0f}};
    ACT_SEND(ctx, lane_engine_planner(w.engine), lane, submit, .request = &w.r);
}

static void ask(struct act_ctx *ctx, enum ses_query_kind kind, const struct ses_name *name) {
    w.query.kind = kind;
    w.query.from = 0;
    if (name != NULL)
        w.query.name = *name;
    if (kind == SES_QUERY_EXPORT || kind == SES_QUERY_IMPORT)
        w.query.from = w.at;
    if (kind == SES_QUERY_IMPORT) {
        w.query.n_in = file_bytes - w.at < PIECE ? (uint32_t)(file_bytes - w.at) : PIECE;
        memcpy(w.query.bytes, file + w.at, w.query.n_in);
    }
    ACT_SEND(ctx, lane_engine_memory(w.engine), ses, look, .query = &w.query);
}

static void do_step(struct act_ctx *ctx) {
    static const struct ses_name import = {{1, 7}};
    switch (*w.step) {
    case TELL_OTHER:
        tell(ctx, 90, OTHER, 1);
        break;
    case TELL_TALE:
        tell(ctx, 11, TALE, w.step[1] == FORGET ? NEW : 1);
        break;
    case READ:
        ask(ctx, SES_QUERY_EXPORT, &w.tale.name);
        break;
    case SEND:
        ask(ctx, SES_QUERY_IMPORT, &import);
        break;
    case PIN:
        ask(ctx, SES_QUERY_PIN, &w.tale.name);
        break;
    case FORGET: /* all but the other one */
    case FORGET_ALL:
    case LOOK:
        ask(ctx, SES_QUERY_LIST, NULL);
        break;
    case REST: /* the store's mailbox is in no order with a stop */
        act_timer_arm(ctx, LATER_NS, 0);
        break;
    case DRAIN:
        ACT_SEND(ctx, lane_engine_planner(w.engine), lane, drain, .deadline_ns = 1000000000);
        break;
    default:
        act_rt_stop(act_rt_of(ctx));
    }
}

static void go_on(struct act_ctx *ctx) {
    w.at = 0;
    w.tries = 0;
    w.step++;
    do_step(ctx);
}

static void listed(const struct ses_query *q) {
    w.other = w.tale = (struct ses_row){.tokens = 0};
    for (uint32_t i = 0; i < q->n; i++)
        if (q->row[i].tokens == OTHER)
            w.other = q->row[i];
        else if (q->row[i].tokens > w.tale.tokens)
            w.tale = q->row[i];
    w.rows = q->n;
    if (*w.step != LOOK)
        return;
    w.other_found = w.other;
    w.tale_found = w.tale;
    w.rows_found = w.rows;
}

/* True: the same again, at once. */
static bool carried(const struct ses_query *q) {
    if (q->kind == SES_QUERY_IMPORT) {
        EXPECT(q->next > w.at || q->done);
        w.at = q->next;
        EXPECT_EQ(q->done, w.at == file_bytes);
        return !q->done;
    }
    EXPECT(q->n > 0 && w.at + q->n <= FILE_MAX && q->size <= FILE_MAX);
    memcpy(shared->read + w.at, q->bytes, q->n);
    w.at += q->n;
    shared->n_read = w.at;
    shared->whole = w.at == q->size;
    return !shared->whole;
}

static void later(struct act_ctx *ctx) {
    EXPECT(++w.tries < TRIES_MAX);
    act_timer_arm(ctx, LATER_NS, 0);
}

/* What a request computed may come into the list after its end. */
static void on_list(struct act_ctx *ctx, const struct ses_query *q) {
    listed(q);
    if ((w.tale.tokens < TALE && w.step[1] == READ) ||
        (w.tale.tokens == 0 && *w.step == FORGET && !w.forgot))
        later(ctx);
    else if (*w.step == FORGET && w.tale.tokens > 0)
        ask(ctx, SES_QUERY_FORGET, &w.tale.name);
    else if (*w.step == FORGET_ALL && w.rows > 0)
        ask(ctx, SES_QUERY_FORGET, w.tale.tokens > 0 ? &w.tale.name : &w.other.name);
    else
        go_on(ctx);
}

static void looked(struct act_ctx *ctx, const struct ses_query *q) {
    bool again = false;
    bool went_on = q->kind == SES_QUERY_FORGET && q->status == STATUS_NOT_FOUND;
    if (q->status == STATUS_AGAIN || went_on) {
        later(ctx);
        return;
    }
    EXPECT_FINE(q->status == STATUS_OK, q->note);
    switch (q->kind) {
    case SES_QUERY_LIST:
        on_list(ctx, q);
        return;
    case SES_QUERY_FORGET:
        again = w.forgot = true;
        break;
    case SES_QUERY_PIN:
        shared->pinned = true;
        break;
    default:
        again = carried(q);
        if (q->done)
            w.tale.name = q->made;
    }
    if (again)
        do_step(ctx);
    else
        go_on(ctx);
}

static void client_receive(struct act_ctx *ctx, void *state, const struct act_msg *msg) {
    (void)state;
    const void *b = msg->body;
    if (w.child && fake_disk_dead())
        _exit(0); /* the power is gone */
    switch (msg->kind) {
    case ACT_KIND_start:
        do_step(ctx);
        break;
    case ACT_KIND_timer:
        if (*w.step == REST)
            go_on(ctx);
        else
            do_step(ctx);
        break;
    case lane_KIND_started:
        if (*w.step == TELL_OTHER)
            w.other_from_disk = ((const struct lane_started *)b)->from_disk;
        w.resumed = ((const struct lane_started *)b)->n_resumed;
        w.from_disk = ((const struct lane_started *)b)->from_disk;
        break;
    case lane_KIND_token: {
        uint32_t id = ((const struct lane_token *)b)->id;
        EXPECT_EQ(id, gpu_fake_draw(w.prompt, w.n, 0, VOCAB));
        w.prompt[w.n++] = id;
        break;
    }
    case lane_KIND_ended:
        EXPECT_EQ(((const struct lane_ended *)b)->end, LANE_END_LENGTH);
        go_on(ctx);
        break;
    case ses_KIND_looked:
        looked(ctx, ((const struct ses_looked *)b)->query);
        break;
    case lane_KIND_drained:
        w.drained = true;
        go_on(ctx);
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
    default:
        break;
    }
}

static const struct act_kind client_kind = {.name = "client", .receive = client_receive};

/* A server's life on the folder. */
static void live(uint64_t seed, const enum step *steps) {
    bool child = w.child;
    memset(&w, 0, sizeof w);
    w.child = child;
    w.step = steps;
    struct act_rt *rt;
    struct status_note note = {{0}};
    EXPECT_FINE(life_runtime(seed, 4096, &rt, &note) == STATUS_OK, note);
    struct lane_engine_config c = {.fake = true,
                                   .fake_vocab = VOCAB,
                                   .fake_context = CONTEXT,
                                   .fake_step_ns = 20000,
                                   .rt = rt,
                                   .seed = 1,
                                   .world = 1,
                                   .kv_bytes = (uint64_t)PAGE * 60,
                                   .page_tokens = PAGE,
                                   .ram_cache = (uint64_t)PAGE * 40,
                                   .disk_cache = folder,
                                   .disk = fake_disk_open(),
                                   .disk_segment = SEGMENT,
                                   .disk_budget = BUDGET,
                                   .lanes_max = 2,
                                   .queue_max = 4};
    enum status opened = lane_engine_open(&c, &w.engine, &note);
    if (opened != STATUS_OK && w.child && fake_disk_dead())
        _exit(0);
    EXPECT_FINE(opened == STATUS_OK, note);
    if (w.child && seed % 2 == 0) /* what is asked meanwhile is answered before it is done */
        act_sim_fault_set(rt, "ses.disk_slow", 1000000, 1000000, 1000000);
    act_spawn(rt, &client_kind, NULL, 0);
    act_rt_run(rt);
    EXPECT_FINE(lane_engine_audit(w.engine, &note), note);
    EXPECT(*w.step == 0);
    act_rt_close(rt);
    lane_engine_store_counts(w.engine, &w.counts);
    lane_engine_close(w.engine);
}

/* ---- the sweep ---- */

static uint64_t bytes_on_disk(void) {
    char path[400];
    struct stat s;
    uint64_t sum = 0;
    DIR *d = opendir(folder);
    EXPECT(d != NULL);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strncmp(e->d_name, "segment-", 8) == 0 && stat(path, &s) == 0)
            sum += (uint64_t)s.st_size;
    }
    closedir(d);
    return sum;
}

static void no_faults(uint64_t seed) {
    const struct fake_disk_faults none = {.seed = seed};
    fake_disk_set(&none);
}

static void world_begin(void) {
    if (shared == NULL)
        shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(shared != MAP_FAILED);
    strcpy(folder,
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/rh-carry-XXXXXX" : "/tmp/rh-carry-XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
}

static void world_end(void) {
    fake_disk_clear(folder);
    rmdir(folder);
}

/* The steps in a child that ends at that point of the disk's work; false: it came to its end. */
static bool cut_off(const enum step *steps, uint64_t seed, uint64_t at, bool kill_it) {
    memset(shared, 0, sizeof *shared);
    fflush(stdout);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        const struct fake_disk_faults faults = {
            .seed = seed * 1000 + at, .cut_at = at, .kill = kill_it};
        setenv(EXPECT_CHILD, "1", 1);
        fake_disk_set(&faults);
        w.child = true;
        live(seed, steps);
        _exit(fake_disk_dead() ? 0 : 2);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && kill_it;
    bool dark = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !kill_it;
    bool over = WIFEXITED(status) && WEXITSTATUS(status) == 2;
    if (!killed && !dark && !over)
        ck_abort_msg("the child ended with %d at point %llu", status, (unsigned long long)at);
    return !over;
}

/* Nothing was harmed, and what can be resumed of the tale is right; true: all of it is there. */
static bool look_after(uint64_t at, bool sends) {
    static const enum step look[] = {LOOK,       TELL_OTHER, TELL_TALE, FORGET,
                                     FORGET_ALL, REST,       DRAIN,     0};
    static const enum step send[] = {LOOK,       SEND, TELL_OTHER, TELL_TALE, FORGET,
                                     FORGET_ALL, REST, DRAIN,      0};
    static const enum step nothing[] = {LOOK, DRAIN, 0};
    no_faults(at);
    live(at, sends ? send : look);
    const struct ses_row *tale = &w.tale_found, *other = &w.other_found;
    bool whole = tale->tokens == TALE;
    EXPECT(other->tokens == OTHER && other->on_disk == other->pages);
    EXPECT(tale->on_disk == tale->pages && tale->tokens <= TALE);
    EXPECT(tale->tokens % PAGE == 0 || whole);
    EXPECT_EQ(w.rows_found, tale->tokens > 0 ? 2 : 1);
    EXPECT(whole || !shared->pinned);
    uint32_t there = sends || whole ? TALE - 1 : tale->tokens;
    EXPECT_EQ(w.resumed, there);
    EXPECT(sends || w.from_disk == there);
    EXPECT_EQ(w.other_from_disk, OTHER - 1);
    EXPECT(w.drained && w.forgot && w.rows == 0);
    const struct ses_store_counts *c = &w.counts;
    EXPECT_EQ(c->bad_header + c->bad_sum + c->short_reads + c->lost_segments + c->bad_entries, 0);
    EXPECT_EQ(c->dropped + c->rebuilt + c->io_errors + c->refused, 0);
    tale_tokens = tale->tokens;
    live(at, nothing); /* and what was begun takes no room */
    EXPECT_EQ(w.rows_found, 0);
    EXPECT_EQ(bytes_on_disk(), 0);
    return whole;
}

/* The file, from a store of its own. */
static void make_file(void) {
    static const enum step steps[] = {TELL_TALE, LOOK, READ, DRAIN, 0};
    world_begin();
    no_faults(1);
    live(1, steps);
    EXPECT(shared->whole);
    file_bytes = shared->n_read;
    memcpy(file, shared->read, file_bytes);
}

static struct swept { uint64_t points, wholes, parts, nothing, pinned, files; } sum;

/* A store with the other session only. */
static void world_anew(void) {
    static const enum step other[] = {TELL_OTHER, DRAIN, 0};
    fake_disk_clear(folder);
    no_faults(1);
    w.child = false;
    live(1, other);
}

/* One execution of the steps, cut off at each of its points. */
static void sweep(const enum step *steps, uint64_t seed, bool kill_it, bool reads) {
    uint64_t at = 1;
    for (world_anew(); cut_off(steps, seed, at, kill_it); world_anew(), at++) {
        if (reads && shared->whole) { /* what was read is a file, whatever came then */
            EXPECT_EQ(shared->n_read, file_bytes);
            memcpy(file, shared->read, file_bytes);
        }
        bool whole = look_after(at, reads ? shared->whole : at % 2 == 0);
        sum.wholes += whole;
        sum.parts += !whole && tale_tokens > 0;
        sum.nothing += tale_tokens == 0;
        sum.pinned += shared->pinned;
        sum.files += shared->whole;
    }
    EXPECT(look_after(0, false));
    sum.points += at - 1;
}

static void sweep_all(const enum step *steps, bool reads) {
    memset(&sum, 0, sizeof sum);
    make_file();
    for (uint64_t seed = 1; seed <= 2; seed++) {
        sweep(steps, seed, true, reads);
        sweep(steps, seed, false, reads);
    }
    world_end();
    printf("%llu points: whole after %llu, a part after %llu; pinned before %llu\n",
           (unsigned long long)sum.points, (unsigned long long)sum.wholes,
           (unsigned long long)sum.parts, (unsigned long long)sum.pinned);
    EXPECT(sum.points > 80 && sum.parts > 10 && sum.nothing > 10 && sum.wholes > 4);
}

START_TEST(taking_in) {
    static const enum step steps[] = {SEND, PIN, TELL_OTHER, REST, DRAIN, 0};
    sweep_all(steps, false);
    EXPECT(sum.pinned > 4);
}
END_TEST

START_TEST(reading_out) {
    static const enum step steps[] = {TELL_TALE, LOOK, READ, PIN, TELL_OTHER, REST, DRAIN, 0};
    sweep_all(steps, true);
    EXPECT(sum.files > 10);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sim/carry_killed");
    TCase *tc = tcase_create("carry_killed");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, taking_in);
    tcase_add_test(tc, reading_out);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
