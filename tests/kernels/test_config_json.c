/* SPDX-License-Identifier: Apache-2.0
 * config.json and generation_config.json: every field that is read, every default, every refusal
 * with the key and the value in its line.
 */
#include "tests/harness.h"

#include <math.h>
#include <string.h>

#include "kernels/weights/config_json.h"
#include "kernels/weights/json.h"

static struct status_note note;

static const char base[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"vocab_size\":4096,"
    "\"hidden_size\":256,\"intermediate_size\":704,\"num_hidden_layers\":6,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":4096,"
    "\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0}";

/* The base with the fields of `change` set (null takes a field away). The caller frees it. */
static char *changed(const char *change) {
    json_t *root = json_loads(base, 0, NULL);
    json_t *fields = json_loads(change, 0, NULL);
    ck_assert_msg(root != NULL && fields != NULL, "%s", change);
    ck_assert_int_eq(json_object_update(root, fields), 0);
    char *text = json_dumps(root, 0);
    ck_assert_ptr_nonnull(text);
    json_decref(root);
    json_decref(fields);
    return text;
}

static enum status parse(const char *change, const char *generation, struct krn_config *out) {
    char *text = changed(change);
    enum status s =
        krn_config_parse("m/config.json", text, strlen(text), "m/generation.json", generation,
                         generation == NULL ? 0 : strlen(generation), out, &note);
    free(text);
    return s;
}

static struct krn_config parsed(const char *change, const char *generation) {
    struct krn_config c;
    ck_assert_msg(parse(change, generation, &c) == STATUS_OK, "%s", note.text);
    return c;
}

START_TEST(test_fields) {
    struct krn_config c = parsed("{}", NULL);
    ck_assert_str_eq(c.family, "llama");
    ck_assert_uint_eq(c.vocab, 4096);
    ck_assert_uint_eq(c.hidden, 256);
    ck_assert_uint_eq(c.ffn, 704);
    ck_assert_uint_eq(c.layers, 6);
    ck_assert_uint_eq(c.heads, 4);
    ck_assert_uint_eq(c.kv_heads, 2);
    ck_assert_uint_eq(c.head_dim, 64);
    ck_assert_uint_eq(c.context, 4096);
    ck_assert(c.norm_eps == 1e-5F);
    ck_assert(c.rope.kind == KRN_ROPE_PLAIN && c.rope.theta == 10000.0);
    ck_assert(!c.tied && !c.attn_bias && !c.attn_out_bias && !c.mlp_bias && !c.has_sampling);
    ck_assert_int_eq(c.bos, -1);
    ck_assert_uint_eq(c.n_eos, 0);
    ck_assert(c.top_p == 1.0F);
}
END_TEST

START_TEST(test_defaults) {
    struct krn_config c = parsed("{\"num_key_value_heads\":null,\"rope_theta\":null,"
                                 "\"rms_norm_eps\":null,\"sliding_window\":null,"
                                 "\"quantization_config\":null,\"rope_scaling\":null,"
                                 "\"head_dim\":null,\"hidden_act\":null}",
                                 NULL);
    ck_assert_uint_eq(c.kv_heads, 4);
    ck_assert_uint_eq(c.head_dim, 64);
    ck_assert(c.rope.theta == 10000.0);
    ck_assert(c.norm_eps == 1e-6F);
}
END_TEST

START_TEST(test_flags) {
    struct krn_config c = parsed("{\"tie_word_embeddings\":true,\"mlp_bias\":true,"
                                 "\"attention_bias\":true,\"head_dim\":96,\"rope_theta\":500000}",
                                 NULL);
    ck_assert(c.tied && c.mlp_bias && c.attn_bias && c.attn_out_bias);
    ck_assert_uint_eq(c.head_dim, 96);
    ck_assert(c.rope.theta == 500000.0);
    c = parsed("{\"attention_bias\":true}", NULL);
    ck_assert(!c.tied && !c.mlp_bias && c.attn_bias);
}
END_TEST

#define LLAMA3                                                                                     \
    "\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"                             \
    "\"original_max_position_embeddings\":8192"

static void check_llama3(const struct krn_rope *r, double theta) {
    ck_assert(r->kind == KRN_ROPE_LLAMA3 && r->theta == theta && r->factor == 8.0);
    ck_assert(r->low_freq_factor == 1.0 && r->high_freq_factor == 4.0);
    ck_assert_uint_eq(r->original_context, 8192);
}

START_TEST(test_rope) {
    struct krn_config c;
    c = parsed("{\"rope_scaling\":{\"rope_type\":\"llama3\"," LLAMA3 "}}", NULL);
    check_llama3(&c.rope, 10000.0);
    c = parsed("{\"rope_scaling\":{\"type\":\"llama3\"," LLAMA3 "},\"rope_theta\":5e5}", NULL);
    check_llama3(&c.rope, 500000.0);
    c = parsed("{\"rope_theta\":null,\"rope_parameters\":{\"rope_theta\":5e5,"
               "\"rope_type\":\"llama3\"," LLAMA3 "}}",
               NULL);
    check_llama3(&c.rope, 500000.0);
    c = parsed("{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}", NULL);
    ck_assert(c.rope.kind == KRN_ROPE_LINEAR && c.rope.factor == 2.0);
    c = parsed("{\"rope_scaling\":{\"rope_type\":\"default\",\"type\":\"linear\"}}", NULL);
    ck_assert(c.rope.kind == KRN_ROPE_PLAIN);
    c = parsed("{\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":7e4}}", NULL);
    ck_assert(c.rope.kind == KRN_ROPE_PLAIN && c.rope.theta == 70000.0);
}
END_TEST

