/* SPDX-License-Identifier: Apache-2.0
 * The graph cache: a replay leaves the same bits as a launch, every failure ends in an eager step
 * with nothing lost, pressure and leases are seen on hits, and settings mean what they say.
 */
#include "gpu/graphs.h"

#include <pthread.h>

#include "gpu/launch.h"
#include "tests/gpu/fake_rig.h"

enum { MIB = 1 << 20 };

/* A step: two kernels over values that lie at fixed addresses: plan[0] changes each step. */
struct bench {
    struct rig rig;
    struct gpu_launcher *launcher;
    struct gpu_arena *arena;
    struct gpu_leases *leases;
    struct gpu_graphs *g;
    struct gpu_work work;
    gpu_mem_t plan, state;
    uint64_t *pinned;
    uint64_t expected, number;
    uint64_t frozen; /* an argument that the test changes, as no device may */
    enum gpu_graph_run last;
    void (*inside)(struct bench *b); /* a test's act within a capture */
};

static void begin(struct bench *b, const struct gpu_fake_config *fake, uint32_t max, uint64_t low,
                  uint64_t high, uint32_t sample) {
    memset(b, 0, sizeof *b);
    rig_begin(&b->rig, fake);
    struct gpu_launcher_config lc = {
        .driver = b->rig.d, .images = rig_images, .n_images = 2, .work = &b->work};
    struct gpu_arena_config ac = {.driver = b->rig.d, .poison = true, .s = b->rig.b};
    ck_assert_int_eq(gpu_launcher_open(&lc, &b->launcher, &b->rig.note), STATUS_OK);
    ck_assert_int_eq(gpu_arena_open(&ac, &b->arena, &b->rig.note), STATUS_OK);
    ck_assert_int_eq(gpu_leases_open(b->arena, &b->leases, &b->rig.note), STATUS_OK);
    struct gpu_graphs_config gc = {.driver = b->rig.d,
                                   .stream = b->rig.a,
                                   .leases = b->leases,
                                   .work = &b->work,
                                   .settings = gpu_graph_settings(max),
                                   .low_bytes = low,
                                   .high_bytes = high,
                                   .sample = sample};
    ck_assert_int_eq(gpu_graphs_open(&gc, &b->g, &b->rig.note), STATUS_OK);
    ck_assert_int_eq(gpu_arena_alloc(b->arena, 4096, "plan", &b->plan, &b->rig.note), STATUS_OK);
    ck_assert_int_eq(gpu_arena_alloc(b->arena, 4096, "state", &b->state, &b->rig.note), STATUS_OK);
    void *pinned;
    RIG_OK(b->rig.d->host_alloc(&pinned, 4096, 0));
    b->pinned = pinned;
    memset((void *)(uintptr_t)gpu_arena_at(b->arena, b->state), 0, 4096);
}

static void end(struct bench *b) {
    gpu_graphs_close(b->g);
    gpu_leases_close(b->leases);
    RIG_OK(b->rig.d->host_free(b->pinned));
    gpu_arena_close(b->arena);
    gpu_launcher_close(b->launcher);
    rig_end(&b->rig);
}

static enum status launch(struct bench *b) {
    struct rig_args args = {gpu_arena_at(b->arena, b->plan), gpu_arena_at(b->arena, b->state),
                            b->frozen};
    struct krn_cuda_call call = {.kernel = "rig_add",
                                 .grid = {1, 1, 1},
                                 .block = {32, 1, 1},
                                 .args_bytes = sizeof args,
                                 .args = &args};
    enum status s = gpu_launch(b->launcher, b->rig.a, &call, &b->rig.note);
    if (b->inside != NULL)
        b->inside(b);
    call.kernel = "rig_other";
    return s != STATUS_OK ? s : gpu_launch(b->launcher, b->rig.a, &call, &b->rig.note);
}

