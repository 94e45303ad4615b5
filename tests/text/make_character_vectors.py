#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/text/characters.json and tables.json: what the packages tokenizers and sentencepiece answer for vocabularies
on characters, for the pre-tokenizers that GGUF names, and for one published vocabulary.

Usage: make_character_vectors.py CORPUS OUTPUT_FOLDER [SMOLLM2_GGUF], with any English text as the corpus of small
vocabularies. OUTPUT_FOLDER holds the tokenizers.json of make_vectors.py. The tests read the files only; run this again when
a case is added.
"""
import copy
import io
import json
import random
import sys

import make_vectors
import sentencepiece
import tokenizers
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

MARK = "\u2581"
BYTES = [f"<0x{b:02X}>" for b in range(256)]
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
PREPEND = {"type": "Prepend", "prepend": MARK}
PREPEND_SPACE = {"type": "Prepend", "prepend": " "}
TO_SPACE = {"type": "Replace", "pattern": {"String": MARK}, "content": " "}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
FALLBACK = {"type": "ByteFallback"}
FUSE = {"type": "Fuse"}
GEMMA_SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}


def normalizers(*parts):
    return {"type": "Sequence", "normalizers": list(parts)}


def decoder(*parts):
    return {"type": "Sequence", "decoders": list(parts)}


LLAMA = decoder(TO_SPACE, FALLBACK, FUSE, STRIP)
GEMMA = decoder(TO_SPACE, FALLBACK, FUSE)


def metaspace(scheme, split):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}


def added(content, **options):
    token = {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True}
    token.update(options)
    return token


SPECIALS = [added("<unk>"), added("<s>"), added("</s>"), added("<|x|>"), added("<|x|>y")]
SHAPES = SPECIALS + [added("<l>", lstrip=True), added("<r>", rstrip=True), added("<think>", special=False),
                     added("word", single_word=True, special=False), added(MARK * 2, special=False),
                     added("<n>", normalized=True, special=False)]


def trained(corpus, words):
    """A vocabulary of merges; without words tokens may go on after a space."""
    tokenizer = Tokenizer(models.BPE())
    if words:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    lines = [line if words else line.replace(" ", MARK) for line in corpus.splitlines()]
    trainer = trainers.BpeTrainer(vocab_size=620, show_progress=False, limit_alphabet=90,
                                  special_tokens=["<unk>", "<s>", "</s>"] + BYTES)
    tokenizer.train_from_iterator(lines, trainer)
    return json.loads(tokenizer.to_str())["model"]


def unigram(corpus):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    trainer = trainers.UnigramTrainer(vocab_size=480, show_progress=False, unk_token="<unk>",
                                      special_tokens=["<unk>", "<s>", "</s>"])
    tokenizer.train_from_iterator(corpus.splitlines(), trainer)
    return json.loads(tokenizer.to_str())["model"]


def with_bytes(model):
    """The same with byte tokens after the special ones."""
    out = copy.deepcopy(model)
    out["vocab"] = out["vocab"][:3] + [[b, 0.0] for b in BYTES] + out["vocab"][3:]
    out["byte_fallback"] = True
    return out


def configurations(corpus):
    plain, joined, scores = trained(corpus, True), trained(corpus, False), unigram(corpus)
    bpe = {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
    for name, model in (("words", plain), ("joined", joined)):
        model.update(bpe)
        yield f"{name}: llama", model, {"normalizer": normalizers(PREPEND, REPLACE), "decoder": LLAMA}, SHAPES
        yield f"{name}: gemma", model, {"normalizer": REPLACE, "pre_tokenizer": GEMMA_SPLIT, "decoder": GEMMA}, SHAPES
        yield f"{name}: first", model, {"pre_tokenizer": metaspace("first", False), "decoder": LLAMA}, SPECIALS
    yield "space prepended", plain, {"normalizer": normalizers(PREPEND_SPACE, REPLACE), "decoder": LLAMA}, SPECIALS
    yield "nfc", plain, {"normalizer": normalizers({"type": "NFC"}, PREPEND, REPLACE), "decoder": LLAMA}, SPECIALS
    yield "ignore merges", dict(plain, ignore_merges=True), {
        "pre_tokenizer": metaspace("always", True), "decoder": {"type": "Sequence", "decoders": [
            {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}, FALLBACK]}}, SPECIALS
    for fuse in (False, True):
        few = dict(plain, byte_fallback=False, fuse_unk=fuse)
        yield f"no bytes, fuse {fuse}", few, {"pre_tokenizer": metaspace("always", True),
                                             "decoder": metaspace("always", True)}, SPECIALS
    for scheme in ("first", "always", "never"):
        for split in (False, True):
            yield f"unigram: {scheme}, split {split}", scores, {
                "pre_tokenizer": metaspace(scheme, split), "decoder": metaspace(scheme, split)}, SPECIALS
    yield "unigram: bytes", with_bytes(scores), {"normalizer": normalizers(PREPEND, REPLACE), "decoder": LLAMA}, SHAPES


def build(model, parts, tokens):
    out = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": None,
           "post_processor": None}
    out.update(copy.deepcopy(parts))
    out["model"] = copy.deepcopy(model)
    listed = model["vocab"] if isinstance(model["vocab"], dict) else {p: i for i, (p, _) in enumerate(model["vocab"])}
    out["added_tokens"], following = [], len(listed)
    for token in tokens:
        given = listed.get(token["content"])
        out["added_tokens"].append(dict(token, id=following if given is None else given))
        following += given is None
    return out


def without_specials(built):
    """Special tokens renamed to what no text spells: the model itself must not make them of text either."""
    out, names = copy.deepcopy(built), {}
    for i, token in enumerate(out["added_tokens"]):
        if token["special"]:
            names[token["content"]] = f"\U0010FFFD{i}\U0010FFFD"
            token["content"] = names[token["content"]]
    model = out["model"]
    if isinstance(model["vocab"], dict):
        model["vocab"] = {names.get(k, k): v for k, v in model["vocab"].items()}
        model["unk_token"] = names.get(model["unk_token"], model["unk_token"])
    else:
        model["vocab"] = [[names.get(k, k), s] for k, s in model["vocab"]]
    return out


def texts(corpus):
    rng = random.Random(11)
    yield from [
        "", " ", "  ", "a", " a", "a ", "Hello there", "  two  spaces  ", "\n", "\n\n a\n", "\t\ttabs", MARK, "a" + MARK + "b",
        MARK + MARK + "x", "caf\u00e9", "cafe\u0301", "\u4e16\u754c", "\U0001f43b bears \U0001f43b\u200d\u2744\ufe0f", "e\u0301" * 3,
        "\x00\x01\x7f", "<s>", "<s>a", "a<s> b", "</s><s>", "<|x|>y<|x|>", "<|x|> y", "a <l> b", "a <r> b", "<think> a <think>b",
        "a word wordy sword word", "<n>a <n> b<n>", "a" * 100, "ab" * 60, " " * 70, "the " * 40, "aaaa bbbb   " * 12,
        "\u0416\u0436 " * 3, "<unk> <0x4", "zq\u00fcj \ud7a3 a", "1234567890 3.14159", "'s 't 're", "\u00a0nbsp\u2003em"]
    for _ in range(14):
        at = rng.randrange(len(corpus) - 400)
        yield corpus[at:at + rng.randint(20, 300)]
    pools = ["abc \n", "  " + MARK + "a", "the of and to in a  ", "a\u00e9\u0416\u4e16 ", "<s>|xy/ ", "<think> word<n>"]
    for i in range(24):
        yield "".join(rng.choice(pools[i % len(pools)]) for _ in range(rng.randint(1, 90)))


def ids(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def make_tokenizers(corpus, strings):
    cases = []
    for name, model, parts, tokens in configurations(corpus):
        built = build(model, parts, tokens)
        special, plain = Tokenizer.from_str(json.dumps(built)), Tokenizer.from_str(json.dumps(without_specials(built)))
        rows = []
        for text in strings:
            row = [ids(plain, text), ids(special, text)]
            rows.append(row[:1] if row[0] == row[1] else row)
        cases.append({"name": name, "tokenizer": built, "ids": rows})
    return cases


def share(cases):
    """Vocabularies and merges that occur more than once are written once."""
    shared = []
    for case in cases:
        for key in ("vocab", "merges"):
            if key in case["tokenizer"]["model"]:
                value = case["tokenizer"]["model"][key]
                if value not in shared:
                    shared.append(value)
                case["tokenizer"]["model"][key] = shared.index(value)
    return shared


def make_tables(corpus, strings):
    """What sentencepiece itself answers for a vocabulary of scores, for tables as in GGUF."""
    cases = []
    for name, prefix, fallback, spaced in (("llama", True, True, False), ("gemma", False, True, False),
                                           ("joined", True, True, True), ("no bytes", True, False, False)):
        file = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(line for line in corpus.splitlines() if line), model_writer=file, model_type="bpe",
            vocab_size=640 if fallback else 384, character_coverage=0.999, byte_fallback=fallback, add_dummy_prefix=prefix,
            remove_extra_whitespaces=False, normalization_rule_name="identity", split_by_whitespace=not spaced,
            allow_whitespace_only_pieces=True, minloglevel=2, num_threads=1)
        model = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
        size = model.get_piece_size()
        types = [2 if model.is_unknown(i) else 3 if model.is_control(i) else 6 if model.is_byte(i) else 1 for i in range(size)]
        rows = [model.encode(text) for text in strings if "\x00" not in text]
        cases.append({"name": name, "prefix": prefix, "tokens": [model.id_to_piece(i) for i in range(size)], "types": types,
                      "scores": [model.get_score(i) for i in range(size)], "texts": [t for t in strings if "\x00" not in t],
                      "ids": rows})
    return cases


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
PRES = {
    "default": {"cuts": [r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]},
    "gpt-2": {"cuts": [GPT2]},
    "smollm": {"cuts": [r"\p{N}", GPT2]},
    "qwen2": {"cuts": [make_vectors.QWEN], "normalizer": {"type": "NFC"}},
    "llama-bpe": {"cuts": [make_vectors.LLAMA3], "ignore_merges": True}}


def byte_level(vocab, merges, pre, specials):
    """The tokenizer that a pre-tokenizer's name stands for."""
    cuts = [make_vectors.split(cut) for cut in PRES[pre]["cuts"]]
    return {"version": "1.0", "truncation": None, "padding": None, "normalizer": PRES[pre].get("normalizer"),
            "pre_tokenizer": make_vectors.sequence(*cuts, make_vectors.BYTES), "post_processor": None,
            "decoder": make_vectors.BYTES, "added_tokens": [dict(added(name), id=i) for i, name in specials],
            "model": {"type": "BPE", "vocab": vocab, "merges": merges,
                      "ignore_merges": PRES[pre].get("ignore_merges", False)}}