START_TEST(test_tokens) {
    struct krn_config c = parsed("{\"bos_token_id\":0,\"eos_token_id\":1}", NULL);
    ck_assert_int_eq(c.bos, 0);
    ck_assert(c.n_eos == 1 && c.eos[0] == 1);
    c = parsed("{\"eos_token_id\":[4095,1,2]}", NULL);
    ck_assert(c.n_eos == 3 && c.eos[0] == 4095 && c.eos[1] == 1 && c.eos[2] == 2);
    c = parsed("{\"eos_token_id\":[]}", NULL);
    ck_assert_uint_eq(c.n_eos, 0);
    /* generation_config.json wins where it says something */
    c = parsed("{\"bos_token_id\":7,\"eos_token_id\":[1,2]}", "{\"eos_token_id\":[5]}");
    ck_assert(c.bos == 7 && c.n_eos == 1 && c.eos[0] == 5);
    c = parsed("{\"eos_token_id\":[1,2]}", "{\"eos_token_id\":null,\"bos_token_id\":3}");
    ck_assert(c.bos == 3 && c.n_eos == 2 && c.eos[1] == 2);
    c = parsed("{}", "{\"eos_token_id\":9}");
    ck_assert(c.n_eos == 1 && c.eos[0] == 9);
}
END_TEST

START_TEST(test_sampling) {
    struct krn_config c = parsed(
        "{}", "{\"do_sample\":true,\"temperature\":0.7,\"top_p\":0.9,\"top_k\":40,\"x\":[{}]}");
    ck_assert(c.has_sampling && c.temperature == 0.7F && c.top_p == 0.9F && c.top_k == 40);
    c = parsed("{}", "{\"do_sample\":true}");
    ck_assert(c.has_sampling && c.temperature == 1.0F && c.top_p == 1.0F && c.top_k == 0);
    c = parsed("{}", "{\"do_sample\":false,\"temperature\":0.7,\"top_p\":7}");
    ck_assert(!c.has_sampling && c.temperature == 0.0F && c.top_p == 1.0F);
    c = parsed("{}", "{\"temperature\":0.7}");
    ck_assert(!c.has_sampling);
}
END_TEST