/* One step, as a device makes it; value goes to the plan's fixed address. */
static enum status step(struct bench *b, uint64_t key, enum gpu_graph_order order, uint64_t value) {
    const gpu_mem_t baked[] = {b->plan, b->state};
    b->work.plan = ++b->number;
    b->pinned[0] = value;
    RIG_OK(b->rig.d->copy_in(gpu_arena_at(b->arena, b->plan), b->pinned, 8, b->rig.a));
    enum status s = STATUS_AGAIN;
    b->last = gpu_graphs_begin(b->g, key, order);
    if (b->last == GPU_GRAPHS_REPLAY)
        s = gpu_graphs_replay(b->g, &b->rig.note);
    else if (b->last == GPU_GRAPHS_CAPTURE)
        s = gpu_graphs_end(b->g, launch(b), baked, 2, &b->rig.note);
    b->inside = NULL;
    if (s == STATUS_AGAIN)
        s = launch(b);
    b->expected = (b->expected * 3 + value) * 3 + value;
    return s;
}

/* The step ran, once, whatever way it took. */
static void stepped(struct bench *b, uint64_t key, enum gpu_graph_order order, uint64_t value) {
    ck_assert_int_eq(step(b, key, order, value), STATUS_OK);
    ck_assert_uint_eq(*(uint64_t *)(uintptr_t)gpu_arena_at(b->arena, b->state), b->expected);
    int state;
    RIG_OK(b->rig.d->capture_state(b->rig.a, &state));
    ck_assert_int_eq(state, GPU_CU_CAPTURING_NOT);
}

static void said(struct bench *b, uint64_t key, enum gpu_graph_word word) {
    struct gpu_graph_said v;
    ck_assert(gpu_graphs_vote(b->g, &v));
    ck_assert_uint_eq(v.key, key);
    ck_assert_str_eq(gpu_graph_word_name(v.word), gpu_graph_word_name(word));
}
static void said_nothing(struct bench *b) {
    struct gpu_graph_said v;
    ck_assert(!gpu_graphs_vote(b->g, &v));
}

/* Reserves and captures a key. */
static void capture(struct bench *b, uint64_t key) {
    stepped(b, key, GPU_GRAPH_ASK, key);
    said(b, key, GPU_GRAPH_ROOM);
    stepped(b, key, GPU_GRAPH_CAPTURE, key + 1);
    ck_assert_int_eq(b->last, GPU_GRAPHS_CAPTURE);
    said(b, key, GPU_GRAPH_CAPTURED);
    said_nothing(b);
}

static const struct gpu_fake_config plain = {0};

START_TEST(test_replayed_is_eager) {
    /* The same values by launches and by replays; what changes lies on the device, and a host value
     * that was frozen is seen to be one. */
    struct bench b;
    begin(&b, &plain, 48, 0, 0, 0);
    stepped(&b, 0, GPU_GRAPH_NONE, 3);
    stepped(&b, 7, GPU_GRAPH_NONE, 4);
    capture(&b, 7);
    for (uint64_t i = 0; i < 20; i++) {
        uint64_t launches = gpu_fake_calls("launch");
        stepped(&b, 7, GPU_GRAPH_LIVE, i * i);
        ck_assert_int_eq(b.last, GPU_GRAPHS_REPLAY);
        ck_assert_uint_eq(gpu_fake_calls("launch"), launches);
    }
    ck_assert_uint_eq(b.work.graph_key, 7);
    b.frozen = 100;
    ck_assert_int_eq(step(&b, 7, GPU_GRAPH_LIVE, 1), STATUS_OK); /* the 100 is not there */
    ck_assert_uint_eq(*(uint64_t *)(uintptr_t)gpu_arena_at(b.arena, b.state), b.expected);
    struct gpu_graphs_count c = gpu_graphs_count(b.g);
    ck_assert_uint_eq(c.captured, 1);
    ck_assert_uint_eq(c.replays, 22);
    ck_assert_uint_eq(c.eager, 3);
    end(&b);
}
END_TEST

