/* SPDX-License-Identifier: Apache-2.0
 * The arena on both backends: what is handed out never overlaps, what is freed comes back only when
 * its work is over, sums hold at every moment, and every call that can fail changes nothing.
 */
#include "gpu/arena.h"
#include "gpu/fence.h"
#include "gpu/lease.h"
#include "tests/gpu/fake_rig.h"

enum { MIB = 1 << 20, LIVE_MAX = 256 };

struct bench {
    struct rig rig;
    struct gpu_arena *a;
    uint64_t random;
};

static uint64_t next(struct bench *b) {
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return b->random >> 33;
}

static void begin(struct bench *b, enum gpu_arena_backend backend,
                  const struct gpu_fake_config *fake, const struct gpu_arena_config *more) {
    memset(b, 0, sizeof *b);
    b->random = 7;
    rig_begin(&b->rig, fake);
    struct gpu_arena_config config = {0};
    if (more != NULL)
        config = *more;
    config.driver = b->rig.d;
    config.backend = backend;
    config.s = b->rig.a;
    ck_assert_int_eq(gpu_arena_open(&config, &b->a, &b->rig.note), STATUS_OK);
}

static void end(struct bench *b) {
    gpu_arena_close(b->a);
    rig_end(&b->rig);
}

static void sound(struct bench *b) {
    struct status_note note = {""};
    ck_assert_msg(gpu_arena_sound(b->a, &note), "%s", note.text);
}

static gpu_mem_t take(struct bench *b, uint64_t bytes) {
    gpu_mem_t mem = 0;
    ck_assert_int_eq(gpu_arena_alloc(b->a, bytes, "a test", &mem, &b->rig.note), STATUS_OK);
    return mem;
}

static void give(struct bench *b, gpu_mem_t mem, uint64_t after) {
    ck_assert_int_eq(gpu_arena_free(b->a, mem, after, &b->rig.note), STATUS_OK);
}

static const struct gpu_fake_config roomy = {.memory_bytes = 8ull << 30};

START_TEST(test_small_and_large) {
    for (int backend = GPU_ARENA_PLAIN; backend <= GPU_ARENA_VMM; backend++) {
        struct bench b;
        begin(&b, (enum gpu_arena_backend)backend, &roomy, NULL);
        gpu_mem_t one = take(&b, 1), two = take(&b, 4 * MIB), three = take(&b, 4 * MIB + 1);
        ck_assert_uint_eq(gpu_arena_bytes(b.a, one), 512);
        ck_assert_uint_eq(gpu_arena_at(b.a, two) % 512, 0);
        ck_assert_uint_eq(gpu_arena_at(b.a, two), gpu_arena_at(b.a, one) + 512);
        ck_assert_uint_eq(gpu_arena_bytes(b.a, three), 6 * MIB);
        struct gpu_arena_count c = gpu_arena_count(b.a);
        ck_assert_uint_eq(c.n_chunks, 2);
        ck_assert_uint_eq(c.mapped, 70 * MIB);
        ck_assert_uint_eq(c.live, 512 + 4 * MIB + 6 * MIB);
        ck_assert_uint_eq(c.tail, 60 * MIB - 512);
        sound(&b);
        give(&b, two, 5);
        c = gpu_arena_count(b.a);
        ck_assert_uint_eq(c.quarantined, 4 * MIB);
        gpu_arena_reached(b.a, 4);
        ck_assert_uint_eq(gpu_arena_count(b.a).quarantined, 4 * MIB);
        gpu_arena_reached(b.a, 5);
        ck_assert_uint_eq(gpu_arena_count(b.a).quarantined, 0);
        ck_assert_uint_eq(gpu_arena_count(b.a).tail, 64 * MIB - 512); /* joined */
        sound(&b);
        end(&b);
    }
}
END_TEST