/* Limits that are still inside. */
START_TEST(test_edges) {
    struct krn_config c;
    c = parsed("{\"max_position_embeddings\":1048576}", NULL);
    ck_assert_uint_eq(c.context, 1048576);
    c = parsed("{\"max_position_embeddings\":1,\"num_hidden_layers\":1,\"vocab_size\":1}", NULL);
    ck_assert_uint_eq(c.vocab, 1);
    c = parsed("{\"head_dim\":256}", NULL);
    ck_assert_uint_eq(c.head_dim, 256);
    c = parsed("{\"head_dim\":16,\"hidden_size\":1}", NULL);
    ck_assert_uint_eq(c.hidden, 1);
    c = parsed("{\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}", NULL);
    ck_assert_uint_eq(c.n_eos, 16);
}
END_TEST

struct refusal {
    const char *change;
    enum status status;
    const char *words[3];
};

static const struct refusal refusals[] = {
    {"{\"architectures\":null}", STATUS_BAD_FILE, {"architectures", "list of one name"}},
    {"{\"architectures\":[]}", STATUS_BAD_FILE, {"architectures", "list of one name"}},
    {"{\"architectures\":\"LlamaForCausalLM\"}", STATUS_BAD_FILE, {"architectures", "list"}},
    {"{\"architectures\":[\"NoneForCausalLM\"]}",
     STATUS_BAD_MODEL,
     {"architectures", "NoneForCausalLM", "knows LlamaForCausalLM"}},
    {"{\"architectures\":[\"a\\nb\"]}", STATUS_BAD_MODEL, {"architectures", "a\\x0ab"}},
    {"{\"vocab_size\":null}", STATUS_BAD_FILE, {"vocab_size", "is missing"}},
    {"{\"vocab_size\":0}", STATUS_BAD_MODEL, {"vocab_size is 0, outside 1 to"}},
    {"{\"vocab_size\":-5}", STATUS_BAD_MODEL, {"vocab_size is -5"}},
    {"{\"vocab_size\":4294967297}", STATUS_BAD_MODEL, {"vocab_size is 4294967297"}},
    {"{\"vocab_size\":9223372036854775807}", STATUS_BAD_MODEL, {"vocab_size is 92233720368547758"}},
    {"{\"vocab_size\":4096.0}", STATUS_BAD_FILE, {"vocab_size is not an integer"}},
    {"{\"vocab_size\":\"4096\"}", STATUS_BAD_FILE, {"vocab_size is not an integer"}},
    {"{\"vocab_size\":true}", STATUS_BAD_FILE, {"vocab_size is not an integer"}},
    {"{\"hidden_size\":null}", STATUS_BAD_FILE, {"hidden_size is missing"}},
    {"{\"hidden_size\":0}", STATUS_BAD_MODEL, {"hidden_size is 0"}},
    {"{\"hidden_size\":65537}", STATUS_BAD_MODEL, {"hidden_size is 65537"}},
    {"{\"hidden_size\":258}", STATUS_BAD_MODEL, {"hidden_size 258", "num_attention_heads 4"}},
    {"{\"intermediate_size\":null}", STATUS_BAD_FILE, {"intermediate_size is missing"}},
    {"{\"intermediate_size\":0}", STATUS_BAD_MODEL, {"intermediate_size is 0"}},
    {"{\"num_hidden_layers\":null}", STATUS_BAD_FILE, {"num_hidden_layers is missing"}},
    {"{\"num_hidden_layers\":0}", STATUS_BAD_MODEL, {"num_hidden_layers is 0"}},
    {"{\"num_hidden_layers\":1025}", STATUS_BAD_MODEL, {"num_hidden_layers is 1025"}},
    {"{\"num_attention_heads\":null}", STATUS_BAD_FILE, {"num_attention_heads is missing"}},
    {"{\"num_attention_heads\":0}", STATUS_BAD_MODEL, {"num_attention_heads is 0"}},
    {"{\"num_attention_heads\":0,\"num_key_value_heads\":null}",
     STATUS_BAD_MODEL,
     {"num_attention_heads is 0"}},
    {"{\"num_key_value_heads\":0}", STATUS_BAD_MODEL, {"num_key_value_heads is 0"}},
    {"{\"num_key_value_heads\":3}",
     STATUS_BAD_MODEL,
     {"num_attention_heads 4 is not a multiple of num_key_value_heads 3"}},
    {"{\"num_key_value_heads\":8}", STATUS_BAD_MODEL, {"not a multiple of num_key_value_heads 8"}},
    {"{\"head_dim\":0}", STATUS_BAD_MODEL, {"head_dim is 0"}},
    {"{\"head_dim\":40}", STATUS_BAD_MODEL, {"head_dim is 40", "multiple of 16"}},
    {"{\"head_dim\":8}", STATUS_BAD_MODEL, {"head_dim is 8"}},
    {"{\"head_dim\":272}", STATUS_BAD_MODEL, {"head_dim is 272", "256"}},
    {"{\"max_position_embeddings\":null}", STATUS_BAD_FILE, {"max_position_embeddings is missing"}},
    {"{\"max_position_embeddings\":0}", STATUS_BAD_MODEL, {"max_position_embeddings is 0"}},
    {"{\"max_position_embeddings\":1048577}",
     STATUS_BAD_MODEL,
     {"max_position_embeddings is 1048577"}},
    {"{\"rms_norm_eps\":0}", STATUS_BAD_MODEL, {"rms_norm_eps is 0"}},
    {"{\"rms_norm_eps\":-1e-5}", STATUS_BAD_MODEL, {"rms_norm_eps is -1e-05"}},
    {"{\"rms_norm_eps\":1e300}", STATUS_BAD_MODEL, {"rms_norm_eps is inf"}},
    {"{\"rms_norm_eps\":1e-300}", STATUS_BAD_MODEL, {"rms_norm_eps is 0"}},
    {"{\"rms_norm_eps\":\"1e-5\"}", STATUS_BAD_FILE, {"rms_norm_eps is not a number"}},
    {"{\"rope_theta\":0}", STATUS_BAD_MODEL, {"rope_theta is 0"}},
    {"{\"rope_theta\":-10000}", STATUS_BAD_MODEL, {"rope_theta is -10000"}},
    {"{\"rope_theta\":[1]}", STATUS_BAD_FILE, {"rope_theta is not a number"}},
    {"{\"rope_scaling\":[]}", STATUS_BAD_FILE, {"rope_scaling is not an object"}},
    {"{\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2}}",
     STATUS_BAD_MODEL,
     {"rope_scaling.rope_type is dynamic", "length"}},
    {"{\"rope_scaling\":{\"type\":\"longrope\"}}", STATUS_BAD_MODEL, {"rope_type is longrope"}},
    {"{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}}",
     STATUS_BAD_MODEL,
     {"rope_type is yarn", "knows default, linear and llama3"}},
    {"{\"rope_scaling\":{\"type\":7}}", STATUS_BAD_FILE, {"rope_scaling.type is not a string"}},
    {"{\"rope_scaling\":{\"type\":\"linear\"}}",
     STATUS_BAD_FILE,
     {"rope_scaling.factor is missing"}},
    {"{\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}}",
     STATUS_BAD_MODEL,
     {"factor is 0.5"}},
    {"{\"rope_scaling\":{\"type\":\"linear\",\"factor\":\"2\"}}",
     STATUS_BAD_FILE,
     {"rope_scaling.factor is not a number"}},
    {"{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8}}",
     STATUS_BAD_FILE,
     {"rope_scaling.low_freq_factor is missing"}},
    {"{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
     "\"high_freq_factor\":4,\"original_max_position_embeddings\":8192}}",
     STATUS_BAD_MODEL,
     {"high_freq_factor is 4", "above low_freq_factor"}},
    {"{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":0,"
     "\"high_freq_factor\":4,\"original_max_position_embeddings\":8192}}",
     STATUS_BAD_MODEL,
     {"low_freq_factor is 0"}},
    {"{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
     "\"high_freq_factor\":4,\"original_max_position_embeddings\":0}}",
     STATUS_BAD_MODEL,
     {"rope_scaling.original_max_position_embeddings is 0"}},
    {"{\"rope_parameters\":{\"rope_type\":\"yarn\"}}",
     STATUS_BAD_MODEL,
     {"rope_parameters.rope_type is yarn"}},
    {"{\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"yarn\"},"
     "\"sliding_attention\":{}}}",
     STATUS_BAD_MODEL,
     {"rope_parameters.full_attention", "one set of angles"}},
    {"{\"rope_parameters\":{\"rope_type\":\"default\"},\"rope_scaling\":{\"type\":\"linear\"}}",
     STATUS_BAD_MODEL,
     {"rope_scaling and rope_parameters are both set and differ"}},
    {"{\"partial_rotary_factor\":0.5}", STATUS_BAD_MODEL, {"partial_rotary_factor is not 1"}},
    {"{\"hidden_act\":\"gelu\"}", STATUS_BAD_MODEL, {"hidden_act is gelu", "knows silu"}},
    {"{\"hidden_act\":1}", STATUS_BAD_FILE, {"hidden_act is not a string"}},
    {"{\"sliding_window\":4096}", STATUS_BAD_MODEL, {"sliding_window is set"}},
    {"{\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
     STATUS_BAD_MODEL,
     {"layer_types names sliding_attention"}},
    {"{\"quantization_config\":{\"quant_method\":\"gptq\"}}",
     STATUS_BAD_MODEL,
     {"quantization_config asks for gptq"}},
    {"{\"quantization_config\":[]}", STATUS_BAD_MODEL, {"quantization_config asks for unnamed"}},
    {"{\"attention_bias\":1}", STATUS_BAD_FILE, {"attention_bias is not true or false"}},
    {"{\"mlp_bias\":\"no\"}", STATUS_BAD_FILE, {"mlp_bias is not true or false"}},
    {"{\"tie_word_embeddings\":0}", STATUS_BAD_FILE, {"tie_word_embeddings is not true or false"}},
    {"{\"bos_token_id\":4096}", STATUS_BAD_MODEL, {"bos_token_id is 4096, outside 0 to 4095"}},
    {"{\"bos_token_id\":-1}", STATUS_BAD_MODEL, {"bos_token_id is -1"}},
    {"{\"bos_token_id\":[1]}", STATUS_BAD_FILE, {"bos_token_id is not an integer"}},
    {"{\"eos_token_id\":4096}", STATUS_BAD_MODEL, {"eos_token_id is 4096", "vocabulary of 4096"}},
    {"{\"eos_token_id\":[1,-1]}", STATUS_BAD_MODEL, {"eos_token_id is -1"}},
    {"{\"eos_token_id\":[1,\"2\"]}", STATUS_BAD_FILE, {"eos_token_id holds something else"}},
    {"{\"eos_token_id\":{}}", STATUS_BAD_FILE, {"eos_token_id holds something else"}},
    {"{\"eos_token_id\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}",
     STATUS_BAD_MODEL,
     {"eos_token_id lists 17 ids, at most 16"}},
};
enum { REFUSALS = sizeof refusals / sizeof refusals[0] };

