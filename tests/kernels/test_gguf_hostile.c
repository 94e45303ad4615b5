/* SPDX-License-Identifier: Apache-2.0
 * Hostile and broken GGUF files: each is refused with its status, in one line that names file, key
 * or tensor, and value, and nothing stays mapped or open.
 */
#include "tests/kernels/model_dir.h"

#include "tests/kernels/gguf_make.h"

#define G   "model.gguf"
#define ARC "general.architecture"
#define MAX UINT64_MAX

/* A whole small model with one lie. */
struct lie {
    const char *what;
    uint32_t version;             /* 0: 3 */
    uint64_t keys, tensors;       /* counts in the header; 0: the truth */
    const char *drop;             /* a key left out */
    const char *key;              /* a key added, with value bytes of this type */
    uint32_t key_type, key_bytes; /* of value */
    unsigned char value[24];
    const char *key2; /* another */
    uint32_t key2_type, key2_bytes;
    unsigned char value2[16];
    const char *tensor; /* a tensor added, or an own one spoiled when it has that name */
    uint32_t type, n_dims;
    uint64_t dims[5], name_bytes, shift; /* shift: added to its offset */
    uint64_t data;                       /* bytes of the added tensor */
    uint64_t cut, extra;                 /* bytes kept of the file (0: all), added to it */
    enum status status;
    const char *words[MODEL_DIR_WORDS];
};

#define U32(v)                                                                                     \
    .key_type = 4, .key_bytes = 4,                                                                 \
    .value = {(v)&255, (v) >> 8 & 255, (v) >> 16 & 255, (unsigned char)((v) >> 24)}
#define BAD .status = STATUS_BAD_FILE
#define NOT .status = STATUS_BAD_MODEL
#define FF8 255, 255, 255, 255, 255, 255, 255, 255

