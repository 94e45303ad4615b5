/* SPDX-License-Identifier: Apache-2.0
 * What a stream shows against a slow reading of the rules over the whole reply, for random cuts
 * into tokens; and the named cases: cut characters, stops across tokens, inside one, overlapping,
 * invalid bytes.
 */
#include "lanes/text/stream.h"

#include "lanes/text/utf8.h"
#include "tests/text/support.h"

enum { REPLY_MAX = 4096 };

struct shown {
    char bytes[REPLY_MAX];
    size_t n;
    int stop;
};

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 32) % n);
}

static void show(struct lane_stream *s, struct shown *out, size_t n) {
    memcpy(out->bytes + out->n, s->hold, n);
    out->n += n;
    lane_stream_take(s, n);
}

/* Whole characters only: what was shown may be looked at by itself at any moment. */
static void expect_whole(const struct shown *out, const char *reply, size_t n) {
    size_t at = 0, length;
    while (at < out->n) {
        enum utf8_kind kind = lane_utf8_next(reply + at, n - at, &length);
        if (kind == UTF8_WHOLE && at + length > out->n)
            ck_abort_msg("a character was cut");
        at += kind == UTF8_WHOLE ? length : 1;
    }
}

/* Pushes reply in pieces of the given sizes (0 ends the list; the rest is one piece at a time of 1
 * byte). */
static void run(struct lane_stream *s, const char *reply, size_t n, uint32_t piece_max,
                struct shown *out) {
    size_t at = 0;
    out->n = 0;
    out->stop = -1;
    while (at < n && out->stop < 0) {
        size_t piece = piece_max == 0 ? 1 : random_below(piece_max + 1);
        piece = piece < n - at ? piece : n - at;
        size_t may = lane_stream_push(s, reply + at, piece, &out->stop);
        at += piece;
        if (may > s->held) /* an assertion a push would take most of the time */
            ck_abort_msg("more may be shown than is held");
        show(s, out, may);
        if (out->stop < 0)
            expect_whole(out, reply, n);
        if (s->held > LANE_STREAM_STOP_BYTES + 4)
            ck_abort_msg("too much is held");
    }
    if (out->stop < 0)
        show(s, out, lane_stream_finish(s));
    else
        ck_assert_uint_eq(s->held, 0);
}

/* The rules, read slowly: the first end of any stop string; of those that end there the one that
 * begins first. */
static void naive(const struct lane_stream *s, const char *reply, size_t n, struct shown *out) {
    out->n = n;
    out->stop = -1;
    for (size_t end = 1; end <= n && out->stop < 0; end++) {
        for (size_t begin = 0; begin < end && out->stop < 0; begin++)
            for (uint32_t i = 0; i < s->n_stops && out->stop < 0; i++)
                if (s->stop_bytes[i] == end - begin &&
                    memcmp(reply + begin, s->stop[i], end - begin) == 0) {
                    out->stop = (int)i;
                    out->n = begin;
                }
    }
    memcpy(out->bytes, reply, out->n);
}

static void expect_same(const struct shown *a, const struct shown *b, uint64_t seed) {
    ck_assert_msg(a->stop == b->stop, "seed %llu: stop %d, not %d", (unsigned long long)seed,
                  a->stop, b->stop);
    ck_assert_msg(a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0, "seed %llu: other text",
                  (unsigned long long)seed);
}

/* Few letters, so that stops overlap each other and the text; some characters of 2 to 4 bytes, some
 * broken. */
static size_t random_text(char *out, size_t most) {
    static const char *const parts[] = {"a",
                                        "b",
                                        "ab",
                                        "\n",
                                        "c",
                                        "aab",
                                        "\xC3\xA9",
                                        "\xC3",
                                        "\xE2\x82\xAC",
                                        "\xE2\x82",
                                        "\x80",
                                        "\xFF",
                                        "\xF0\x9F\x98\x80",
                                        "\xF0\x9F",
                                        "bca"};
    size_t n = 0, goal = random_below((uint32_t)most + 1);
    while (n < goal) {
        const char *part = parts[random_below(sizeof parts / sizeof *parts)];
        if (n + strlen(part) > most)
            break;
        memcpy(out + n, part, strlen(part));
        n += strlen(part);
    }
    return n;
}

START_TEST(cuts_do_not_matter) {
    uint64_t stopped = 0, through = 0;
    for (uint64_t seed = 1; seed <= 30000; seed++) {
        struct lane_stream model, s;
        static struct shown expected, got;
        char reply[300], stop[12];
        random_state = seed * 0x9E3779B97F4A7C15u;
        lane_stream_init(&model);
        for (uint32_t i = random_below(5); i > 0; i--) {
            size_t n = random_text(stop, 2 + random_below(9));
            ck_assert(lane_stream_add_stop(&model, stop, n) == (n > 0));
        }
        size_t n = random_text(reply, seed % 16 == 0 ? sizeof reply : 30);
        naive(&model, reply, n, &expected);
        for (uint32_t piece = 0; piece < 40; piece += 1 + piece) {
            s = model;
            run(&s, reply, n, piece, &got);
            expect_same(&got, &expected, seed);
        }
        stopped += expected.stop >= 0;
        through += expected.stop < 0;
    }
    ck_assert_uint_gt(stopped, 5000);
    ck_assert_uint_gt(through, 5000);
}
END_TEST