START_TEST(test_room) {
    /* A slot is reserved once, slots are as many as the settings say, and a drop makes room. */
    struct bench b;
    begin(&b, &plain, 2, 0, 0, 0);
    stepped(&b, 1, GPU_GRAPH_ASK, 1);
    stepped(&b, 1, GPU_GRAPH_ASK, 1);
    said(&b, 1, GPU_GRAPH_ROOM);
    said(&b, 1, GPU_GRAPH_ROOM);
    ck_assert_uint_eq(gpu_graphs_count(b.g).reserved, 1);
    stepped(&b, 2, GPU_GRAPH_ASK, 1);
    said(&b, 2, GPU_GRAPH_ROOM);
    stepped(&b, 3, GPU_GRAPH_ASK, 1);
    said(&b, 3, GPU_GRAPH_NO_ROOM);
    stepped(&b, 3, GPU_GRAPH_CAPTURE, 1); /* nobody reserved for it */
    ck_assert_int_eq(b.last, GPU_GRAPHS_EAGER);
    said(&b, 3, GPU_GRAPH_NOT_CAPTURED);
    gpu_graphs_drop(b.g, 1, 0);
    gpu_graphs_drop(b.g, 99, 0);
    capture(&b, 3);
    end(&b);
}
END_TEST

START_TEST(test_max_zero) {
    struct bench b;
    begin(&b, &plain, 0, 0, 0, 0);
    for (int order = GPU_GRAPH_NONE; order <= GPU_GRAPH_CAPTURE; order++)
        stepped(&b, 5, (enum gpu_graph_order)order, 9);
    said(&b, 5, GPU_GRAPH_LOST);
    said(&b, 5, GPU_GRAPH_NO_ROOM);
    said(&b, 5, GPU_GRAPH_NOT_CAPTURED);
    ck_assert_uint_eq(gpu_fake_calls("capture_begin"), 0);
    end(&b);
}
END_TEST

START_TEST(test_every_call_fails) {
    /* Each driver call of a capture fails once: the step runs all the same, once; nothing is left
     * behind; the key is quarantined, others are not. */
    static const char *const calls[] = {"capture_begin", "capture_end", "graph_instantiate",
                                        "graph_upload", "graph_launch"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct bench b;
        begin(&b, &plain, 48, 0, 0, 0);
        capture(&b, 1);
        struct gpu_fake_alive before = gpu_fake_alive(), after;
        stepped(&b, 2, GPU_GRAPH_ASK, 4);
        said(&b, 2, GPU_GRAPH_ROOM);
        gpu_fake_fail(calls[i], 0, 1, GPU_CUDA_ERROR_OUT_OF_MEMORY);
        stepped(&b, 2, GPU_GRAPH_CAPTURE, 5);
        said(&b, 2, GPU_GRAPH_NOT_CAPTURED);
        said_nothing(&b);
        after = gpu_fake_alive();
        ck_assert_mem_eq(&before, &after, sizeof before);
        ck_assert_uint_eq(gpu_lease_count(b.leases, 1), 0);
        ck_assert_uint_eq(gpu_graphs_count(b.g).reserved, 0);
        stepped(&b, 2, GPU_GRAPH_ASK, 6); /* not again */
        said(&b, 2, GPU_GRAPH_NO_ROOM);
        stepped(&b, 1, GPU_GRAPH_LIVE, 7);
        ck_assert_int_eq(b.last, GPU_GRAPHS_REPLAY);
        capture(&b, 3);
        end(&b);
    }
}
END_TEST

static void act_refused_launch(struct bench *b) {
    gpu_fake_fail("launch", 0, 1, GPU_CUDA_ERROR_INVALID_VALUE);
    (void)b;
}
static void act_forbidden(struct bench *b) {
    RIG_OK(b->rig.d->stream_query(b->rig.b)); /* another stream may be asked */
    ck_assert_int_eq(b->rig.d->stream_query(b->rig.a), GPU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}
static void *other_thread(void *self) {
    struct bench *b = self;
    gpu_cu_ptr_t p;
    RIG_OK(b->rig.d->context_set(b->rig.context));
    RIG_OK(b->rig.d->memory_alloc(&p, 4096));
    RIG_OK(b->rig.d->memory_free(p));
    return NULL;
}
static void act_other_thread(struct bench *b) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, b), 0);
    pthread_join(thread, NULL);
}