START_TEST(test_best_fit) {
    /* Of holes of one bin the smallest that fits is taken, so that the larger stay whole. */
    struct bench b;
    gpu_mem_t hole[3], wall[3];
    static const uint64_t kib[3] = {120, 70, 100};
    begin(&b, GPU_ARENA_PLAIN, &roomy, NULL);
    for (int i = 0; i < 3; i++) {
        hole[i] = take(&b, kib[i] << 10);
        wall[i] = take(&b, 512);
    }
    gpu_cu_ptr_t at[3];
    for (int i = 0; i < 3; i++) {
        at[i] = gpu_arena_at(b.a, hole[i]);
        give(&b, hole[i], 1);
    }
    gpu_arena_reached(b.a, 1);
    ck_assert_uint_eq(gpu_arena_at(b.a, take(&b, 90 << 10)), at[2]);
    ck_assert_uint_eq(gpu_arena_at(b.a, take(&b, 66 << 10)), at[1]);
    ck_assert_uint_eq(gpu_arena_at(b.a, take(&b, 120 << 10)), at[0]);
    ck_assert(gpu_arena_lives(b.a, wall[0]) && gpu_arena_lives(b.a, wall[2]));
    sound(&b);
    end(&b);
}
END_TEST

START_TEST(test_1024_cycles) {
    /* 1,024 small and large allocations and frees: memory, records and driver calls stay what the
     * first cycles needed. */
    for (int backend = GPU_ARENA_PLAIN; backend <= GPU_ARENA_VMM; backend++) {
        struct bench b;
        const struct gpu_arena_config few = {.ranges_max = 16, .chunks_max = 4};
        begin(&b, (enum gpu_arena_backend)backend, &roomy, &few);
        uint64_t mapped = 0, calls = 0;
        const char *call = backend == GPU_ARENA_PLAIN ? "memory_alloc" : "block_create";
        for (uint64_t i = 1; i <= 1024; i++) {
            gpu_mem_t small = take(&b, 1 + next(&b) % (64 << 10));
            gpu_mem_t large = take(&b, 5 * MIB + next(&b) % MIB);
            gpu_mem_t small2 = take(&b, 1 + next(&b) % (4 * MIB));
            give(&b, small, i);
            give(&b, large, i);
            give(&b, small2, i);
            gpu_arena_reached(b.a, i);
            if (i == 2) {
                mapped = gpu_arena_count(b.a).mapped;
                calls = gpu_fake_calls(call);
            }
            if (i % 64 == 0)
                sound(&b);
        }
        ck_assert_uint_eq(gpu_arena_count(b.a).mapped, mapped);
        ck_assert_uint_eq(gpu_fake_calls(call), calls);
        ck_assert_uint_eq(gpu_arena_count(b.a).live, 0);
        ck_assert_uint_eq(gpu_fake_waits(), 0);
        ck_assert_uint_eq(gpu_arena_trim(b.a), mapped);
        ck_assert_uint_eq(gpu_arena_count(b.a).mapped, 0);
        ck_assert_uint_eq(gpu_fake_alive().bytes[0], 0);
        sound(&b);
        end(&b);
    }
}
END_TEST

/* Fills a range with its own number; later nobody else may have written it. */
static void stamp(struct bench *b, gpu_mem_t mem, uint64_t number) {
    uint64_t *p = (uint64_t *)(uintptr_t)gpu_arena_at(b->a, mem);
    p[0] = number;
    p[gpu_arena_bytes(b->a, mem) / 8 - 1] = number;
}
static void stamped(struct bench *b, gpu_mem_t mem, uint64_t number) {
    const uint64_t *p = (const uint64_t *)(uintptr_t)gpu_arena_at(b->a, mem);
    ck_assert_uint_eq(p[0], number);
    ck_assert_uint_eq(p[gpu_arena_bytes(b->a, mem) / 8 - 1], number);
}