/* One push; what it shows as a string. */
static const char *push(struct lane_stream *s, const char *bytes, int *stop) {
    static char out[LANE_STREAM_HOLD + 1];
    size_t n = lane_stream_push(s, bytes, strlen(bytes), stop);
    memcpy(out, s->hold, n);
    out[n] = '\0';
    lane_stream_take(s, n);
    return out;
}

START_TEST(a_cut_character_is_held) {
    struct lane_stream s;
    int stop;
    lane_stream_init(&s);
    ck_assert_str_eq(push(&s, "a\xF0\x9F", &stop), "a");
    ck_assert_str_eq(push(&s, "\x98", &stop), "");
    ck_assert_str_eq(push(&s, "\x80z\xE2", &stop), "\xF0\x9F\x98\x80z");
    ck_assert_str_eq(push(&s, "\x41", &stop), "\xE2\x41");
    ck_assert_str_eq(push(&s, "\x80\xFF", &stop), "\x80\xFF");
    ck_assert_str_eq(push(&s, "\xC3", &stop), "");
    ck_assert_uint_eq(lane_stream_finish(&s), 1);
}
END_TEST

START_TEST(a_stop_is_never_shown) {
    struct lane_stream s;
    int stop;
    lane_stream_init(&s);
    ck_assert(lane_stream_add_stop(&s, "</end>", 6));
    ck_assert_str_eq(push(&s, "text <", &stop), "text ");
    ck_assert_str_eq(push(&s, "/en", &stop), "");
    ck_assert_str_eq(push(&s, "x<", &stop), "</enx");
    ck_assert_str_eq(push(&s, "</end>after", &stop), "<");
    ck_assert_int_eq(stop, 0);
    ck_assert(s.stopped);
    ck_assert_str_eq(push(&s, "more", &stop), "");
    ck_assert_int_eq(stop, -1);
    ck_assert_uint_eq(lane_stream_finish(&s), 0);
}
END_TEST

START_TEST(the_earliest_end_wins) {
    struct lane_stream s;
    int stop;
    lane_stream_init(&s);
    ck_assert(lane_stream_add_stop(&s, "abcd", 4));
    ck_assert(lane_stream_add_stop(&s, "bc", 2));
    ck_assert_str_eq(push(&s, "xabcd", &stop), "xa");
    ck_assert_int_eq(stop, 1);
    lane_stream_init(&s);
    ck_assert(lane_stream_add_stop(&s, "cd", 2));
    ck_assert(lane_stream_add_stop(&s, "abcd", 4));
    ck_assert_str_eq(push(&s, "xabcd", &stop), "x");
    ck_assert_int_eq(stop, 1);
}
END_TEST

START_TEST(a_character_around_a_stop) {
    struct lane_stream s;
    int stop;
    lane_stream_init(&s);
    ck_assert(lane_stream_add_stop(&s, "\xA9!", 2));
    ck_assert_str_eq(push(&s, "caf\xC3\xA9", &stop), "caf");
    ck_assert_str_eq(push(&s, "?", &stop), "\xC3\xA9?");
    ck_assert_str_eq(push(&s, "\xC3\xA9!", &stop), "\xC3");
    ck_assert_int_eq(stop, 0);
}
END_TEST

START_TEST(limits) {
    struct lane_stream s;
    static char token[1024], stop_text[LANE_STREAM_STOP_BYTES];
    int stop;
    memset(stop_text, 'a', sizeof stop_text);
    memset(token, 'a', sizeof token);
    lane_stream_init(&s);
    ck_assert(!lane_stream_add_stop(&s, "", 0));
    ck_assert(!lane_stream_add_stop(&s, stop_text, LANE_STREAM_STOP_BYTES));
    stop_text[LANE_STREAM_STOP_BYTES - 2] = 'b';
    for (int i = 0; i < LANE_STREAM_STOPS; i++)
        ck_assert(lane_stream_add_stop(&s, stop_text, LANE_STREAM_STOP_BYTES - 1));
    ck_assert(!lane_stream_add_stop(&s, "x", 1));
    for (int i = 0; i < 50; i++) {
        size_t may = lane_stream_push(&s, token, sizeof token, &stop);
        ck_assert_uint_eq(s.held - may, LANE_STREAM_STOP_BYTES - 2);
        lane_stream_take(&s, may);
    }
    size_t may = lane_stream_push(&s, "b", 1, &stop);
    ck_assert_uint_eq(may, 0);
    ck_assert_int_eq(stop, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text stream");
    TCase *tests = tcase_create("stream");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, cuts_do_not_matter);
    tcase_add_test(tests, a_cut_character_is_held);
    tcase_add_test(tests, a_stop_is_never_shown);
    tcase_add_test(tests, the_earliest_end_wins);
    tcase_add_test(tests, a_character_around_a_stop);
    tcase_add_test(tests, limits);
    suite_add_tcase(suite, tests);
    return test_run(suite);
}
