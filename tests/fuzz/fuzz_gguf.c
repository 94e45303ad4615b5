/* SPDX-License-Identifier: Apache-2.0
 * Fuzz target: any bytes as a GGUF file. What is accepted must be sound to the last byte, what is
 * refused must say one line; accepted metadata gives a checked configuration or one line.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "kernels/quant/quant.h"
#include "kernels/weights/config_json.h"
#include "kernels/weights/gguf_arch.h"
#include "kernels/weights/gguf_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const struct status_note *note) {
    CHECK(strncmp(note->text, "f: ", 3) == 0);
    for (const unsigned char *c = (const unsigned char *)note->text; *c != '\0'; c++)
        CHECK(*c >= 0x20 && *c < 0x7f);
}

/* Reads every byte, for a sanitizer to see. */
static uint64_t sum_of(const unsigned char *at, uint64_t n) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += at[i];
    return sum;
}

static void check_values(const struct krn_gguf *g) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < g->n_values; i++) {
        const struct krn_gguf_value *v = &g->values[i];
        CHECK(v->key >= g->bytes && v->key_bytes <= (uint64_t)(g->bytes + g->size - v->key));
        sum += sum_of(v->key, v->key_bytes);
        if (v->type == KRN_GGUF_TEXT)
            sum += sum_of(v->at, v->count);
        const unsigned char *cursor = v->at;
        for (uint64_t e = 0;
             v->type == KRN_GGUF_LIST && v->element == KRN_GGUF_TEXT && e < v->count; e++) {
            uint64_t bytes;
            const unsigned char *text = krn_gguf_next_text(&cursor, &bytes);
            CHECK(bytes <= (uint64_t)(g->bytes + g->size - text));
            sum += sum_of(text, bytes);
        }
    }
    CHECK(sum <= 255 * g->size);
}

static void check_tensors(const struct krn_gguf *g) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < g->table.n; i++) {
        const struct krn_entry *e = &g->table.entries[i];
        CHECK(e->offset >= at && e->offset <= g->size && e->bytes <= g->size - e->offset);
        CHECK(e->offset % g->alignment == 0);
        CHECK(e->name[0] != '\0' && strlen(e->name) <= KRN_GGUF_NAME_MAX);
        CHECK(krn_gguf_entry(g, e->name) == e);
        at = e->offset + e->bytes;
        if (!e->usable)
            continue;
        const struct krn_format *f = krn_format_of(e->type);
        uint64_t elements = 1;
        for (uint32_t d = 0; d < e->n_dims; d++)
            elements *= e->dims[d];
        CHECK(elements / f->block * f->bytes == e->bytes && strcmp(f->word, e->dtype) == 0);
        float out[KRN_QUANT_BLOCK_MAX];
        krn_unpack(e->type, g->bytes + e->offset, elements - f->block, f->block, out);
    }
}

/* Every tensor's place: its name is whole, an expert's name too. */
static void check_places(const struct krn_gguf *g, const struct krn_config *c) {
    struct status_note note = {""};
    struct krn_gguf_reader r = {.g = g, .note = &note};
    const struct krn_gguf_arch *a = krn_gguf_arch_of(&r);
    CHECK(a != NULL);
    for (uint32_t i = 0; i < g->table.n; i++) {
        struct krn_gguf_place place;
        char name[KRN_GGUF_PLACE_NAME];
        if (!krn_gguf_place(a, c, g->table.entries[i].name, &place))
            continue;
        size_t n = strlen(place.name);
        CHECK(n > 7 && (strcmp(place.name + n - 7, ".weight") == 0 ||
                        strcmp(place.name + n - 5, ".bias") == 0));
        CHECK(place.experts == 0 || place.experts == c->experts);
        if (place.experts == 0)
            continue;
        krn_gguf_expert_name(&place, 0, name);
        CHECK(strcmp(name, place.name) == 0);
        krn_gguf_expert_name(&place, KRN_EXPERTS_MAX - 1, name);
        CHECK(strlen(name) == n + 2);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct krn_gguf g;
    struct krn_config config;
    struct status_note note = {""};
    if (krn_gguf_parse("f", data, size, &g, &note) != STATUS_OK) {
        CHECK(g.n_values == 0 && g.values == NULL && g.table.entries == NULL);
        check_line(&note);
        return 0;
    }
    check_values(&g);
    check_tensors(&g);
    if (krn_gguf_config(&g, &config, &note) == STATUS_OK) {
        CHECK(krn_config_check("f", &config, &note) == STATUS_OK);
        check_places(&g, &config);
    } else {
        check_line(&note);
    }
    krn_gguf_free(&g);
    return 0;
}