START_TEST(test_churn) {
    /* Random lives, fences that lag behind: nothing overlaps, sums hold, and at the end everything
     * is one piece a chunk again. */
    for (int backend = GPU_ARENA_PLAIN; backend <= GPU_ARENA_VMM; backend++) {
        struct bench b;
        const struct gpu_arena_config config = {.ranges_max = 2048};
        begin(&b, (enum gpu_arena_backend)backend, &roomy, &config);
        static gpu_mem_t live[LIVE_MAX];
        static uint64_t number[LIVE_MAX];
        memset(live, 0, sizeof live);
        for (uint64_t i = 1; i <= 40000; i++) {
            uint32_t at = (uint32_t)(next(&b) % LIVE_MAX);
            if (live[at] != 0) {
                stamped(&b, live[at], number[at]);
                give(&b, live[at], i);
                live[at] = 0;
            } else {
                uint64_t bytes = next(&b) % 16 == 0 ? 4 * MIB + next(&b) % (8 * MIB)
                                                    : 1 + next(&b) % (1u << (9 + next(&b) % 13));
                live[at] = take(&b, bytes);
                number[at] = i;
                stamp(&b, live[at], i);
            }
            if (i > 40)
                gpu_arena_reached(b.a, i - next(&b) % 40);
            if (i % 1000 == 0)
                sound(&b);
        }
        for (uint32_t i = 0; i < LIVE_MAX; i++)
            if (live[i] != 0)
                give(&b, live[i], 40001);
        gpu_arena_reached(b.a, 40001);
        sound(&b);
        ck_assert_uint_eq(gpu_arena_count(b.a).free, 0);
        ck_assert_uint_eq(gpu_arena_count(b.a).tail, gpu_arena_count(b.a).mapped);
        end(&b);
    }
}
END_TEST

START_TEST(test_handles_have_generations) {
    struct bench b;
    begin(&b, GPU_ARENA_PLAIN, &roomy, NULL);
    gpu_mem_t first = take(&b, 4096);
    give(&b, first, 1);
    ck_assert_int_eq(gpu_arena_free(b.a, first, 1, &b.rig.note), STATUS_NOT_FOUND); /* at once */
    ck_assert_ptr_nonnull(strstr(b.rig.note.text, "not live"));
    gpu_arena_reached(b.a, 1);
    gpu_mem_t second = take(&b, 4096);
    ck_assert_uint_ne(first, second);
    ck_assert(!gpu_arena_lives(b.a, first) && gpu_arena_lives(b.a, second));
    ck_assert_int_eq(gpu_arena_free(b.a, first, 2, &b.rig.note), STATUS_NOT_FOUND);
    ck_assert_int_eq(gpu_arena_free(b.a, 0, 2, &b.rig.note), STATUS_NOT_FOUND);
    ck_assert_int_eq(gpu_arena_free(b.a, 0xffffffffffu, 2, &b.rig.note), STATUS_NOT_FOUND);
    ck_assert(gpu_arena_lives(b.a, second));
    sound(&b);
    end(&b);
}
END_TEST