START_TEST(test_inside_a_capture) {
    /* Half of the sequence captured, then a launch is refused; or something forbidden is done: the
     * step runs eagerly, once. Another thread's allocation harms nothing. */
    void (*const acts[])(struct bench *) = {act_refused_launch, act_forbidden, act_other_thread};
    for (int i = 0; i < 3; i++) {
        struct bench b;
        begin(&b, &plain, 48, 0, 0, 0);
        stepped(&b, 2, GPU_GRAPH_ASK, 4);
        said(&b, 2, GPU_GRAPH_ROOM);
        b.inside = acts[i];
        stepped(&b, 2, GPU_GRAPH_CAPTURE, 5);
        said(&b, 2, i == 2 ? GPU_GRAPH_CAPTURED : GPU_GRAPH_NOT_CAPTURED);
        said_nothing(&b);
        ck_assert_uint_eq(gpu_fake_alive().graphs, 0);
        ck_assert_uint_eq(gpu_fake_alive().execs, i == 2);
        stepped(&b, 2, i == 2 ? GPU_GRAPH_LIVE : GPU_GRAPH_NONE, 6);
        end(&b);
    }
}
END_TEST

START_TEST(test_lease_fails) {
    /* The memory that a graph baked in was freed before the capture ended. */
    struct bench b;
    begin(&b, &plain, 48, 0, 0, 0);
    stepped(&b, 2, GPU_GRAPH_ASK, 4);
    said(&b, 2, GPU_GRAPH_ROOM);
    gpu_mem_t gone = b.plan;
    ck_assert_int_eq(gpu_arena_alloc(b.arena, 4096, "plan", &b.plan, &b.rig.note), STATUS_OK);
    ck_assert_int_eq(gpu_arena_free(b.arena, gone, 0, &b.rig.note), STATUS_OK);
    ck_assert_int_eq(gpu_graphs_begin(b.g, 2, GPU_GRAPH_CAPTURE), GPU_GRAPHS_CAPTURE);
    ck_assert_int_eq(launch(&b), STATUS_OK);
    ck_assert_int_eq(gpu_graphs_end(b.g, STATUS_OK, &gone, 1, &b.rig.note), STATUS_AGAIN);
    said(&b, 2, GPU_GRAPH_NOT_CAPTURED);
    ck_assert_uint_eq(gpu_fake_alive().execs, 0);
    ck_assert_uint_eq(gpu_fake_alive().graphs, 0);
    stepped(&b, 2, GPU_GRAPH_NONE, 6);
    end(&b);
}
END_TEST

START_TEST(test_freed_under_a_graph) {
    /* A buffer is freed and made anew elsewhere: the graph that holds the old address is not
     * replayed any more, the old address is nobody's while the graph lives, one that holds other
     * memory stays. */
    struct bench b;
    begin(&b, &plain, 48, 0, 0, 0);
    capture(&b, 1);
    gpu_cu_ptr_t old = gpu_arena_at(b.arena, b.plan);
    gpu_mem_t freed = b.plan;
    ck_assert_int_eq(gpu_arena_alloc(b.arena, 4096, "plan", &b.plan, &b.rig.note), STATUS_OK);
    capture(&b, 2);
    ck_assert_int_eq(gpu_arena_free(b.arena, freed, b.number, &b.rig.note), STATUS_OK);
    gpu_arena_reached(b.arena, b.number);
    ck_assert_uint_ne(*(uint32_t *)(uintptr_t)old, GPU_ARENA_POISON);
    stepped(&b, 1, GPU_GRAPH_LIVE, 8);
    ck_assert_int_eq(b.last, GPU_GRAPHS_EAGER);
    said(&b, 1, GPU_GRAPH_LOST);
    stepped(&b, 1, GPU_GRAPH_LIVE, 9);
    said_nothing(&b); /* said once */
    stepped(&b, 2, GPU_GRAPH_LIVE, 10);
    ck_assert_int_eq(b.last, GPU_GRAPHS_REPLAY);
    gpu_graphs_drop(b.g, 1, b.number);
    ck_assert_uint_eq(gpu_graphs_count(b.g).retiring, 1);
    ck_assert_uint_eq(gpu_arena_count(b.arena).leased, 4096);
    gpu_graphs_reached(b.g, b.number - 1);
    ck_assert_uint_eq(gpu_arena_count(b.arena).leased, 4096); /* its last replay may run yet */
    gpu_graphs_reached(b.g, b.number);
    ck_assert_uint_eq(gpu_arena_count(b.arena).leased, 0);
    ck_assert_uint_eq(*(uint32_t *)(uintptr_t)old, GPU_ARENA_POISON);
    ck_assert_uint_eq(gpu_fake_alive().execs, 1);
    capture(&b, 1); /* lost is not quarantined */
    end(&b);
}
END_TEST

