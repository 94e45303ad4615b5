/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: any bytes as config.json, and what follows the first zero byte as
 * generation_config.json. What is accepted must be a configuration that a model can be built from.
 */
#include <stdint.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/families/registry.h"
#include "kernels/rowfn.h"
#include "kernels/weights/config_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_accepted(const struct krn_config *c) {
    CHECK(krn_family_named(c->family) != NULL);
    CHECK(krn_config_check("c", c, NULL) == STATUS_OK);
    CHECK(c->heads % c->kv_heads == 0 && c->head_dim % 16 == 0 && c->head_dim <= KRN_HEAD_MAX);
    CHECK(c->context >= 1 && c->context <= KRN_CONTEXT_MAX && c->norm_eps > 0);
    CHECK(c->n_eos <= KRN_EOS_MAX);
    for (uint32_t i = 0; i < c->n_eos; i++)
        CHECK(c->eos[i] < c->vocab);
    struct krn_weight w;
    CHECK(krn_family_named(c->family)->weight(c, 0, &w));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct krn_config config;
    struct status_note note = {""};
    const uint8_t *zero = size == 0 ? NULL : memchr(data, 0, size);
    size_t first = zero == NULL ? size : (size_t)(zero - data);
    const uint8_t *generation = zero == NULL ? NULL : zero + 1;
    size_t n = zero == NULL ? 0 : size - first - 1;
    if (krn_config_parse("c", data, first, "g", generation, n, &config, &note) == STATUS_OK) {
        check_accepted(&config);
        return 0;
    }
    CHECK(strncmp(note.text, "c: ", 3) == 0 || strncmp(note.text, "g: ", 3) == 0);
    for (const unsigned char *c = (const unsigned char *)note.text; *c != '\0'; c++)
        CHECK(*c >= 0x20 && *c < 0x7f);
    return 0;
}