START_TEST(test_foreign_and_borrowed) {
    struct bench b;
    static uint64_t library[1024];
    gpu_cu_ptr_t p = (uintptr_t)library;
    gpu_mem_t lent = 0, again = 0;
    begin(&b, GPU_ARENA_VMM, &roomy, NULL);
    gpu_mem_t own = take(&b, 4096);
    gpu_cu_ptr_t at = gpu_arena_at(b.a, own);
    ck_assert_uint_eq(gpu_arena_find(b.a, at + 100, 10), own);
    ck_assert_uint_eq(gpu_arena_find(b.a, at + 4000, 97), 0); /* runs out of it */
    ck_assert_uint_eq(gpu_arena_find(b.a, at + 4096, 1), 0);  /* the tail is nobody's */
    ck_assert_uint_eq(gpu_arena_find(b.a, p, 8), 0);
    struct gpu_arena_count before = gpu_arena_count(b.a);
    ck_assert_int_eq(gpu_arena_borrow(b.a, p, sizeof library, "a library", &lent, &b.rig.note),
                     STATUS_OK);
    ck_assert_uint_eq(gpu_arena_find(b.a, p + 64, 8), lent);
    ck_assert_int_eq(gpu_arena_borrow(b.a, p + 8, 8, "a library", &again, &b.rig.note),
                     STATUS_DUPLICATE);
    ck_assert_int_eq(gpu_arena_borrow(b.a, at, 8, "our own", &again, &b.rig.note),
                     STATUS_DUPLICATE);
    ck_assert_int_eq(gpu_arena_borrow(b.a, at - 64, 128, "into our own", &again, &b.rig.note),
                     STATUS_DUPLICATE);
    ck_assert_uint_eq(gpu_arena_count(b.a).mapped, before.mapped);
    ck_assert_uint_eq(gpu_arena_count(b.a).live, before.live);
    ck_assert_uint_eq(gpu_arena_count(b.a).n_borrowed, 1);
    sound(&b);
    /* A lease keeps the name of what was forgotten; the memory is never touched. */
    library[5] = 55;
    gpu_arena_hold(b.a, lent);
    give(&b, lent, 3);
    ck_assert_uint_eq(gpu_arena_find(b.a, p + 64, 8), 0);
    gpu_arena_reached(b.a, 3);
    sound(&b);
    gpu_arena_drop(b.a, lent);
    sound(&b);
    ck_assert_uint_eq(library[5], 55);
    ck_assert_uint_eq(gpu_arena_count(b.a).n_borrowed, 0);
    ck_assert_uint_eq(gpu_arena_count(b.a).n_quarantined, 0);
    end(&b);
}
END_TEST

START_TEST(test_records_first) {
    /* Without a record for what would be left of a range, nothing is taken: not from a range, not
     * from the driver. */
    struct bench b;
    const struct gpu_arena_config few = {.ranges_max = 4, .chunks_max = 1};
    gpu_mem_t mem = 0, all[2];
    begin(&b, GPU_ARENA_PLAIN, &roomy, &few);
    for (int i = 0; i < 2; i++)
        all[i] = take(&b, 4096);
    struct gpu_arena_count before = gpu_arena_count(b.a), after;
    ck_assert_int_eq(gpu_arena_alloc(b.a, 4096, "one more", &mem, &b.rig.note), STATUS_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(b.rig.note.text, "one more"));
    ck_assert_ptr_nonnull(strstr(b.rig.note.text, "record"));
    after = gpu_arena_count(b.a);
    ck_assert_mem_eq(&before, &after, sizeof before);
    sound(&b);
    give(&b, all[0], 1);
    give(&b, all[1], 1);
    gpu_arena_reached(b.a, 1);
    all[0] = take(&b, 4096);
    uint64_t calls = gpu_fake_calls("memory_alloc");
    ck_assert_int_eq(gpu_arena_alloc(b.a, 5 * MIB, "a chunk", &mem, &b.rig.note), STATUS_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(b.rig.note.text, "chunk"));
    ck_assert_uint_eq(gpu_fake_calls("memory_alloc"), calls);
    sound(&b);
    end(&b);
}
END_TEST