static void check_note(const struct refusal *r, const char *file) {
    ck_assert_msg(strstr(note.text, file) != NULL, "no %s in: %s", file, note.text);
    ck_assert_msg(strchr(note.text, '\n') == NULL, "not one line: %s", note.text);
    for (size_t i = 0; i < 3 && r->words[i] != NULL; i++)
        ck_assert_msg(strstr(note.text, r->words[i]) != NULL, "%s: no \"%s\" in: %s", r->change,
                      r->words[i], note.text);
}

START_TEST(test_refused) {
    const struct refusal *r = &refusals[_i];
    struct krn_config c;
    memset(&c, 0x5a, sizeof c);
    struct krn_config untouched = c;
    enum status s = parse(r->change, NULL, &c);
    ck_assert_msg(s == r->status, "%s: %s: %s", r->change, status_name(s), note.text);
    ck_assert_mem_eq(&c, &untouched, sizeof c);
    check_note(r, "m/config.json");
}
END_TEST

static const struct refusal generations[] = {
    {"[]", STATUS_BAD_FILE, {"not an object"}},
    {"{\"do_sample\":1}", STATUS_BAD_FILE, {"do_sample is not true or false"}},
    {"{\"do_sample\":true,\"temperature\":-0.1}", STATUS_BAD_MODEL, {"temperature is -0.1"}},
    {"{\"do_sample\":true,\"temperature\":1e39}", STATUS_BAD_MODEL, {"temperature is inf"}},
    {"{\"do_sample\":true,\"temperature\":\"hot\"}", STATUS_BAD_FILE, {"temperature is not a num"}},
    {"{\"do_sample\":true,\"top_p\":0}", STATUS_BAD_MODEL, {"top_p is 0"}},
    {"{\"do_sample\":true,\"top_p\":1.5}", STATUS_BAD_MODEL, {"top_p is 1.5"}},
    {"{\"do_sample\":true,\"top_k\":-1}", STATUS_BAD_MODEL, {"top_k is -1"}},
    {"{\"do_sample\":true,\"top_k\":0.5}", STATUS_BAD_FILE, {"top_k is not an integer"}},
    {"{\"eos_token_id\":5000}", STATUS_BAD_MODEL, {"eos_token_id is 5000"}},
    {"{\"bos_token_id\":5000}", STATUS_BAD_MODEL, {"bos_token_id is 5000"}},
};
enum { GENERATIONS = sizeof generations / sizeof generations[0] };