START_TEST(test_pressure) {
    /* Seen on hits, with hysteresis, told again while it lasts; new keys find no room meanwhile,
     * old ones are replayed; and it ends. */
    struct bench b;
    struct gpu_fake_config fake = {.memory_bytes = 1024 * MIB};
    begin(&b, &fake, 48, 100 * MIB, 200 * MIB, 4);
    capture(&b, 1);
    gpu_fake_pressure(0, 800 * MIB); /* about 160 MiB free: between the two */
    for (int i = 0; i < 8; i++)
        stepped(&b, 1, GPU_GRAPH_LIVE, 3);
    said_nothing(&b);
    gpu_fake_pressure(0, 900 * MIB);
    for (int i = 0; i < 8; i++)
        stepped(&b, 1, GPU_GRAPH_LIVE, 3);
    said(&b, 0, GPU_GRAPH_TIGHT);
    said(&b, 0, GPU_GRAPH_TIGHT);
    said_nothing(&b);
    ck_assert_int_eq(b.last, GPU_GRAPHS_REPLAY);
    stepped(&b, 2, GPU_GRAPH_ASK, 3);
    said(&b, 0, GPU_GRAPH_TIGHT);
    said(&b, 2, GPU_GRAPH_NO_ROOM);
    gpu_fake_pressure(0, 800 * MIB); /* better, but not well */
    stepped(&b, 2, GPU_GRAPH_ASK, 3);
    said(&b, 2, GPU_GRAPH_NO_ROOM);
    gpu_fake_pressure(0, 0);
    for (int i = 0; i < 4; i++)
        stepped(&b, 1, GPU_GRAPH_LIVE, 3);
    said(&b, 0, GPU_GRAPH_EASY);
    said_nothing(&b);
    capture(&b, 2);
    end(&b);
}
END_TEST