START_TEST(test_driver_refuses) {
    /* Each driver call of a growth fails once: nothing changes, nothing is lost, the next works. */
    static const char *const calls[2][5] = {{"memory_alloc"},
                                            {"block_create", "block_map", "block_access"}};
    for (int backend = GPU_ARENA_PLAIN; backend <= GPU_ARENA_VMM; backend++)
        for (int i = 0; calls[backend][i] != NULL; i++) {
            struct bench b;
            gpu_mem_t mem = 0;
            begin(&b, (enum gpu_arena_backend)backend, &roomy, NULL);
            take(&b, 100);
            struct gpu_arena_count before = gpu_arena_count(b.a), after;
            uint64_t bytes = gpu_fake_alive().bytes[0];
            gpu_fake_fail(calls[backend][i], 0, 1, GPU_CUDA_ERROR_OUT_OF_MEMORY);
            ck_assert_int_eq(gpu_arena_alloc(b.a, 50 * MIB, "weights", &mem, &b.rig.note),
                             STATUS_NO_MEMORY);
            after = gpu_arena_count(b.a);
            ck_assert_mem_eq(&before, &after, sizeof before);
            ck_assert_uint_eq(gpu_fake_alive().bytes[0], bytes);
            sound(&b);
            take(&b, 50 * MIB);
            sound(&b);
            end(&b);
        }
}
END_TEST

START_TEST(test_out_of_memory_says) {
    struct bench b;
    gpu_mem_t mem = 0;
    begin(&b, GPU_ARENA_VMM, &(struct gpu_fake_config){.memory_bytes = 256 * MIB}, NULL);
    take(&b, 100);
    ck_assert_int_eq(gpu_arena_alloc(b.a, 200 * MIB, "KV pages", &mem, &b.rig.note),
                     STATUS_NO_MEMORY);
    ck_assert_str_eq(b.rig.note.text,
                     "GPU 0: 200.0 MiB are needed for KV pages and 192.0 MiB of 256.0 MiB are "
                     "free; this process holds 64.0 MiB of it, 64.0 MiB unused");
    ck_assert_int_eq(gpu_arena_alloc(b.a, 0, "nothing", &mem, &b.rig.note), STATUS_BAD_REQUEST);
    ck_assert_int_eq(gpu_arena_alloc(b.a, UINT64_MAX, "all", &mem, &b.rig.note),
                     STATUS_BAD_REQUEST);
    end(&b);
}
END_TEST

START_TEST(test_attribute_110) {
    /* RDMA with VMM is attribute 110. 126, which the fake answers with 4 as a real device does,
     * says nothing about it. */
    struct rig r;
    struct gpu_arena *a = NULL;
    rig_begin(&r, &(struct gpu_fake_config){.rdma_with_vmm = 0});
    struct gpu_arena_config config = {.driver = r.d, .backend = GPU_ARENA_VMM, .rdma = true};
    ck_assert_int_eq(gpu_arena_open(&config, &a, &r.note), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(r.note.text, "110"));
    config.backend = GPU_ARENA_PLAIN;
    ck_assert_int_eq(gpu_arena_open(&config, &a, &r.note), STATUS_OK);
    gpu_arena_close(a);
    rig_end(&r);
    rig_begin(&r, &(struct gpu_fake_config){.rdma_with_vmm = 1});
    config = (struct gpu_arena_config){.driver = r.d, .backend = GPU_ARENA_VMM, .rdma = true};
    ck_assert_int_eq(gpu_arena_open(&config, &a, &r.note), STATUS_OK);
    gpu_mem_t mem;
    ck_assert_int_eq(gpu_arena_alloc(a, 100, "a slot", &mem, &r.note), STATUS_OK);
    gpu_arena_close(a);
    rig_end(&r);
    rig_begin(&r, &(struct gpu_fake_config){.no_vmm = true});
    config = (struct gpu_arena_config){.driver = r.d, .backend = GPU_ARENA_VMM};
    ck_assert_int_eq(gpu_arena_open(&config, &a, &r.note), STATUS_UNSUPPORTED);
    rig_end(&r);
}
END_TEST

START_TEST(test_addresses_come_back) {
    /* VMM: addresses of returned chunks are mapped again; the reservation does not wear out. */
    struct bench b;
    const struct gpu_arena_config config = {.address_bytes = 128 * MIB};
    begin(&b, GPU_ARENA_VMM, &roomy, &config);
    for (uint64_t i = 1; i <= 100; i++) {
        gpu_mem_t small = take(&b, 100), large = take(&b, (8 + i % 20) * MIB);
        give(&b, large, i);
        give(&b, small, i);
        gpu_arena_reached(b.a, i);
        ck_assert_uint_gt(gpu_arena_trim(b.a), 0);
        sound(&b);
    }
    end(&b);
}
END_TEST