START_TEST(test_generation_refused) {
    const struct refusal *r = &generations[_i];
    struct krn_config c;
    enum status s = parse("{}", r->change, &c);
    ck_assert_msg(s == r->status, "%s: %s: %s", r->change, status_name(s), note.text);
    check_note(r, "m/generation.json");
}
END_TEST

/* Text that no JSON library should be trusted with. */
static const struct refusal texts[] = {
    {"", STATUS_BAD_FILE, {"not valid JSON"}},
    {"{", STATUS_BAD_FILE, {"not valid JSON"}},
    {"null", STATUS_BAD_FILE, {"not valid JSON"}},
    {"{\"rms_norm_eps\": NaN}",
     STATUS_BAD_FILE,
     {"not valid JSON in rms_norm_eps:", "invalid token"}},
    {"{\"rms_norm_eps\": Infinity}",
     STATUS_BAD_FILE,
     {"not valid JSON in rms_norm_eps:", "invalid token"}},
    {"{\"rms_norm_eps\": 1e999}", STATUS_BAD_FILE, {"not valid JSON", "real number overflow"}},
    {"{\"vocab_size\": 99999999999999999999}",
     STATUS_BAD_FILE,
     {"not valid JSON in vocab_size:", "too big"}},
    {"{\"vocab_size\": 1, \"vocab_size\": 2}", STATUS_BAD_FILE, {"duplicate", "vocab_size"}},
    {"{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", STATUS_BAD_FILE, {"nests deeper than 32"}},
    {"{\"a\":{\"b\\\"c\" :[{}, 1, {\"d\": 1}, -]}}", STATUS_BAD_FILE, {"JSON in a.b\\x5c\"c:"}},
    {"{\"\xc3\x28\":1}", STATUS_BAD_FILE, {"not valid JSON"}},
};
enum { TEXTS = sizeof texts / sizeof texts[0] };

