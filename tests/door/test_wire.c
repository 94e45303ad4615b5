/* SPDX-License-Identifier: Apache-2.0
 * The strict decoder, without any actor: what is accepted and what it becomes, and a table of what
 * is refused with which code and field.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/door/wire.h"
#include "tests/harness.h"

static struct door_arena arena;
static struct door_call call;
static struct door_error error;
static const struct door_limits limits = {
    .context = 100,
    .vocab = 1000,
    .has_text = true,
    .has_chat = true,
    .sampling = {.temperature = 0.5f, .top_p = 0.75f, .top_k = 7, .repetition = 1},
    .drain_ms = 4000};

/* ' stands for ". */
static bool decode(const char *text) {
    static char bytes[1 << 16];
    size_t n = strlen(text);
    ck_assert_uint_lt(n, sizeof bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = text[i] == '\'' ? '"' : text[i];
    memset(&call, 0xa5, sizeof call);
    memset(&error, 0xa5, sizeof error);
    return door_decode(&arena, &limits, bytes, n, &call, &error);
}

static void setup(void) {
    door_json_setup();
    ck_assert(door_arena_open(&arena, DOOR_ARENA_BYTES));
}

static void teardown(void) {
    door_arena_close(&arena);
}

#define S "{'cmd':'submit','name':'n','prompt_ids':[1]"
static const struct {
    const char *text;
    enum status status;
    const char *field;
} bad[] = {
    /* not JSON, or not an object */
    {"", STATUS_BAD_REQUEST, ""},
    {"   ", STATUS_BAD_REQUEST, ""},
    {"{", STATUS_BAD_REQUEST, ""},
    {"}", STATUS_BAD_REQUEST, ""},
    {"[]", STATUS_BAD_REQUEST, ""},
    {"'submit'", STATUS_BAD_REQUEST, ""},
    {"7", STATUS_BAD_REQUEST, ""},
    {"null", STATUS_BAD_REQUEST, ""},
    {"nul", STATUS_BAD_REQUEST, ""},
    {"{} {}", STATUS_BAD_REQUEST, ""},
    {"{'cmd':'ping'} x", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':'ping',}", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd' 'ping'}", STATUS_BAD_REQUEST, ""},
    {"{cmd:'ping'}", STATUS_BAD_REQUEST, ""},
    {"{'cmd':'ping", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':'pi\ng'}", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':'\\q'}", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':'\\ud800'}", STATUS_BAD_REQUEST, "cmd"},
    {"\xef\xbb\xbf{'cmd':'ping'}", STATUS_BAD_REQUEST, ""},
    /* invalid UTF-8 */
    {"{'cmd':'p\xffing'}", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':'\xc0\xaf'}", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':'\xed\xa0\x80'}", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':'\xf5\x80\x80\x80'}", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':'\xe2\x82'}", STATUS_BAD_REQUEST, "cmd"},
    {"{'a\xff':1}", STATUS_BAD_REQUEST, "a\xff"},
    /* the command */
    {"{}", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':1}", STATUS_BAD_REQUEST, "cmd"},
    /* stored sessions */
    {"{'cmd':'stored','from':-1}", STATUS_BAD_REQUEST, "from"},
    {"{'cmd':'stored','session':'00112233445566778899aabbccddeeff'}", STATUS_BAD_REQUEST,
     "session"},
    {"{'cmd':'stored','tenant':'a b'}", STATUS_BAD_REQUEST, "tenant"},
    {"{'cmd':'tokens'}", STATUS_BAD_REQUEST, "session"},
    {"{'cmd':'tokens','session':7}", STATUS_BAD_REQUEST, "session"},
    {"{'cmd':'forget','session':''}", STATUS_BAD_REQUEST, "session"},
    {"{'cmd':'forget','session':'00112233445566778899AABBCCDDEEFF'}", STATUS_BAD_REQUEST,
     "session"},
    {"{'cmd':'forget','session':'00112233445566778899aabbccddeef'}", STATUS_BAD_REQUEST, "session"},
    {"{'cmd':'forget','session':'00112233445566778899aabbccddeeff0'}", STATUS_BAD_REQUEST,
     "session"},
    {"{'cmd':'forget','session':'00112233445566778899aabbccddee f'}", STATUS_BAD_REQUEST,
     "session"},
    {"{'cmd':'pin','session':'00112233445566778899aabbccddeeff','on':1}", STATUS_BAD_REQUEST, "on"},
    {"{'cmd':null}", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':['ping']}", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':'Ping'}", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':'ping\\u0000'}", STATUS_BAD_REQUEST, "cmd"},
    {"{'cmd':'shutdown'}", STATUS_BAD_REQUEST, "cmd"},
    /* duplicates, depth, unknown fields */
    {"{'cmd':'ping','cmd':'ping'}", STATUS_BAD_REQUEST, "cmd"},
    {S ",'seed':1,'seed':2}", STATUS_BAD_REQUEST, "seed"},
    {S ",'logit_bias':{'1':1,'1':2}}", STATUS_BAD_REQUEST, "1"},
    {"{'cmd':[[[[[[[[[1]]]]]]]]]}", STATUS_TOO_LARGE, "cmd"},
    {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", STATUS_TOO_LARGE, ""},
    {"{'cmd':'ping','extra':1}", STATUS_BAD_REQUEST, "extra"},
    {"{'cmd':'info','name':'x'}", STATUS_BAD_REQUEST, "name"},
    {"{'cmd':'read','name':'x','prompt':'y'}", STATUS_BAD_REQUEST, "prompt"},
    {S ",'Temperature':1}", STATUS_BAD_REQUEST, "Temperature"},
    {S ",'max_token':1}", STATUS_BAD_REQUEST, "max_token"},
    {S ",'':1}", STATUS_BAD_REQUEST, ""},
    /* names */
    {"{'cmd':'submit','prompt_ids':[1]}", STATUS_BAD_REQUEST, "name"},
    {"{'cmd':'submit','name':'','prompt_ids':[1]}", STATUS_BAD_REQUEST, "name"},
    {"{'cmd':'submit','name':7,'prompt_ids':[1]}", STATUS_BAD_REQUEST, "name"},
    {"{'cmd':'submit','name':'a b','prompt_ids':[1]}", STATUS_BAD_REQUEST, "name"},
    {"{'cmd':'submit','name':'a\\u0000b','prompt_ids':[1]}", STATUS_BAD_REQUEST, "name"},
    {"{'cmd':'submit','name':'\xc3\xa9','prompt_ids':[1]}", STATUS_BAD_REQUEST, "name"},
    {"{'cmd':'read'}", STATUS_BAD_REQUEST, "name"},
    {"{'cmd':'cancel','name':null}", STATUS_BAD_REQUEST, "name"},
    {S ",'tenant':''}", STATUS_BAD_REQUEST, "tenant"},
    {S ",'tenant':3}", STATUS_BAD_REQUEST, "tenant"},
    /* prompts */
    {"{'cmd':'submit','name':'n'}", STATUS_BAD_REQUEST, "prompt"},
    {S ",'prompt':'x'}", STATUS_BAD_REQUEST, "prompt"},
    {"{'cmd':'submit','name':'n','prompt':''}", STATUS_EMPTY_PROMPT, "prompt"},
    {"{'cmd':'submit','name':'n','prompt':1}", STATUS_BAD_REQUEST, "prompt"},
    {"{'cmd':'submit','name':'n','prompt':null}", STATUS_BAD_REQUEST, "prompt"},
    {"{'cmd':'submit','name':'n','prompt_ids':[]}", STATUS_EMPTY_PROMPT, "prompt_ids"},
    {"{'cmd':'submit','name':'n','prompt_ids':{}}", STATUS_BAD_REQUEST, "prompt_ids"},
    {"{'cmd':'submit','name':'n','prompt_ids':'1'}", STATUS_BAD_REQUEST, "prompt_ids"},
    {"{'cmd':'submit','name':'n','prompt_ids':[1.5]}", STATUS_BAD_REQUEST, "prompt_ids"},
    {"{'cmd':'submit','name':'n','prompt_ids':[1.0]}", STATUS_BAD_REQUEST, "prompt_ids"},
    {"{'cmd':'submit','name':'n','prompt_ids':[true]}", STATUS_BAD_REQUEST, "prompt_ids"},
    {"{'cmd':'submit','name':'n','prompt_ids':[[1]]}", STATUS_BAD_REQUEST, "prompt_ids"},
    {"{'cmd':'submit','name':'n','prompt_ids':[-1]}", STATUS_BAD_TOKEN, "prompt_ids"},
    {"{'cmd':'submit','name':'n','prompt_ids':[1000]}", STATUS_BAD_TOKEN, "prompt_ids"},
    {"{'cmd':'submit','name':'n','prompt_ids':[4294967296]}", STATUS_BAD_TOKEN, "prompt_ids"},
    {"{'cmd':'submit','name':'n','messages':[]}", STATUS_EMPTY_PROMPT, "messages"},
    {S ",'thinking':true}", STATUS_BAD_REQUEST, "thinking"},
    {S ",'template_date':'2024-07-26'}", STATUS_BAD_REQUEST, "template_date"},
    {"{'cmd':'submit','name':'n','messages':[{'role':'user','content':'x'}],'thinking':1}",
     STATUS_BAD_REQUEST, "thinking"},
    {"{'cmd':'submit','name':'n','messages':[{'role':'user','content':'x'}],'template_date':7}",
     STATUS_BAD_REQUEST, "template_date"},
    {"{'cmd':'submit','name':'n','messages':[{'role':'user','content':'x'}],"
     "'template_date':'2024\\u0000'}",
     STATUS_BAD_REQUEST, "template_date"},
    {"{'cmd':'submit','name':'n','messages':'hi'}", STATUS_BAD_REQUEST, "messages"},
    {"{'cmd':'submit','name':'n','messages':['hi']}", STATUS_BAD_REQUEST, "messages"},
    {"{'cmd':'submit','name':'n','messages':[{'content':'x'}]}", STATUS_BAD_REQUEST, "role"},
    {"{'cmd':'submit','name':'n','messages':[{'role':'tool','content':'x'}]}", STATUS_BAD_REQUEST,
     "role"},
    {"{'cmd':'submit','name':'n','messages':[{'role':'user','content':1}]}", STATUS_BAD_REQUEST,
     "content"},
    {"{'cmd':'submit','name':'n','messages':[{'role':'user'}]}", STATUS_BAD_REQUEST, "content"},
    {"{'cmd':'submit','name':'n','messages':[{'role':'user','content':'x','name':'y'}]}",
     STATUS_BAD_REQUEST, "name"},
    {S ",'parse_special':true}", STATUS_BAD_REQUEST, "parse_special"},
    {S ",'bos':1}", STATUS_BAD_REQUEST, "bos"},
    /* numbers */
    {S ",'max_tokens':0}", STATUS_BAD_REQUEST, "max_tokens"},
    {S ",'max_tokens':-5}", STATUS_BAD_REQUEST, "max_tokens"},
    {S ",'max_tokens':1.5}", STATUS_BAD_REQUEST, "max_tokens"},
    {S ",'max_tokens':10.0}", STATUS_BAD_REQUEST, "max_tokens"},
    {S ",'max_tokens':1e30}", STATUS_BAD_REQUEST, "max_tokens"},
    {S ",'max_tokens':'5'}", STATUS_BAD_REQUEST, "max_tokens"},
    {S ",'max_tokens':null}", STATUS_BAD_REQUEST, "max_tokens"},
    {S ",'max_tokens':true}", STATUS_BAD_REQUEST, "max_tokens"},
    {S ",'max_tokens':1048577}", STATUS_TOO_LARGE, "max_tokens"},
    {S ",'max_tokens':4294967297}", STATUS_TOO_LARGE, "max_tokens"},
    {S ",'max_tokens':9223372036854775807}", STATUS_TOO_LARGE, "max_tokens"},
    {S ",'max_tokens':9223372036854775808}", STATUS_TOO_LARGE, "max_tokens"},
    {S ",'max_tokens':18446744073709551617}", STATUS_TOO_LARGE, "max_tokens"},
    {S ",'max_tokens':-9223372036854775809}", STATUS_TOO_LARGE, "max_tokens"},
    {S ",'max_tokens':01}", STATUS_BAD_REQUEST, "max_tokens"},
    {S ",'max_tokens':+1}", STATUS_BAD_REQUEST, "max_tokens"},
    {S ",'max_tokens':0x10}", STATUS_BAD_REQUEST, "max_tokens"},
    {S ",'max_tokens':NaN}", STATUS_BAD_REQUEST, "max_tokens"},
    {S ",'temperature':1e400}", STATUS_TOO_LARGE, "temperature"},
    {S ",'temperature':-0.1}", STATUS_BAD_REQUEST, "temperature"},
    {S ",'temperature':101}", STATUS_BAD_REQUEST, "temperature"},
    {S ",'temperature':'hot'}", STATUS_BAD_REQUEST, "temperature"},
    {S ",'temperature':Infinity}", STATUS_BAD_REQUEST, "temperature"},
    {S ",'top_p':0}", STATUS_BAD_REQUEST, "top_p"},
    {S ",'top_p':1.01}", STATUS_BAD_REQUEST, "top_p"},
    {S ",'min_p':-1}", STATUS_BAD_REQUEST, "min_p"},
    {S ",'top_k':-1}", STATUS_BAD_REQUEST, "top_k"},
    {S ",'top_k':2147483648}", STATUS_TOO_LARGE, "top_k"},
    {S ",'repetition_penalty':0}", STATUS_BAD_REQUEST, "repetition_penalty"},
    {S ",'presence_penalty':1000}", STATUS_BAD_REQUEST, "presence_penalty"},
    {S ",'frequency_penalty':[]}", STATUS_BAD_REQUEST, "frequency_penalty"},
    {S ",'seed':-1}", STATUS_BAD_REQUEST, "seed"},
    {S ",'seed':9223372036854775808}", STATUS_TOO_LARGE, "seed"},
    {S ",'logprobs':21}", STATUS_TOO_LARGE, "logprobs"},
    {S ",'logprobs':true}", STATUS_BAD_REQUEST, "logprobs"},
    {S ",'draft':17}", STATUS_TOO_LARGE, "draft"},
    {S ",'priority':101}", STATUS_TOO_LARGE, "priority"},
    {S ",'deadline_ms':86400001}", STATUS_TOO_LARGE, "deadline_ms"},
    {S ",'idle_cancel_ms':-1}", STATUS_BAD_REQUEST, "idle_cancel_ms"},
    {S ",'ignore_eos':'yes'}", STATUS_BAD_REQUEST, "ignore_eos"},
    {S ",'reuse':0}", STATUS_BAD_REQUEST, "reuse"},
    /* stop strings and biases */
    {S ",'stop':1}", STATUS_BAD_REQUEST, "stop"},
    {S ",'stop':''}", STATUS_BAD_REQUEST, "stop"},
    {S ",'stop':['a','']}", STATUS_BAD_REQUEST, "stop"},
    {S ",'stop':['a',1]}", STATUS_BAD_REQUEST, "stop"},
    {S ",'stop':['1','2','3','4','5','6','7','8','9','a','b','c','d','e','f','g','h']}",
     STATUS_TOO_LARGE, "stop"},
    {S ",'stop':'x','text':false}", STATUS_BAD_REQUEST, "stop"},
    {S ",'logit_bias':[1]}", STATUS_BAD_REQUEST, "logit_bias"},
    {S ",'logit_bias':{'x':1}}", STATUS_BAD_TOKEN, "logit_bias"},
    {S ",'logit_bias':{'-1':1}}", STATUS_BAD_TOKEN, "logit_bias"},
    {S ",'logit_bias':{'01':1}}", STATUS_BAD_TOKEN, "logit_bias"},
    {S ",'logit_bias':{'1000':1}}", STATUS_BAD_TOKEN, "logit_bias"},
    {S ",'logit_bias':{'99999999999999999999':1}}", STATUS_BAD_TOKEN, "logit_bias"},
    {S ",'logit_bias':{'1':'a'}}", STATUS_BAD_REQUEST, "logit_bias"},
    {S ",'logit_bias':{'1':101}}", STATUS_BAD_REQUEST, "logit_bias"},
    /* read, sessions, drain */
    {"{'cmd':'read','name':'n','cursor':-1}", STATUS_BAD_REQUEST, "cursor"},
    {"{'cmd':'read','name':'n','cursor':0.0}", STATUS_BAD_REQUEST, "cursor"},
    {"{'cmd':'read','name':'n','wait_ms':60001}", STATUS_TOO_LARGE, "wait_ms"},
    {"{'cmd':'read','name':'n','max_events':0}", STATUS_BAD_REQUEST, "max_events"},
    {"{'cmd':'read','name':'n','max_events':4097}", STATUS_TOO_LARGE, "max_events"},
    {"{'cmd':'sessions','from':-1}", STATUS_BAD_REQUEST, "from"},
    {"{'cmd':'drain','deadline_ms':-1}", STATUS_BAD_REQUEST, "deadline_ms"},
};
enum { BAD = sizeof bad / sizeof bad[0] };

START_TEST(test_bad) {
    ck_assert(!decode(bad[_i].text));
    ck_assert_msg(error.status == bad[_i].status, "%s: %s (%s)", bad[_i].text,
                  status_name(error.status), error.message);
    ck_assert_msg(strcmp(error.field, bad[_i].field) == 0, "%s: field %s", bad[_i].text,
                  error.field);
    ck_assert_uint_gt(strlen(error.message), 0);
    ck_assert_uint_eq(error.retry_ms, 0);
    /* The refusal itself is valid JSON. */
    char text[2048];
    struct door_out o;
    json_error_t e;
    door_out_begin(&o, text, sizeof text);
    door_out_error(&o, &error);
    ck_assert(!o.full);
    json_t *v = json_loadb(text, o.n, JSON_REJECT_DUPLICATES, &e);
    ck_assert_msg(v != NULL, "%s: %.*s", e.text, (int)o.n, text);
    json_decref(v);
}
END_TEST

START_TEST(test_defaults) {
    ck_assert(decode(S "}"));
    ck_assert_int_eq(call.cmd, DOOR_SUBMIT);
    ck_assert_str_eq(call.name, "n");
    const struct door_submit *s = &call.submit;
    const struct lane_request *r = &s->request;
    ck_assert_int_eq(s->kind, DOOR_PROMPT_IDS);
    ck_assert_uint_eq(s->n_ids, 1);
    ck_assert_uint_eq(s->ids[0], 1);
    ck_assert_uint_eq(r->max_tokens, DOOR_MAX_TOKENS_DEFAULT);
    ck_assert_uint_eq(r->draft_max, DOOR_DRAFT_DEFAULT);
    ck_assert_uint_eq(s->idle_cancel_ms, DOOR_IDLE_MS_DEFAULT);
    ck_assert_uint_eq(r->flags, 0);
    ck_assert_uint_eq(r->tenant, 0);
    ck_assert_uint_eq(r->deadline_ns, 0);
    ck_assert_uint_eq(r->n_stops, 0);
    ck_assert_uint_eq(r->n_bias, 0);
    ck_assert(r->mask == NULL);
    ck_assert(!s->seeded);
    ck_assert(r->sampling.temperature == 0.5f && r->sampling.top_p == 0.75f);
    ck_assert_uint_eq(r->sampling.top_k, 7);
    ck_assert_uint_eq(r->sampling.flags, 0);
    ck_assert_uint_eq(r->sampling.n_top, 0);
}
END_TEST

START_TEST(test_every_field) {
    ck_assert(decode("{'cmd':'submit','name':'a.b_c:d/e@f+g-H9','prompt':'h\\u0000i\\u00e9',"
                     "'bos':false,'parse_special':true,'temperature':0,'top_k':3,'top_p':0.5,"
                     "'min_p':0.25,'repetition_penalty':1.5,'presence_penalty':-2,"
                     "'frequency_penalty':2.5,'seed':9223372036854775807,'logprobs':0,"
                     "'logits_hash':true,'stop':['a','\\u0000b'],'logit_bias':{'7':-100,'3':1.5},"
                     "'max_tokens':1048576,'draft':16,'draft_fixed':true,'priority':100,"
                     "'deadline_ms':86400000,'idle_cancel_ms':0,'tenant':'me','ignore_eos':true,"
                     "'reuse':false,'keep':false,'show_special':true}"));
    const struct door_submit *s = &call.submit;
    const struct lane_request *r = &s->request;
    ck_assert_str_eq(call.name, "a.b_c:d/e@f+g-H9");
    ck_assert_int_eq(s->kind, DOOR_PROMPT_TEXT);
    ck_assert_uint_eq(s->text_bytes, 5);
    ck_assert_mem_eq(s->text, "h\0i\xc3\xa9", 5);
    ck_assert(!s->bos && s->parse_special && s->seeded);
    ck_assert(r->sampling.temperature == 0 && r->sampling.top_p == 0.5f);
    ck_assert(r->sampling.min_p == 0.25f && r->sampling.repetition == 1.5f);
    ck_assert(r->sampling.presence == -2 && r->sampling.frequency == 2.5f);
    ck_assert_uint_eq(r->sampling.top_k, 3);
    ck_assert_uint_eq(r->sampling.seed, INT64_MAX);
    ck_assert_uint_eq(r->sampling.flags, KRN_DRAW_LOGPROB | KRN_DRAW_HASH_LOGITS);
    ck_assert_uint_eq(r->sampling.n_top, 0);
    ck_assert_uint_eq(r->n_stops, 2);
    ck_assert_uint_eq(r->stops[1].bytes, 2);
    ck_assert_mem_eq(r->stops[1].text, "\0b", 2);
    ck_assert_uint_eq(r->n_bias, 2);
    ck_assert_uint_eq(r->bias[0].id, 3); /* in the order of ids, whatever the order of the text */
    ck_assert(r->bias[0].bias == 1.5f && r->bias[1].bias == -100);
    ck_assert_uint_eq(r->max_tokens, 1048576);
    ck_assert_uint_eq(r->draft_max, 16);
    ck_assert(r->draft_fixed);
    ck_assert_uint_eq(r->priority, 100);
    ck_assert_uint_eq(r->deadline_ns, 86400000000000u);
    ck_assert_uint_eq(s->idle_cancel_ms, 0);
    ck_assert_uint_eq(r->tenant, door_tenant("me"));
    ck_assert_uint_ne(r->tenant, door_tenant("you"));
    ck_assert_uint_eq(r->flags, LANE_IGNORE_EOS | LANE_NO_REUSE | LANE_NO_KEEP | LANE_SHOW_SPECIAL);
}
END_TEST

START_TEST(test_messages) {
    ck_assert(decode("{'cmd':'submit','name':'n','messages':[{'role':'system','content':''},"
                     "{'content':'hello','role':'user'}],'logprobs':20,'text':false}"));
    const struct door_submit *s = &call.submit;
    ck_assert_int_eq(s->kind, DOOR_PROMPT_MESSAGES);
    ck_assert_uint_eq(s->n_messages, 2);
    ck_assert_str_eq(s->messages[1].role, "user");
    ck_assert_str_eq(s->messages[1].content, "hello");
    ck_assert_uint_eq(s->messages[1].content_bytes, 5);
    ck_assert_uint_eq(s->request.sampling.n_top, 20);
    ck_assert_uint_eq(s->request.flags, LANE_NO_TEXT);
    ck_assert(s->template.date == NULL && s->template.thinking == LANE_THINKING_AS_IS);
    ck_assert(decode("{'cmd':'submit','name':'n','messages':[{'content':'x','role':'user'}],"
                     "'template_date':'2024-07-26','thinking':false}"));
    ck_assert_str_eq(s->template.date, "2024-07-26");
    ck_assert_int_eq(s->template.thinking, LANE_THINKING_OFF);
    ck_assert(decode("{'cmd':'submit','name':'n','messages':[{'content':'x','role':'user'}],"
                     "'thinking':true}"));
    ck_assert(s->template.date == NULL && s->template.thinking == LANE_THINKING_ON);
}
END_TEST

START_TEST(test_other_commands) {
    ck_assert(decode("{'cmd':'read','name':'n','cursor':9223372036854775807,'wait_ms':60000,"
                     "'max_events':4096}"));
    ck_assert_int_eq(call.cmd, DOOR_READ);
    ck_assert_uint_eq(call.cursor, INT64_MAX);
    ck_assert_uint_eq(call.wait_ms, 60000);
    ck_assert_uint_eq(call.max_events, 4096);
    ck_assert(decode("{'cmd':'read','name':'n'}"));
    ck_assert_uint_eq(call.cursor, 0);
    ck_assert_uint_eq(call.wait_ms, 0);
    ck_assert_uint_eq(call.max_events, DOOR_EVENTS_DEFAULT);
    ck_assert(decode("{'cmd':'drain'}"));
    ck_assert_uint_eq(call.deadline_ms, 4000);
    ck_assert(!call.wait);
    ck_assert(decode("{'cmd':'drain','deadline_ms':0,'wait':true}"));
    ck_assert(call.wait);
    ck_assert_uint_eq(call.deadline_ms, 0);
    ck_assert(decode("{'cmd':'sessions','from':12}"));
    ck_assert_uint_eq(call.cursor, 12);
    ck_assert(decode(" \t\r\n{ 'cmd' : 'ping' }\n"));
    ck_assert_int_eq(call.cmd, DOOR_PING);
}
END_TEST

/* Limits that need long messages. */
START_TEST(test_long) {
    static char text[DOOR_MESSAGE_MAX + 64];
    char *at = text;
    at += sprintf(at, "{'cmd':'submit','name':'n','prompt_ids':[");
    for (int i = 0; i < 101; i++)
        at += sprintf(at, "%s1", i > 0 ? "," : "");
    strcpy(at, "]}");
    ck_assert(!decode(text));
    ck_assert_int_eq(error.status, STATUS_PROMPT_TOO_LONG);
    ck_assert(error.numbers && error.value == 101 && error.limit == 100);
    strcpy(at - 2, "]}"); /* one fewer */
    ck_assert(decode(text));
    /* A name, a key and a stop string at their limits and one over. */
    for (int over = 0; over < 2; over++) {
        sprintf(text, "{'cmd':'cancel','name':'%0*d'}", DOOR_NAME_MAX + over, 7);
        ck_assert_int_eq(decode(text), !over);
        sprintf(text, S ",'stop':'%0*d'}", LANE_STOP_BYTES_MAX - 1 + over, 7);
        ck_assert_int_eq(decode(text), !over);
    }
    sprintf(text, "{'cmd':'ping','%0*d\xc3\xa9':1}", DOOR_JSON_KEY_MAX - 2, 7);
    ck_assert(!decode(text));
    ck_assert_uint_eq(strlen(error.field), DOOR_JSON_KEY_MAX - 2); /* never half a character */
    /* Too large as a whole. */
    memset(text, ' ', DOOR_MESSAGE_MAX + 1);
    ck_assert(!door_decode(&arena, &limits, text, DOOR_MESSAGE_MAX + 1, &call, &error));
    ck_assert_int_eq(error.status, STATUS_TOO_LARGE);
    memcpy(text, "{\"cmd\":\"ping\"}", 14);
    ck_assert(door_decode(&arena, &limits, text, DOOR_MESSAGE_MAX, &call, &error));
    /* As many values as a message can hold: refused or not, within the arena. */
    at = text + sprintf(text, "{\"cmd\":[");
    while (at < text + DOOR_MESSAGE_MAX - 8)
        at += sprintf(at, "{},");
    at += sprintf(at, "{}]}");
    ck_assert(!door_decode(&arena, &limits, text, (size_t)(at - text), &call, &error));
    ck_assert_uint_le(arena.used, arena.bytes);
    ck_assert(decode("{'cmd':'ping'}"));
}
END_TEST

/* Nothing of jansson's outlives a message or comes from outside the arena. */
START_TEST(test_arena_small) {
    struct door_arena small;
    ck_assert(door_arena_open(&small, DOOR_JSON_ARENA_MIN));
    static char text[1 << 18];
    char *at = text + sprintf(text, "{\"cmd\":\"submit\",\"name\":\"n\",\"prompt_ids\":[");
    for (int i = 0; i < 20000; i++)
        at += sprintf(at, "%s1", i > 0 ? "," : "");
    at += sprintf(at, "]}");
    ck_assert(!door_decode(&small, &limits, text, (size_t)(at - text), &call, &error));
    ck_assert_int_eq(error.status, STATUS_TOO_LARGE);
    for (int i = 0; i < 1000; i++)
        ck_assert(door_decode(&small, &limits, "{\"cmd\":\"ping\"}", 14, &call, &error));
    door_arena_close(&small);
}
END_TEST

/* A string that outgrows the arena refuses the message: jansson drops bytes of it and goes on. */
START_TEST(test_arena_string) {
    enum { BYTES = 60000 };
    static char text[BYTES + 100];
    struct door_arena small;
    ck_assert(door_arena_open(&small, DOOR_JSON_ARENA_MIN));
    uint32_t decoded = 0, refused = 0;
    for (uint32_t n = 1; n < BYTES; n += 97) {
        char *at = text + sprintf(text, "{\"cmd\":\"submit\",\"name\":\"n\",\"prompt\":\"");
        memset(at, 'a', n);
        at += n;
        at += sprintf(at, "\"}");
        if (door_decode(&small, &limits, text, (size_t)(at - text), &call, &error)) {
            ck_assert_uint_eq(call.submit.text_bytes, n);
            decoded++;
        } else {
            ck_assert_int_eq(error.status, STATUS_TOO_LARGE);
            refused++;
        }
    }
    ck_assert_uint_gt(decoded, 0);
    ck_assert_uint_gt(refused, 0);
    door_arena_close(&small);
}
END_TEST

/* What a model lacks is said, not guessed. */
START_TEST(test_no_tokenizer) {
    struct door_limits bare = limits;
    bare.has_text = bare.has_chat = false;
    static const char text[] = "{\"cmd\":\"submit\",\"name\":\"n\",\"prompt\":\"x\"}";
    static const char chat[] =
        "{\"cmd\":\"submit\",\"name\":\"n\",\"messages\":[{\"role\":\"user\","
        "\"content\":\"x\"}]}";
    ck_assert(!door_decode(&arena, &bare, text, sizeof text - 1, &call, &error));
    ck_assert_int_eq(error.status, STATUS_UNSUPPORTED);
    ck_assert(!door_decode(&arena, &bare, chat, sizeof chat - 1, &call, &error));
    ck_assert_int_eq(error.status, STATUS_UNSUPPORTED);
}
END_TEST

/* The writer: any bytes in, valid UTF-8 and valid JSON out, never past the end. */
START_TEST(test_out) {
    char text[4096];
    struct door_out o;
    json_error_t e;
    unsigned char bytes[256];
    uint64_t x = 88172645463325252u;
    for (int round = 0; round < 2000; round++) {
        size_t n = (size_t)(x % sizeof bytes);
        for (size_t i = 0; i < n; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            bytes[i] = (unsigned char)(round % 2 == 0
                                           ? x
                                           : (uint64_t) "\xe2\x82\xac\xc3\xa9\xff\"\\\n"[x % 9]);
        }
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        door_out_begin(&o, text, sizeof text);
        door_out_object(&o, NULL);
        bool valid = door_out_text(&o, "t", bytes, n);
        door_out_hex(&o, "h", bytes, n);
        door_out_f32(&o, "f", (float)round / 3);
        door_out_end(&o, '}');
        ck_assert(!o.full);
        json_t *v = json_loadb(text, o.n, JSON_ALLOW_NUL, &e);
        ck_assert_msg(v != NULL, "%s", e.text);
        const json_t *t = json_object_get(v, "t");
        if (valid) {
            ck_assert_uint_eq(json_string_length(t), n);
            ck_assert_mem_eq(json_string_value(t), bytes, n);
        }
        ck_assert_uint_eq(json_string_length(json_object_get(v, "h")), 2 * n);
        ck_assert((float)json_number_value(json_object_get(v, "f")) == (float)round / 3);
        json_decref(v);
        size_t whole = o.n;
        for (size_t cap = 0; cap < whole; cap += 1 + cap / 3) {
            char *tight = malloc(cap + 1); /* a write past the end is seen by the sanitizer */
            door_out_begin(&o, tight, cap);
            door_out_object(&o, NULL);
            door_out_text(&o, "t", bytes, n);
            door_out_hex(&o, "h", bytes, n);
            door_out_f32(&o, "f", (float)round / 3);
            door_out_end(&o, '}');
            ck_assert(o.full && o.n <= cap);
            free(tight);
        }
    }
    door_out_begin(&o, text, sizeof text);
    door_out_f32(&o, NULL, NAN);
    ck_assert_mem_eq(text, "null", 4);
}
END_TEST

static Suite *suite(void) {
    Suite *s = suite_create("wire");
    TCase *t = tcase_create("wire");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 0);
    tcase_add_loop_test(t, test_bad, 0, BAD);
    tcase_add_test(t, test_defaults);
    tcase_add_test(t, test_every_field);
    tcase_add_test(t, test_messages);
    tcase_add_test(t, test_other_commands);
    tcase_add_test(t, test_long);
    tcase_add_test(t, test_arena_small);
    tcase_add_test(t, test_arena_string);
    tcase_add_test(t, test_no_tokenizer);
    tcase_add_test(t, test_out);
    suite_add_tcase(s, t);
    return s;
}

int main(void) {
    return test_run(suite());
}