START_TEST(test_fences) {
    struct bench b;
    struct gpu_fence f;
    uint64_t mark, reached;
    begin(&b, GPU_ARENA_PLAIN, &(struct gpu_fake_config){.deferred = true}, NULL);
    struct gpu_cu_stream *streams[] = {b.rig.a, b.rig.b};
    ck_assert_int_eq(gpu_fence_open(&f, b.rig.d, streams, 2, &b.rig.note), STATUS_OK);
    gpu_mem_t mem = take(&b, 4096);
    gpu_cu_ptr_t at = gpu_arena_at(b.a, mem);
    RIG_OK(b.rig.d->fill8(at, 1, 4096, b.rig.a));
    RIG_OK(b.rig.d->fill8(at, 2, 4096, b.rig.b));
    ck_assert_int_eq(gpu_fence_mark(&f, &mark, &b.rig.note), STATUS_OK);
    give(&b, mem, mark);
    /* Nothing, one stream, the other stream: only then is the range anybody's. */
    for (int ran = 0; ran < 5; ran++) {
        ck_assert_int_eq(gpu_fence_poll(&f, &reached, &b.rig.note), STATUS_OK);
        gpu_arena_reached(b.a, reached);
        bool over = ran == 4;
        ck_assert_uint_eq(gpu_arena_count(b.a).quarantined, over ? 0 : 4096);
        gpu_mem_t other = take(&b, 4096);
        ck_assert_int_eq(gpu_arena_at(b.a, other) == at, over);
        gpu_fake_run(1);
    }
    /* More marks than events are refused until some are reached. */
    for (int i = 0; i < GPU_FENCE_MARKS; i++) {
        ck_assert_int_eq(gpu_fence_mark(&f, &mark, &b.rig.note), STATUS_OK);
        if (i == 0)
            RIG_OK(b.rig.d->fill8(at, 3, 8, b.rig.a));
    }
    ck_assert_int_eq(gpu_fence_mark(&f, &mark, &b.rig.note), STATUS_AGAIN);
    gpu_fake_run(1000);
    ck_assert_int_eq(gpu_fence_poll(&f, &reached, &b.rig.note), STATUS_OK);
    ck_assert_uint_eq(reached, mark);
    ck_assert_int_eq(gpu_fence_mark(&f, &mark, &b.rig.note), STATUS_OK);
    gpu_fence_close(&f);
    end(&b);
}
END_TEST

START_TEST(test_poison) {
    struct bench b;
    const struct gpu_arena_config config = {.poison = true};
    begin(&b, GPU_ARENA_PLAIN, &roomy, &config);
    gpu_mem_t mem = take(&b, 4096), beside = take(&b, 4096);
    const uint32_t *p = (const uint32_t *)(uintptr_t)gpu_arena_at(b.a, mem);
    stamp(&b, mem, 9);
    stamp(&b, beside, 10);
    give(&b, mem, 1);
    ck_assert_uint_eq(p[0], 9); /* work may still read it */
    gpu_arena_reached(b.a, 1);
    ck_assert_uint_eq(p[0], GPU_ARENA_POISON);
    ck_assert_uint_eq(p[1023], GPU_ARENA_POISON);
    stamped(&b, beside, 10);
    end(&b);
}
END_TEST