START_TEST(test_text_refused) {
    const struct refusal *r = &texts[_i];
    struct krn_config c;
    enum status s =
        krn_config_parse("m/config.json", r->change, strlen(r->change), "", NULL, 0, &c, &note);
    ck_assert_msg(s == r->status, "%s: %s: %s", r->change, status_name(s), note.text);
    check_note(r, "m/config.json");
}
END_TEST

/* Values that cannot come out of a file but out of a caller. */
START_TEST(test_check) {
    struct krn_config good = parsed("{}", NULL), c = good;
    c.norm_eps = NAN;
    ck_assert_int_eq(krn_config_check("x", &c, &note), STATUS_BAD_MODEL);
    ck_assert_ptr_nonnull(strstr(note.text, "rms_norm_eps is nan"));
    c = good;
    c.rope.theta = NAN;
    ck_assert_int_eq(krn_config_check("x", &c, &note), STATUS_BAD_MODEL);
    ck_assert_ptr_nonnull(strstr(note.text, "rope_theta"));
    c = good;
    c.rope.kind = (enum krn_rope_kind)7;
    ck_assert_int_eq(krn_config_check("x", &c, &note), STATUS_BAD_MODEL);
    ck_assert_ptr_nonnull(strstr(note.text, "rope_type"));
    c = good;
    c.has_sampling = true;
    c.temperature = NAN;
    ck_assert_int_eq(krn_config_check("x", &c, &note), STATUS_BAD_MODEL);
    ck_assert_ptr_nonnull(strstr(note.text, "temperature"));
    ck_assert_int_eq(krn_config_check("x", &good, &note), STATUS_OK);
}
END_TEST