START_TEST(test_sticky) {
    /* A dead device is said to be dead, with plan, key and kernel; it is not run eagerly. */
    struct bench b;
    begin(&b, &plain, 48, 0, 0, 0);
    capture(&b, 0xabcd);
    stepped(&b, 0xabcd, GPU_GRAPH_LIVE, 1);
    gpu_fake_fail("graph_launch", 0, 1, GPU_CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(step(&b, 0xabcd, GPU_GRAPH_LIVE, 1), STATUS_DEVICE);
    ck_assert_str_eq(b.rig.note.text,
                     "replaying a graph: CUDA_ERROR_ILLEGAL_ADDRESS (700) in plan 4, graph "
                     "000000000000abcd, at or before kernel rig_other; the device answers nothing "
                     "more: this process must end");
    gpu_graphs_close(b.g);
    gpu_leases_close(b.leases);
    gpu_arena_close(b.arena);
    gpu_launcher_close(b.launcher);
    gpu_fake_driver(&plain);
}
END_TEST

START_TEST(test_close_within_a_capture) {
    struct bench b;
    begin(&b, &plain, 48, 0, 0, 0);
    stepped(&b, 2, GPU_GRAPH_ASK, 4);
    ck_assert_int_eq(gpu_graphs_begin(b.g, 2, GPU_GRAPH_CAPTURE), GPU_GRAPHS_CAPTURE);
    ck_assert_int_eq(launch(&b), STATUS_OK);
    end(&b);
}
END_TEST

START_TEST(test_settings) {
    static const struct {
        uint32_t asked, max, floor;
    } table[] = {{0, 0, 0}, {1, 1, 1}, {7, 7, 7}, {8, 8, 8}, {9, 9, 8}, {48, 48, 8}, {500, 48, 8}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct gpu_graph_settings s = gpu_graph_settings(table[i].asked);
        ck_assert_uint_eq(s.max, table[i].max);
        ck_assert_uint_eq(s.floor, table[i].floor);
    }
    static const char *const bad[] = {"", "yes", "-1", "49", "4x", " 4", "99999999999999999999"};
    struct status_note note;
    uint32_t max = 5;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(gpu_graph_parse(bad[i], "--graphs", &max, &note), STATUS_BAD_REQUEST);
        ck_assert_ptr_nonnull(strstr(note.text, "--graphs"));
        ck_assert_uint_eq(max, 5);
    }
    ck_assert_int_eq(gpu_graph_parse("on", "x", &max, &note), STATUS_OK);
    ck_assert_uint_eq(max, 48);
    ck_assert_int_eq(gpu_graph_parse("off", "x", &max, &note), STATUS_OK);
    ck_assert_uint_eq(max, 0);
    ck_assert_int_eq(gpu_graph_parse("12", "x", &max, &note), STATUS_OK);
    ck_assert_uint_eq(max, 12);
}
END_TEST

START_TEST(test_thrash) {
    /* More keys than slots, at random, with drops while replays are under way: always the same
     * bits, and slots neither leak nor run out. */
    struct bench b;
    uint64_t random = 3;
    bool live[20] = {false}, reserved[20] = {false};
    begin(&b, &plain, 6, 0, 0, 0);
    for (int i = 0; i < 4000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t k = (uint32_t)(random >> 40) % 20;
        if (random >> 62 == 0) {
            gpu_graphs_drop(b.g, k + 1, b.number);
            live[k] = reserved[k] = false;
        }
        stepped(&b, k + 1,
                live[k]       ? GPU_GRAPH_LIVE
                : reserved[k] ? GPU_GRAPH_CAPTURE
                              : GPU_GRAPH_ASK,
                random);
        struct gpu_graph_said v;
        while (gpu_graphs_vote(b.g, &v)) {
            ck_assert_uint_eq(v.key, k + 1);
            ck_assert_int_ne(v.word, GPU_GRAPH_LOST);
            reserved[k] = v.word == GPU_GRAPH_ROOM;
            live[k] = live[k] || v.word == GPU_GRAPH_CAPTURED;
        }
        if (b.number > 5)
            gpu_graphs_reached(b.g, b.number - 5);
        struct gpu_graphs_count c = gpu_graphs_count(b.g);
        ck_assert_uint_le(c.captured + c.reserved, 6);
        ck_assert_uint_eq(gpu_fake_alive().execs, c.captured + c.retiring);
    }
    ck_assert_uint_gt(gpu_graphs_count(b.g).replays, 100);
    ck_assert_uint_gt(gpu_graphs_count(b.g).captures, 100);
    end(&b);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu/graphs");
    TCase *tc = tcase_create("graphs");
    tcase_add_test(tc, test_replayed_is_eager);
    tcase_add_test(tc, test_room);
    tcase_add_test(tc, test_max_zero);
    tcase_add_test(tc, test_every_call_fails);
    tcase_add_test(tc, test_inside_a_capture);
    tcase_add_test(tc, test_lease_fails);
    tcase_add_test(tc, test_freed_under_a_graph);
    tcase_add_test(tc, test_pressure);
    tcase_add_test(tc, test_sticky);
    tcase_add_test(tc, test_close_within_a_capture);
    tcase_add_test(tc, test_settings);
    tcase_add_test(tc, test_thrash);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
