/* SPDX-License-Identifier: Apache-2.0
 * The order of eviction against a search through all candidates.
 */
#include "sessions/evict.h"
#include "tests/sessions/expect.h"

enum { N = 40 };

START_TEST(test_order) {
    for (unsigned long long seed = 1; seed <= 100; seed++) {
        unsigned long long random = seed;
        struct ses_evict *e;
        struct status_note note;
        EXPECT_FINE(ses_evict_open(N, &e, &note) == STATUS_OK, note);
        uint64_t use[N + 1] = {0};
        uint32_t depth[N + 1] = {0}, n = 0;
        bool in[N + 1] = {false};
        for (int step = 0; step < 500; step++) {
            uint32_t id = 1 + (uint32_t)(expect_random(&random) % N);
            if (in[id] || expect_random(&random) % 4 == 0) {
                ses_evict_remove(e, id);
                n -= in[id];
                in[id] = false;
            } else {
                use[id] = expect_random(&random) % 8;
                depth[id] = (uint32_t)(expect_random(&random) % 4);
                ses_evict_put(e, id, use[id], depth[id]);
                in[id] = true;
                n++;
            }
            uint32_t least = 0;
            for (uint32_t i = N; i > 0; i--)
                if (in[i] && (least == 0 || use[i] < use[least] ||
                              (use[i] == use[least] && depth[i] >= depth[least])))
                    least = i;
            EXPECT_EQ(ses_evict_least(e), least);
            EXPECT_EQ(ses_evict_count(e), n);
            EXPECT_EQ(ses_evict_has(e, id), in[id]);
        }
        ses_evict_close(e);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sessions/evict");
    TCase *tcase = tcase_create("evict");
    tcase_add_test(tcase, test_order);
    suite_add_tcase(suite, tcase);
    return test_run(suite);
}