START_TEST(test_leases) {
    /* A freed range whose address a graph holds is nobody's until that graph has retired; a graph
     * that holds other ranges stays. */
    struct bench b;
    struct gpu_leases *l;
    const struct gpu_arena_config config = {.poison = true};
    begin(&b, GPU_ARENA_VMM, &roomy, &config);
    ck_assert_int_eq(gpu_leases_open(b.a, &l, &b.rig.note), STATUS_OK);
    gpu_mem_t x = take(&b, 4096), y = take(&b, 4096), z = take(&b, 8 * MIB);
    gpu_cu_ptr_t at = gpu_arena_at(b.a, x);
    ck_assert_int_eq(gpu_lease_take(l, 0, (gpu_mem_t[]){x, y}, 2, &b.rig.note), STATUS_OK);
    ck_assert_int_eq(gpu_lease_take(l, 1, (gpu_mem_t[]){y, z}, 2, &b.rig.note), STATUS_OK);
    ck_assert_int_eq(gpu_lease_take(l, 2, (gpu_mem_t[]){x, x}, 2, &b.rig.note), STATUS_OK);
    ck_assert_uint_eq(gpu_leases_stale(l), 0);
    stamp(&b, x, 77);
    give(&b, x, 1);
    ck_assert_uint_eq(gpu_leases_stale(l), 5);
    gpu_arena_reached(b.a, 1);
    ck_assert_uint_eq(gpu_arena_count(b.a).leased, 4096);
    ck_assert_uint_eq(*(uint64_t *)(uintptr_t)at, 77); /* a replay under way reads what it knew */
    ck_assert_uint_ne(gpu_arena_at(b.a, take(&b, 4096)), at);
    gpu_lease_drop(l, 2);
    ck_assert_uint_eq(gpu_leases_stale(l), 1);
    ck_assert_uint_eq(gpu_arena_count(b.a).leased, 4096);
    sound(&b);
    gpu_lease_drop(l, 0);
    ck_assert_uint_eq(gpu_leases_stale(l), 0);
    ck_assert_uint_eq(gpu_arena_count(b.a).leased, 0);
    ck_assert_uint_eq(*(uint32_t *)(uintptr_t)at, GPU_ARENA_POISON);
    ck_assert_uint_eq(gpu_arena_at(b.a, take(&b, 4096)), at);
    ck_assert_uint_eq(gpu_lease_count(l, 1), 2);
    /* All or nothing. */
    ck_assert_int_eq(gpu_lease_take(l, 3, (gpu_mem_t[]){y, x}, 2, &b.rig.note), STATUS_NOT_FOUND);
    ck_assert_uint_eq(gpu_lease_count(l, 3), 0);
    gpu_cu_ptr_t inside[] = {gpu_arena_at(b.a, z) + 5 * MIB}, foreign[] = {inside[0], (uintptr_t)l};
    ck_assert_int_eq(gpu_lease_take_at(l, 3, foreign, 2, &b.rig.note), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(b.rig.note.text, "not the arena's"));
    ck_assert_int_eq(gpu_lease_take_at(l, 3, inside, 1, &b.rig.note), STATUS_OK);
    give(&b, z, 2);
    ck_assert_uint_eq(gpu_leases_stale(l), 1u << 3 | 1u << 1);
    gpu_leases_close(l);
    gpu_arena_reached(b.a, 2);
    ck_assert_uint_eq(gpu_arena_count(b.a).n_quarantined, 0);
    sound(&b);
    end(&b);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu/arena");
    TCase *tc = tcase_create("arena");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_small_and_large);
    tcase_add_test(tc, test_best_fit);
    tcase_add_test(tc, test_1024_cycles);
    tcase_add_test(tc, test_churn);
    tcase_add_test(tc, test_handles_have_generations);
    tcase_add_test(tc, test_foreign_and_borrowed);
    tcase_add_test(tc, test_records_first);
    tcase_add_test(tc, test_driver_refuses);
    tcase_add_test(tc, test_out_of_memory_says);
    tcase_add_test(tc, test_attribute_110);
    tcase_add_test(tc, test_addresses_come_back);
    tcase_add_test(tc, test_fences);
    tcase_add_test(tc, test_poison);
    tcase_add_test(tc, test_leases);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