def rows_of(built, strings):
    special, plain = Tokenizer.from_str(json.dumps(built)), Tokenizer.from_str(json.dumps(built))
    plain.encode_special_tokens = True
    return [[ids(plain, text), ids(special, text)] for text in strings]


def make_pres(folder):
    with open(f"{folder}/tokenizers.json", encoding="ascii") as file:
        base = json.load(file)
    strings = base["texts"]
    vocab = dict(base["vocab"])
    for word in ("\u0120zebra", "zebra", "\u0120Thequick"):  # tokens without merges
        vocab[word] = len(vocab)
    specials = [(len(vocab) + i, name) for i, name in enumerate(("<s>", "<|x|>", "<|x|>y"))]
    tokens = sorted(vocab, key=vocab.get) + [name for _, name in specials]
    types = [1] * len(vocab) + [3] * len(specials)
    cases = [{"pre": pre, "ids": rows_of(byte_level(vocab, base["merges"], pre, specials), strings)} for pre in PRES]
    return {"tokens": tokens, "types": types, "merges": [m if isinstance(m, str) else " ".join(m) for m in base["merges"]],
            "cases": cases}


def make_smollm2(path, strings):
    from gguf import GGUFReader
    fields = GGUFReader(path).fields
    tokens, types, merges = (fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "token_type", "merges"))
    specials = [(i, token) for i, token in enumerate(tokens) if types[i] == 3]
    built = byte_level({token: i for i, token in enumerate(tokens)}, merges, "smollm", specials)
    known = [text for text in strings if Tokenizer.from_str(json.dumps(built)).decode(
        ids(Tokenizer.from_str(json.dumps(built)), text), skip_special_tokens=False) == text]
    template = fields["tokenizer.chat_template"].contents()
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    messages = make_vectors.conversations()[1]
    text = environment.from_string(template).render(messages=messages, add_generation_prompt=True)
    return {"texts": known, "ids": rows_of(built, known), "messages": messages, "chat": ids(Tokenizer.from_str(json.dumps(built)), text)}