/* Labels and quotes stay in bounds, on one line and whole in their characters. */
START_TEST(test_labels) {
    char path[4096], label[KRN_LABEL_BYTES], quote[KRN_QUOTE_BYTES];
    ck_assert_str_eq(krn_label(label, "a/b\nc"), "a/b?c");
    for (size_t n = 100; n < 140; n++) {
        memset(path, 'p', n);
        path[n] = '\0';
        krn_label(label, path);
        ck_assert_uint_lt(strlen(label), KRN_LABEL_BYTES);
        ck_assert_int_eq(label[0] == '.', n > KRN_LABEL_BYTES - 4);
        krn_quote(quote, path);
        ck_assert_uint_lt(strlen(quote), KRN_QUOTE_BYTES);
        memset(path, '\x01', n);
        krn_quote(quote, path);
        ck_assert_uint_lt(strlen(quote), KRN_QUOTE_BYTES);
        ck_assert_ptr_nonnull(strstr(quote, "\\x01"));
    }
    for (int i = 0; i < 100; i++)
        memcpy(path + 2 * i, "\xc3\xa9", 3);
    for (int skip = 0; skip < 2; skip++) {
        memmove(path + skip, path, 201);
        path[0] = skip == 1 ? 'x' : path[0];
        krn_label(label, path);
        ck_assert_int_eq((unsigned char)label[3], 0xc3);
    }
    ck_assert_str_eq(krn_quote(quote, "caf\xc3\xa9 \\"), "caf\\xc3\\xa9 \\x5c");
}
END_TEST

int main(void) {
    Suite *s = suite_create("config_json");
    TCase *t = tcase_create("config");
    tcase_add_test(t, test_fields);
    tcase_add_test(t, test_defaults);
    tcase_add_test(t, test_flags);
    tcase_add_test(t, test_rope);
    tcase_add_test(t, test_tokens);
    tcase_add_test(t, test_sampling);
    tcase_add_test(t, test_edges);
    tcase_add_loop_test(t, test_refused, 0, REFUSALS);
    tcase_add_loop_test(t, test_generation_refused, 0, GENERATIONS);
    tcase_add_loop_test(t, test_text_refused, 0, TEXTS);
    tcase_add_test(t, test_check);
    tcase_add_test(t, test_labels);
    suite_add_tcase(s, t);
    return test_run(s);
}