static const struct lie lies[] = {
    /* header */
    {"version 1", .version = 1, BAD, .words = {G, "version 1"}},
    {"version 4", .version = 4, BAD, .words = {G, "version 4"}},
    {"big-endian", .version = 3U << 24, BAD, .words = {G, "big-endian"}},
    {"only the magic", .cut = 4, BAD, .words = {G, "too few"}},
    {"cut in the counts", .cut = 23, BAD, .words = {G, "23 bytes are too few"}},
    {"cut in the magic", .cut = 3, BAD, .words = {G, "does not begin as a GGUF file"}},
    {"keys wrap", .keys = MAX, BAD, .words = {G, "18446744073709551615 keys"}},
    {"keys beyond the file", .keys = 60000, BAD, .words = {G, "60000 keys"}},
    {"one key too many", .keys = 15, BAD, .words = {G, "tensor 0"}},
    {"tensors wrap", .tensors = MAX, BAD, .words = {G, "18446744073709551615 tensors"}},
    {"tensors beyond the file", .tensors = 1 << 20, BAD, .words = {G, "1048576 tensors"}},
    {"one tensor too many", .tensors = 22, BAD, .words = {G, "tensor"}},
    {"one tensor too few", .tensors = 20, BAD, .words = {G, "tensor"}},
    /* keys */
    {"unknown value type", .key = "a.b", .key_type = 13, .key_bytes = 8, BAD,
     .words = {G, "key a.b", "unknown type 13"}},
    {"hostile value type", .key = "a.b", .key_type = 0xffffffff, .key_bytes = 8, BAD,
     .words = {G, "key a.b", "4294967295"}},
    {"truth value of 2", .key = "a.b", .key_type = 7, .key_bytes = 1, .value = {2}, BAD,
     .words = {G, "key a.b", "truth value is 2"}},
    {"text length wraps", .key = "a.b", .key_type = 8, .key_bytes = 8, .value = {FF8}, BAD,
     .words = {G, "key a.b", "18446744073709551615"}},
    {"text length beyond the file", .key = "a.b", .key_type = 8, .key_bytes = 8,
     .value = {0, 0, 0, 1}, BAD, .words = {G, "key a.b", "16777216 bytes"}},
    {"list of unknown type", .key = "a.b", .key_type = 9, .key_bytes = 12, .value = {99, 0}, BAD,
     .words = {G, "key a.b", "unknown type 99"}},
    {"list of lists", .key = "a.b", .key_type = 9, .key_bytes = 12, .value = {9, 0, 0, 0, 1}, BAD,
     .words = {G, "key a.b", "list of lists"}},
    {"list count wraps", .key = "a.b", .key_type = 9, .key_bytes = 12, .value = {4, 0, 0, 0, FF8},
     BAD, .words = {G, "key a.b", "18446744073709551615 elements"}},
    {"list bytes wrap", .key = "a.b", .key_type = 9, .key_bytes = 12,
     .value = {12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 32}, BAD,
     .words = {G, "key a.b", "2305843009213693953 elements"}},
    {"list of texts beyond the file", .key = "a.b", .key_type = 9, .key_bytes = 12,
     .value = {8, 0, 0, 0, 255, 255}, BAD, .words = {G, "key a.b", "ends beyond"}},
    {"a text of a list wraps", .key = "a.b", .key_type = 9, .key_bytes = 20,
     .value = {8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, FF8}, BAD,
     .words = {G, "key a.b", "18446744073709551615"}},
    {"key occurs twice", .key = "llama.block_count", U32(2), BAD,
     .words = {G, "llama.block_count", "twice"}},
    {"key with control characters", .key = "a\n\x1b", .key_type = 13, BAD,
     .words = {G, "a\\x0a\\x1b"}},
    {"empty key", .key = "", U32(1), BAD, .words = {G, "key 14", "empty"}},
    /* alignment */
    {"alignment 0", .key = "general.alignment", U32(0u), BAD,
     .words = {G, "general.alignment", "0 is not a power of two"}},
    {"alignment 48", .key = "general.alignment", U32(48u), BAD,
     .words = {G, "general.alignment", "48 is not"}},
    {"alignment 2^31", .key = "general.alignment", U32(0x80000000u), BAD,
     .words = {G, "tensor", "end beyond the 0 bytes"}},
    {"alignment as u64", .key = "general.alignment", .key_type = 10, .key_bytes = 8, .value = {32},
     BAD, .words = {G, "general.alignment", "u32"}},
    {"alignment larger than the data's", .key = "general.alignment", U32(4096u), BAD,
     .words = {G, "no multiple of 4096"}},
    /* tensors */
    {"no dimension", .tensor = "x", BAD, .words = {G, "tensor x", "0 dimensions"}},
    {"five dimensions", .tensor = "x", .n_dims = 5, .dims = {1, 1, 1, 1, 1}, BAD,
     .words = {G, "tensor x", "5 dimensions"}},
    {"dimension zero", .tensor = "x", .n_dims = 2, .dims = {4, 0}, BAD,
     .words = {G, "tensor x", "dimension 1 is zero"}},
    {"shape wraps", .tensor = "x", .n_dims = 3, .dims = {1ULL << 32, 1ULL << 32, 2}, BAD,
     .words = {G, "tensor x", "overflows at dimension 1"}},
    {"bytes wrap", .tensor = "x", .n_dims = 1, .dims = {1ULL << 62}, BAD,
     .words = {G, "tensor x", "4611686018427387904 elements of F32 overflow"}},
    {"bytes of blocks wrap", .tensor = "x", .type = 15, .n_dims = 2,
     .dims = {1ULL << 32, 0xffffffff}, BAD, .words = {G, "tensor x", "Q8_K overflow"}},
    {"data beyond the file", .tensor = "x", .n_dims = 1, .dims = {1 << 20}, BAD,
     .words = {G, "tensor x", "4194304 bytes at", "end beyond"}},
    {"unknown type", .tensor = "x", .type = 4, .n_dims = 1, .dims = {4}, BAD,
     .words = {G, "tensor x", "type 4 is unknown"}},
    {"hostile type", .tensor = "x", .type = 0xffffffff, .n_dims = 1, .dims = {4}, BAD,
     .words = {G, "tensor x", "4294967295"}},
    {"rows that are no whole blocks", .tensor = "x", .type = 2, .n_dims = 2, .dims = {16, 2}, BAD,
     .words = {G, "tensor x", "16 are not whole blocks of 32"}},
    {"empty name", .tensor = "", .n_dims = 1, .dims = {4}, .data = 16, BAD,
     .words = {G, "tensor 21", "empty"}},
    {"name of 65 bytes", .n_dims = 1, .dims = {4}, .data = 16,
     .tensor = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", BAD,
     .words = {G, "tensor 21", "65 bytes"}},
    {"name length wraps", .tensor = "x", .name_bytes = MAX, .n_dims = 1, .dims = {4}, BAD,
     .words = {G, "tensor 21", "18446744073709551615"}},
    {"offset wraps", .tensor = "x", .n_dims = 1, .dims = {8}, .data = 32, .shift = 0 - (uint64_t)32,
     BAD, .words = {G, "overlaps"}},
    {"offset near the top", .tensor = "x", .n_dims = 1, .dims = {8}, .data = 32,
     .shift = 1ULL << 63, BAD, .words = {G, "tensor x", "end beyond"}},
    {"offset between alignments", .tensor = "x", .n_dims = 1, .dims = {4}, .data = 64, .shift = 16,
     BAD, .words = {G, "tensor x", "no multiple of 32"}},
    {"a hole in the data", .tensor = "x", .n_dims = 1, .dims = {4}, .data = 64, .shift = 32, BAD,
     .words = {G, "tensor x", "belong to no tensor"}},
    {"a tensor over another", .tensor = "x", .n_dims = 1, .dims = {24}, .data = 32,
     .shift = 0 - (uint64_t)64, BAD, .words = {G, "overlaps"}},
    {"tensor occurs twice", .tensor = "output_norm.weight", .n_dims = 1, .dims = {48}, .data = 192,
     BAD, .words = {G, "output_norm.weight", "twice"}},
    {"bytes behind the data", .extra = 100, BAD, .words = {G, "at its end belong to no tensor"}},
    {"the file ends early", .cut = 20000, BAD, .words = {G, "tensor", "end beyond"}},
    {"the file ends in a key", .cut = 100, BAD, .words = {G, "key"}},
    {"the file ends in a tensor's entry", .cut = 1000, BAD, .words = {G, "tensor"}},
    /* metadata */
    {"no architecture", .drop = ARC, BAD, .words = {G, ARC, "missing"}},
    {"unknown architecture", .drop = ARC, .key = ARC, .key_type = 8, .key_bytes = 13,
     .value = {5, 0, 0, 0, 0, 0, 0, 0, 'm', 'a', 'm', 'b', 'a'}, NOT,
     .words = {G, ARC, "mamba", "llama"}},
    {"architecture is a number", .drop = ARC, .key = ARC, U32(7u), BAD,
     .words = {G, ARC, "not a text"}},
    {"no layers", .drop = "llama.block_count", BAD, .words = {G, "llama.block_count", "missing"}},
    {"layers zero", .drop = "llama.block_count", .key = "llama.block_count", U32(0u), NOT,
     .words = {G, "llama.block_count is 0"}},
    {"layers hostile", .drop = "llama.block_count", .key = "llama.block_count", U32(0xffffffffu),
     NOT, .words = {G, "llama.block_count is 4294967295"}},
    {"fewer layers than tensors", .drop = "llama.block_count", .key = "llama.block_count", U32(1u),
     NOT, .words = {G, "tensor blk.1."}},
    {"width is a text", .drop = "llama.embedding_length", .key = "llama.embedding_length",
     .key_type = 8, .key_bytes = 8, BAD, .words = {G, "llama.embedding_length", "whole number"}},
    {"width is negative", .drop = "llama.embedding_length", .key = "llama.embedding_length",
     .key_type = 5, .key_bytes = 4, .value = {255, 255, 255, 255}, NOT,
     .words = {G, "llama.embedding_length", "negative"}},
    {"heads of each layer", .drop = "llama.attention.head_count",
     .key = "llama.attention.head_count", .key_type = 9, .key_bytes = 20,
     .value = {4, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 4}, NOT,
     .words = {G, "llama.attention.head_count", "list"}},
    {"heads zero", .drop = "llama.attention.head_count", .key = "llama.attention.head_count",
     U32(0u), NOT, .words = {G, "llama.attention.head_count is 0"}},
    {"heads and key heads", .drop = "llama.attention.head_count_kv",
     .key = "llama.attention.head_count_kv", U32(3u), NOT, .words = {G, "multiple"}},
    {"part of a head rotates", .drop = "llama.rope.dimension_count",
     .key = "llama.rope.dimension_count", U32(8u), NOT,
     .words = {G, "llama.rope.dimension_count", "16"}},
    {"values of another width", .drop = "llama.attention.value_length",
     .key = "llama.attention.value_length", U32(32u), NOT,
     .words = {G, "llama.attention.value_length", "16"}},
    {"epsilon is NaN", .drop = "llama.attention.layer_norm_rms_epsilon",
     .key = "llama.attention.layer_norm_rms_epsilon", .key_type = 6, .key_bytes = 4,
     .value = {0, 0, 0xc0, 0x7f}, NOT, .words = {G, "layer_norm_rms_epsilon", "nan"}},
    {"rope base infinite", .drop = "llama.rope.freq_base", .key = "llama.rope.freq_base",
     .key_type = 6, .key_bytes = 4, .value = {0, 0, 0x80, 0x7f}, NOT,
     .words = {G, "llama.rope.freq_base", "inf"}},
    {"yarn", .key = "llama.rope.scaling.type", .key_type = 8, .key_bytes = 12,
     .value = {4, 0, 0, 0, 0, 0, 0, 0, 'y', 'a', 'r', 'n'}, NOT,
     .words = {G, "llama.rope.scaling.type", "yarn"}},
    {"a key that nobody honours", .key = "llama.attention.max_alibi_bias", U32(64u), NOT,
     .words = {G, "llama.attention.max_alibi_bias"}},
    {"a key of other architectures", .key = "llama.rope.freq_base_swa", U32(64u), NOT,
     .words = {G, "llama.rope.freq_base_swa"}},
    {"window beyond all contexts", .key = "llama.attention.sliding_window", U32(0xffffffffu), NOT,
     .words = {G, "llama.attention.sliding_window is 4294967295"}},
    {"windows of other layers", .key = "llama.attention.sliding_window", U32(64u), NOT,
     .key2 = "llama.attention.sliding_window_pattern", .key2_type = 9, .key2_bytes = 15,
     .value2 = {7, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1},
     .words = {G, "sliding_window_pattern", "2 truth values"}},
    {"experts without used ones", .key = "llama.expert_count", U32(8u), BAD,
     .words = {G, "llama.expert_used_count is missing"}},
    {"experts hostile", .key = "llama.expert_count", U32(0x80000000u), NOT,
     .words = {G, "llama.expert_count is 2147483648"}},
    {"more experts used than there are", .key = "llama.expert_count", U32(4u), NOT,
     .key2 = "llama.expert_used_count", .key2_type = 4, .key2_bytes = 4, .value2 = {5},
     .words = {G, "llama.expert_used_count is 5, outside 1 to 4"}},
    {"no expert used", .key = "llama.expert_count", U32(4u), NOT, .key2 = "llama.expert_used_count",
     .key2_type = 4, .key2_bytes = 4, .value2 = {0}, .words = {G, "llama.expert_used_count is 0"}},
    {"dense matrices of a mixture", .key = "llama.expert_count", U32(4u), NOT,
     .key2 = "llama.expert_used_count", .key2_type = 4, .key2_bytes = 4, .value2 = {2},
     .words = {G, "tensor blk.0.ffn_"}},
    {"one part of several", .key = "split.count", U32(2u), NOT, .words = {G, "split.count"}},
    {"vocabulary differs", .drop = "llama.vocab_size", .key = "llama.vocab_size", U32(95u), NOT,
     .words = {G, "llama.vocab_size is 95", "96 rows"}},
    {"end token outside", .key = "tokenizer.ggml.eos_token_id", U32(96u), NOT,
     .words = {G, "tokenizer.ggml.eos_token_id is 96"}},
    {"unknown tensor", .tensor = "blk.0.attn_q_norm.weight", .n_dims = 1, .dims = {16}, .data = 64,
     NOT, .words = {G, "blk.0.attn_q_norm.weight"}},
    {"a layer's number with a zero before it", .tensor = "blk.00.attn_q.weight", .n_dims = 1,
     .dims = {16}, .data = 64, NOT, .words = {G, "blk.00.attn_q.weight"}},
    {"a bias that layer 0 has not", .tensor = "blk.1.attn_q.bias", .n_dims = 1, .dims = {64},
     .data = 256, NOT, .words = {G, "blk.1.attn_q.bias"}},
    {"queries of other rows", .tensor = "blk.0.attn_q.bias", .n_dims = 1, .dims = {60}, .data = 240,
     NOT, .words = {G, "blk.0.attn_q.bias", "rows"}},
};