def stop(message):
    raise TemplateError(message)


def make_chats(corpus):
    """Conversations in the shapes of models whose vocabularies are on characters."""
    names = ["<s>", "</s>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>", "<end_of_turn>",
             "<|im_start|>", "<|im_end|>"]
    model = dict(trained(corpus, True), byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = stop
    kinds = {"each": {"normalizer": normalizers(PREPEND, REPLACE), "decoder": LLAMA},
             "first": {"pre_tokenizer": metaspace("first", False), "decoder": LLAMA},
             "none": {"normalizer": REPLACE, "pre_tokenizer": GEMMA_SPLIT, "decoder": GEMMA}}
    built = {kind: build(model, parts, [added("<unk>")] + [added(name) for name in names]) for kind, parts in kinds.items()}
    rows = []
    for shape, template in make_vectors.TEMPLATES:
        if shape not in ("chatml", "llama2", "llama3", "gemma", "mistral", "zephyr"):
            continue
        for messages in make_vectors.conversations():
            try:
                text = environment.from_string(template).render(messages=messages, add_generation_prompt=True, bos_token="<s>",
                                                                eos_token="</s>")
            except TemplateError:
                continue
            rows.append({"shape": shape, "template": template, "messages": messages, "text": text,
                         "ids": {kind: ids(Tokenizer.from_str(json.dumps(one)), text) for kind, one in built.items()}})
    return {"tokenizers": built, "rows": rows}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        corpus = file.read()[:60000]
    strings = list(texts(corpus))
    cases = make_tokenizers(corpus, strings)
    out = {"made_with": {"tokenizers": tokenizers.__version__, "sentencepiece": sentencepiece.__version__},
           "texts": strings, "shared": share(cases), "cases": cases, "tables": make_tables(corpus, strings)}
    for case in out["tables"]:
        case["texts"] = [strings.index(text) for text in case["texts"]]
    chats = make_chats(corpus)
    model = chats["tokenizers"]["each"]["model"]
    for one in chats["tokenizers"].values():
        one["model"] = None
    tables = {"pres": make_pres(sys.argv[2]), "chats": dict(chats, model=model)}
    if len(sys.argv) > 3:
        tables["smollm2"] = make_smollm2(sys.argv[3], strings)
    for name, value in (("characters.json", out), ("tables.json", tables)):
        with open(f"{sys.argv[2]}/{name}", "w", encoding="ascii") as file:
            json.dump(value, file, separators=(",", ":"))
            file.write("\n")


main()
