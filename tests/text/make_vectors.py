#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/text/tokenizers.json and templates.json: what the packages tokenizers and jinja2 answer.

Usage: make_vectors.py CORPUS OUTPUT_FOLDER [TEMPLATES], with any English text as the corpus of a small vocabulary.
The tests read the two files only; run this again when a case is added. With a folder TEMPLATES, files named as in
templates/, only OUTPUT_FOLDER/given.json is made, of these templates; ROUNDHOUSE_TEMPLATES names it to test_template.
"""
import copy
import datetime
import json
import os
import random
import sys

import tokenizers
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|"
          r"\s*[\r\n]|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
            r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def added(content, **options):
    token = {"content": content, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
    token.update(options)
    return token


def base(corpus):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([corpus[:200000]], trainer)
    out = json.loads(tokenizer.to_str())
    out["decoder"] = BYTES
    return out


def configurations():
    specials = [added("<s>"), added("</s>"), added("<|x|>"), added("<|x|>y")]
    shapes = [
        added("<l>", lstrip=True), added("<r>", rstrip=True), added("<b>", lstrip=True, rstrip=True),
        added("word", single_word=True, special=False), added("<n\u00e9>", normalized=True, special=False),
        added("<think>", special=False), added("<thi", special=False),
        added("norm", normalized=True, special=False, single_word=True)]
    yield "gpt2", {"pre_tokenizer": GPT2, "added": specials}
    yield "prefix space", {"pre_tokenizer": dict(GPT2, add_prefix_space=True), "added": specials}
    yield "digits and prefix", {"pre_tokenizer": sequence(
        {"type": "Digits", "individual_digits": False}, dict(GPT2, add_prefix_space=True)), "added": specials}
    yield "digits", {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, GPT2),
                     "added": specials}
    yield "llama3", {"pre_tokenizer": sequence(split(LLAMA3), BYTES), "ignore_merges": True, "added": specials,
                     "extra": ["Ġzebra", "zebra", "ĠThequick"]}
    yield "qwen", {"pre_tokenizer": sequence(split(QWEN), BYTES), "normalizer": {"type": "NFC"}, "added": shapes}
    yield "o200k", {"pre_tokenizer": sequence(split(O200K, "Removed", True), BYTES), "added": specials}
    yield "cl100k", {"pre_tokenizer": sequence(split(CL100K), BYTES), "added": specials}
    yield "deepseek", {"pre_tokenizer": sequence(
        split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(DEEPSEEK), BYTES),
        "added": specials}
    yield "scripts", {"pre_tokenizer": sequence(split(r"[\p{Han}]+|\p{Hiragana}+|\p{^L}\d?|\w+|\W"), BYTES),
                      "added": specials}
    yield "removed", {"pre_tokenizer": sequence(split(" ", "Removed", False, "String"), BYTES), "added": shapes}
    yield "literal", {"pre_tokenizer": sequence(split("a.b", "Isolated", False, "String"), GPT2), "added": shapes}
    yield "unknown", {"pre_tokenizer": GPT2, "added": shapes, "unk": "<unk>", "drop": "qzé0"}
    yield "unknown fused", {"pre_tokenizer": BYTES, "added": shapes, "unk": "<unk>", "drop": "qzÃ0Ġ", "fuse": True}


def build(model, options):
    out = copy.deepcopy(model)
    vocab, merges = out["model"]["vocab"], out["model"]["merges"]
    out["pre_tokenizer"] = options["pre_tokenizer"]
    out["normalizer"] = options.get("normalizer")
    out["model"]["ignore_merges"] = options.get("ignore_merges", False)
    out["model"]["fuse_unk"] = options.get("fuse", False)
    for letter in options.get("drop", ""):
        out["model"]["merges"] = merges = [m for m in merges if letter not in "".join(m)]
        vocab = {k: v for k, v in vocab.items() if letter not in k}
    if "unk" in options:
        out["model"]["unk_token"] = options["unk"]
        vocab[options["unk"]] = max(vocab.values()) + 1
    for word in options.get("extra", []):
        vocab[word] = max(vocab.values()) + 1
    vocab = {k: i for i, k in enumerate(sorted(vocab, key=vocab.get))}
    out["model"]["vocab"] = vocab
    out["added_tokens"] = [dict(t, id=len(vocab) + i) for i, t in enumerate(options["added"])]
    return out


def texts():
    rng = random.Random(7)
    yield from [
        "", " ", "a", "Hello, world!", "  two  spaces  ", "I'm you'RE he\u017f 'S 's 'K 'LL't\u212a'd",
        "line\nline\r\n\r\n  indented\n\n\n", "tabs\t\tand\x0bvt\x0cff", "1234567 12 3.14 1,000 \u0664\u0665 \u2167\u00bd",
        "caf\u00e9 cafe\u0301 \u212b \u1e9b\u0323 \uac00\u1100\u1161\u11a8", "e\u0301\u0300o\u0302\u0323 n\u0303",
        "\u180e a\u180eb \u0085x\u00a0y\u2003z\u3000w\u2028v\u200bu\ufefft\u001cs", "word sword word, words word\u00e9 word_ (word)",
        "norm normal norm-norm \u00e9norm", "\u200cword word\u200d \u203fword\u203f", "x <l> y", "x  \n<l>  y", "x <r>  \n y", "a \u3000<b>\u00a0 b<b>c<b>",
        "<think>hi</think> <thi> <thinker <|x|> <|x|>y <|x|>yy <<s>>", "<s>bos</s>", "<n\u00e9> <ne\u0301>", "<s>word <s>",
        " zebra zebra zebras Thequick", "a.b a-b aa.bb", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 \u6f22\u5b57123\u3042\u3044",
        "\U0001f600\U0001f468\u200d\U0001f469 \U0001f1eb\U0001f1f7", "snake_case camelCase HTTPServer ABCdef x\u01c5y",
        "a" * 100, "ab" * 60, " " * 40 + "x", "\n" * 20, "the " * 50, "quick zap\u00e9 2000 q z qq zz", "\ufb01t \ufb06 \u1e9e \u0149",
        "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0928\u092e\u0938\u094d\u0924\u0947 \u0645\u0631\u062d\u0628\u0627",
        "f(x) = [a[0], {\"k\": 'v'}] // c\n/* d */ #!$%&", "\x00\x01\x7f", "\ud7a3\ue000\ufffd\uffff\U0010ffff"]
    pools = ["abc \n", " \t\r\n\u00a0\u2003", "aB1'\u0301\u00e9 ", "\u4e00\u3042\u30a2a1 ", "'sStTlLdD\u017f\u212a ", "<s>|xy/ ",
             "wordnm \u00e9_", "the of and to in a "]
    for i in range(40):
        pool = pools[i % len(pools)]
        yield "".join(rng.choice(pool) for _ in range(rng.randint(1, 60)))


def make_tokenizers(model):
    cases, strings = [], list(texts())
    for name, options in configurations():
        built = build(model, options)
        tokenizer = Tokenizer.from_str(json.dumps(built))
        rows = []
        for text in strings:
            tokenizer.encode_special_tokens = False
            special = tokenizer.encode(text, add_special_tokens=False).ids
            tokenizer.encode_special_tokens = True
            plain = tokenizer.encode(text, add_special_tokens=False).ids
            rows.append([plain] if plain == special else [plain, special])
        small = {k: built[k] for k in ("added_tokens", "normalizer", "pre_tokenizer", "decoder")}
        small["model"] = {k: v for k, v in built["model"].items() if k not in ("vocab", "merges")}
        if built["model"]["vocab"] != model["model"]["vocab"]:
            small["model"].update(vocab=built["model"]["vocab"])
        if built["model"]["merges"] != model["model"]["merges"]:
            small["model"].update(merges=built["model"]["merges"])
        cases.append({"name": name, "tokenizer": small, "ids": rows})
    return {"made_with": {"tokenizers": tokenizers.__version__}, "vocab": model["model"]["vocab"],
            "merges": model["model"]["merges"], "texts": strings, "cases": cases}


ALTERNATE = ("{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must "
             "alternate user/assistant/user/assistant/...') }}{% endif %}")
CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' "
          "+ '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
DEFAULT = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n"
           "SYSTEM<|im_end|>\\n' }}{% endif %}" + CHATML[len("{% for message in messages %}"):])
LLAMA3_TURNS = ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
                "message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 "
                "== 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}")
GEMMA = ("{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message "
         "in messages %}" + ALTERNATE + "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set "
         "role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + "
         "'<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}")
MISTRAL = ("{{ bos_token }}{% for message in messages %}" + ALTERNATE + "{% if message['role'] == 'user' %}{{ '[INST] ' + "
           "message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}"
           "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}")
LLAMA2 = ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]"
          "['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message "
          "in loop_messages %}" + ALTERNATE + "{% if loop.index0 == 0 and system_message != false %}{% set content = "
          "'<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = "
          "message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + "
          "' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}"
          "{% endfor %}")
ZEPHYR = ("{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token "
          "}}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif "
          "message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if "
          "loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")
FABLE = ("{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}{{ '<|assistant|>' }}{% else %}"
         "{{ '<|user|>' }}{% endif %}{{ message['content'] | trim }}{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}"
         "{{ '<|assistant|>' }}{% endif %}")
# Other spellings of the same templates, and templates that differ in one thing that counts.
SPELLED = ("{#- a comment -#}\n{%- for message in messages %}\n    {{- \"<|im_start|>\" + message.role + \"\\n\" }}\n    "
           "{{- message['content'] }}<|im_end|>\n{% endfor %}\n{%- if add_generation_prompt -%}\n    "
           "<|im_start|>assistant{{ '\\n' }}\n{%- endif -%}\n")
TEMPLATES = [
    ("fable", FABLE), ("chatml", CHATML), ("chatml", SPELLED), ("chatml", "{{ bos_token }}" + CHATML),
    ("chatml", "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}" + CHATML),
    ("chatml", DEFAULT.replace("SYSTEM", "You are a helpful assistant.")),
    ("chatml", DEFAULT.replace("SYSTEM", "You are a helpful AI assistant named SmolLM, trained by Hugging Face")),
    ("llama2", LLAMA2), ("llama3", LLAMA3_TURNS + "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"),
    ("llama3", LLAMA3_TURNS + "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"
     "{% endif %}"),
    ("gemma", GEMMA), ("gemma", "{{ bos_token }}" + GEMMA), ("mistral", MISTRAL),
    ("mistral", MISTRAL.replace("eos_token}}", "eos_token + ' ' }}")), ("zephyr", ZEPHYR),
    (None, CHATML.replace("message['content']", "message['content'] | trim")), (None, CHATML.replace("'\\n'}}", "''}}")),
    (None, FABLE.replace(" | trim", "")), (None, GEMMA.replace("'model'", "'assistant'")), (None, "{{ messages }}"),
    (None, LLAMA3_TURNS.replace("| trim", "") + "{{ 'x' }}"), (None, "{% for message in messages %}"), (None, "{{ 'x"),
    (None, "Cutting Knowledge Date: December 2023{{ date_string }}")]


def published(folder):
    """Templates of the folder's files, and each of them with one thing changed."""
    for name in sorted(os.listdir(folder)):
        if name.endswith(".jinja"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            yield {"llama3.2": "llama3.1"}.get(name[:-6], name[:-6].split("-")[0]), text
            yield None, text.replace("| trim", "") if "| trim" in text else text.replace("assistant\\n", "assistant")


def conversations():
    hello, hi = {"role": "user", "content": "Hello there"}, {"role": "assistant", "content": "Hi! The end."}
    system = {"role": "system", "content": "You tell stories.\n"}
    odd = {"role": "user", "content": " \n\u3000 Tell me\n\nof 3 bears, e\u0301 \u001c\n "}
    spaces = {"role": "user", "content": " \n "}
    empty = {"role": "assistant", "content": ""}
    newlines = {"role": "user", "content": "\n\nab\n"}
    thought = {"role": "assistant", "content": "<think>\nHm, \n\n</think>\n\nThe end.\n"}
    twice = {"role": "assistant", "content": "a<think>\nb</think>\nc<think>d</think>\n\ne"}
    bare = {"role": "assistant", "content": "\n</think>\n\n"}
    tool = {"role": "user", "content": "<tool_response>4</tool_response>"}
    return [[hello, thought], [hello, thought, odd], [hello, twice, thought], [hello, thought, tool], [tool, thought],
            [hello, bare], [hello, hi, bare, hi], [system, thought], [tool, thought, tool, bare],
            [hello], [hello, hi, odd], [system, hello], [system, odd, hi, hello], [system, spaces], [newlines, empty, spaces],
            [hi], [hello, hello], [hello, system, hello], [system], [hello, hi]]


def beside(template):
    """With and without the reply opened, and what the template takes beside messages: our words, its words."""
    for reply in (False, True):
        yield reply, {}, {}
        if "date_string" in template:
            yield reply, {"date": "2024-02-29"}, {"date_string": datetime.date(2024, 2, 29).strftime("%d %b %Y")}
        if "enable_thinking" in template:
            yield reply, {"thinking": False}, {"enable_thinking": False}
            yield reply, {"thinking": True}, {"enable_thinking": True}


def make_templates(model, templates):
    def stop(message):
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = stop
    names = ["<s>", "</s>", "<|user|>", "<|assistant|>", "<|end|>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>",
             "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>", "<end_of_turn>"]
    built = build(model, {"pre_tokenizer": sequence(split(LLAMA3), BYTES), "added": [added(n) for n in names]})
    stripping = copy.deepcopy(built)
    for token in stripping["added_tokens"]:
        token["rstrip"] = token["content"] in ("<|user|>", "<|end|>", "<end_of_turn>", "<|im_end|>")
        token["lstrip"] = token["content"] in ("<|im_end|>", "<|end|>", "</s>")
    cases = []
    for shape, template in templates:
        rows = []
        if shape is not None:
            compiled = environment.from_string(template)
            for messages in conversations():
                for reply, options, given in beside(template):
                    row = {"messages": messages, "reply": reply, **options}
                    try:
                        text = compiled.render(messages=messages, add_generation_prompt=reply, bos_token="<s>",
                                               eos_token="</s>", **given)
                        row["text"] = text
                        for key, tokenizer in (("ids", built), ("ids_stripping", stripping)):
                            row[key] = Tokenizer.from_str(json.dumps(tokenizer)).encode(
                                text, add_special_tokens=False).ids
                    except TemplateError as error:
                        row["error"] = str(error)
                    rows.append(row)
        cases.append({"shape": shape, "template": template, "rows": rows})
    return {"tokenizer": built, "stripping": stripping["added_tokens"], "cases": cases}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        model = base(file.read())
    if len(sys.argv) > 3:
        files = {"given.json": make_templates(model, list(published(sys.argv[3])))}
    else:
        own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")
        files = {"tokenizers.json": make_tokenizers(model),
                 "templates.json": make_templates(model, TEMPLATES + list(published(own)))}
    for name, value in files.items():
        with open(f"{sys.argv[2]}/{name}", "w", encoding="ascii") as file:
            json.dump(value, file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    main()