/* The keys are built anew without the dropped one: it is renamed to a key that changes nothing. */
static void drop_key(struct gguf_make *m, const char *key) {
    size_t n = strlen(key);
    for (size_t i = 0; i + n <= m->keys.n; i++)
        if (memcmp(m->keys.at + i, key, n) == 0 && m->keys.at[i - 8] == n) {
            memset(m->keys.at + i, 'z', n);
            return;
        }
    ck_abort_msg("no key %s", key);
}

START_TEST(test_lie) {
    const struct lie *l = &lies[_i];
    char dir[64], path[512];
    struct gguf_make make;
    struct krn_config c = small_config();
    struct krn_model *made = NULL;
    OK(krn_model_synthetic(&c, KRN_F16, 11, &made, &note));
    scratch_make(dir);
    gguf_begin(&make, l->version != 0 ? l->version : 3, 32);
    gguf_model_keys(&make, &c);
    if (l->drop != NULL)
        drop_key(&make, l->drop);
    if (l->key != NULL)
        gguf_key(&make, l->key, l->key_type, l->value, l->key_bytes);
    if (l->key2 != NULL)
        gguf_key(&make, l->key2, l->key2_type, l->value2, l->key2_bytes);
    gguf_model_tensors(&make, made, KRN_F16, true);
    make.lie_keys = l->keys;
    make.lie_tensors = l->tensors;
    if (l->tensor != NULL) {
        unsigned char data[1024] = {0};
        struct gguf_made *t =
            gguf_tensor(&make, l->tensor, l->type, l->n_dims, l->dims, data, l->data);
        t->name_bytes = l->name_bytes;
        t->offset += l->shift;
    }
    size_t n;
    unsigned char *bytes = gguf_end(&make, &n);
    unsigned char *longer = calloc(1, n + l->extra);
    ck_assert(longer != NULL && l->cut < n);
    memcpy(longer, bytes, n);
    write_file(dir, G, longer, l->cut != 0 ? l->cut : n + l->extra);
    free(longer);
    free(bytes);
    join(path, dir, G);
    check_refused(path, l->status, l->words, l->what);
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

/* Every cut of a file is refused, and so is every file with one byte of its table at its highest:
 * or it opens as some model. */
START_TEST(test_every_cut) {
    char dir[64], path[512];
    struct gguf_make make;
    struct krn_config c = small_config();
    struct krn_model *made = NULL, *read = NULL;
    c.layers = 1;
    OK(krn_model_synthetic(&c, KRN_F16, 11, &made, &note));
    scratch_make(dir);
    gguf_begin(&make, 3, 32);
    gguf_model_keys(&make, &c);
    gguf_model_tensors(&make, made, KRN_F16, true);
    size_t n, table;
    size_t data = make.data.n;
    unsigned char *bytes = gguf_end(&make, &n);
    table = n - data;
    join(path, dir, G);
    for (size_t cut = 1; cut < table; cut += 7) {
        write_file(dir, G, bytes, cut);
        ck_assert_int_eq(krn_model_open(path, &read, &note), STATUS_BAD_FILE);
    }
    for (size_t at = 4; at < table; at += 5) {
        unsigned char was = bytes[at];
        bytes[at] = 0xff;
        write_file(dir, G, bytes, n);
        if (krn_model_open(path, &read, &note) == STATUS_OK)
            krn_model_close(read);
        bytes[at] = was;
        ck_assert_int_eq(mappings_of(dir), 0);
    }
    write_file(dir, G, bytes, n);
    OK(krn_model_open(path, &read, &note));
    krn_model_close(read);
    free(bytes);
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

int main(void) {
    Suite *s = suite_create("gguf_hostile");
    TCase *t = tcase_create("gguf_hostile");
    tcase_set_timeout(t, 0);
    tcase_add_loop_test(t, test_lie, 0, (int)(sizeof lies / sizeof lies[0]));
    tcase_add_test(t, test_every_cut);
    suite_add_tcase(s, t);
    return test_run(s);
}
