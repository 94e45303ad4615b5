#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole program beside llama.cpp: same GGUF file, same threads, alternating in one run.

    tests/bench/peer_llama_cpp.py [--dir DIR] [--threads 2] [--repeats 3] [--rows prompt,decode,...]
                                  [--ours "roundhouse options"] [MODEL.gguf...]

Not part of the product and of no test. In DIR (default ~/.cache/roundhouse-peer) it makes a Python
environment, fetches the source of llama-cpp-python from the package index, builds llama.cpp out of
it for this machine, and fetches and converts the models (SmolLM2-135M-Instruct in Q4_1 as published
and in BF16, by peer_bf16.py) when none is named. Each repeat runs ours, then the peer; printed are
the medians and the median of the pairs' ratios (above 1: ours is better). Rows:

    prompt   tok/s of a cold prompt of 512 and of 2,048 tokens
    decode   tok/s of 160 tokens behind a prompt of 64, 1 sequence and 8 at once (total); ours draws
             tokens from the distribution, the peer's tool takes given ones
    memory   resident MB while decoding, 1 sequence, context 2,304
    first    seconds from the start of the program to its end, prompt of 5 tokens, 1 new one
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOOLS = ["llama-bench", "llama-batched-bench"]
CONTEXT = 2304
URGENT = False


def hurry():
    """Before the cores that other sessions use: waiting at barriers would measure those."""
    pathlib.Path("/proc/self/autogroup").write_text("-18")


def sh(*command, **options):
    subprocess.run([str(c) for c in command], check=True, **options)


def build_peer(where):
    """The folder with the peer's tools; built when they are not there."""
    bin_dir = where / "build" / "bin"
    if all((bin_dir / t).exists() for t in TOOLS):
        return bin_dir
    where.mkdir(parents=True, exist_ok=True)
    python = python_of(where)
    if not list(where.glob("llama_cpp_python-*.tar.gz")):
        sh(python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-python",
           "-d", where, "llama-cpp-python")
    archive = sorted(where.glob("llama_cpp_python-*.tar.gz"))[-1]
    sh("tar", "xzf", archive, "-C", where)
    source = where / archive.name[: -len(".tar.gz")] / "vendor" / "llama.cpp"
    mend_tiles(source / "ggml" / "src" / "ggml-cpu" / "amx" / "mmq.cpp")
    tool = where / "venv" / "bin"
    sh("nice", "-n", "10", tool / "cmake", "-G", "Ninja", "-S", source, "-B", where / "build",
       f"-DCMAKE_MAKE_PROGRAM={tool / 'ninja'}", "-DCMAKE_BUILD_TYPE=Release",
       "-DGGML_NATIVE=ON", "-DGGML_OPENMP=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF",
       "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_SERVER=OFF")
    sh("nice", "-n", "10", tool / "ninja", "-C", where / "build", "-j2", *TOOLS)
    return bin_dir


def mend_tiles(path):
    """Without this its AMX products die on an illegal tile shape when gcc 12 builds them."""
    fix = HERE / "peer_amx_gcc.h"
    include = f'#include "{fix}"\n'
    text = path.read_text()
    if include not in text:
        path.write_text(include + text)


def python_of(where):
    python = where / "venv" / "bin" / "python"
    if not python.exists():
        sh(sys.executable, "-m", "venv", where / "venv")
        sh(python, "-m", "pip", "install", "-q", "gguf", "numpy", "cmake", "ninja")
    return python


def models(where):
    sh("sh", ROOT / "tests" / "fetch_smollm2", stdout=subprocess.DEVNULL)
    quantised = ROOT / "build-models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    half = ROOT / "build-models" / "SmolLM2-135M-Instruct.BF16.gguf"
    if not half.exists():
        sh(python_of(where), HERE / "peer_bf16.py", quantised, half)
    return [quantised, half]


def run(command):
    """Standard output of a command, its wall time, and its resident MB: the median of the second
    half of its life, so neither loading nor ending."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen([str(c) for c in command], stdout=out, stderr=subprocess.DEVNULL,
                                 start_new_session=True, preexec_fn=hurry if URGENT else None)
        samples = []
        while child.poll() is None:
            try:
                for line in pathlib.Path(f"/proc/{child.pid}/status").read_text().splitlines():
                    if line.startswith("VmRSS:"):
                        samples.append(int(line.split()[1]) / 1000)
            except (FileNotFoundError, ProcessLookupError):
                pass
            time.sleep(0.01 if time.monotonic() - begin > 1 else 0.002)
        wall = time.monotonic() - begin
        out.seek(0)
        text = out.read().decode()
    if child.returncode != 0:
        sys.exit(f"exit code {child.returncode} of: {' '.join(map(str, command))}")
    return text, wall, statistics.median(samples[len(samples) // 2 :] or [0])


class Ours:
    def __init__(self, program, model, threads, options):
        self.program, self.model = program, model
        self.common = ["--model", model, "--threads", threads, *options]

    def bench(self):
        text, _, _ = run([self.program, "bench", "--quiet", "--json", "-", "--seconds", 1,
                          "--context", CONTEXT, *self.common])
        return json.loads(text)

    def prompt(self):
        cold = {row["tokens"]: row["tok_s"] for row in self.result["cold"]}
        return {f"prompt {n}": cold[n] for n in (512, 2048)}

    def decode(self):
        lanes = {row["lanes"]: row["tok_s"] for row in self.result["decode"]}
        return {f"decode {n}": lanes[n] for n in (1, 8)}

    def begin(self, rows):
        if "prompt" in rows or "decode" in rows:
            self.result = self.bench()

    def memory(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as ids:
            ids.write(json.dumps(list(range(1000, 1064))) + "\n")
            ids.flush()
            _, _, resident = run([self.program, "run", "--quiet", "--context", CONTEXT, "--tokens",
                                  ids.name, "--ignore-eos", "--max-tokens", 160, *self.common])
        return {"memory MB": resident}

    def first(self):
        _, wall, _ = run([self.program, "run", "--quiet", "--greedy", "--max-tokens", 1, "--prompt",
                          "The capital of France is", "--context", CONTEXT, *self.common])
        return {"first s": wall}


class Peer:
    def __init__(self, bin_dir, model, threads):
        self.batched = [bin_dir / "llama-batched-bench", "-m", model, "-t", threads, "-tb", threads,
                        "--output-format", "jsonl"]
        self.single = [bin_dir / "llama-bench", "-m", model, "-t", threads, "-o", "jsonl"]

    def begin(self, rows):
        pass

    @staticmethod
    def lines(text):
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def prompt(self):
        text, _, _ = run([*self.single, "-p", "512,2048", "-n", 0, "-r", 1])
        return {f"prompt {row['n_prompt']}": row["avg_ts"] for row in self.lines(text)}

    def decode(self):
        """Alone by the tool that is faster at it."""
        text, _, _ = run([*self.single, "-p", 0, "-n", 160, "-d", 64, "-r", 1])
        alone = self.lines(text)[-1]["avg_ts"]
        text, _, _ = run([*self.batched, "-c", 2048, "-npp", 64, "-ntg", 160, "-npl", 8])
        return {"decode 1": alone, "decode 8": self.lines(text)[-1]["speed_tg"]}

    def memory(self):
        _, _, resident = run([*self.batched, "-c", CONTEXT, "-npp", 64, "-ntg", 160, "-npl", 1])
        return {"memory MB": resident}

    def first(self):
        _, wall, _ = run([*self.single, "-p", 0, "-n", 0, "-pg", "5,1", "-r", 1, "--no-warmup"])
        return {"first s": wall}


def compare(ours, peer, rows, repeats):
    pairs = {}
    for _ in range(repeats):
        ours.begin(rows)
        for row in rows:
            mine, theirs = getattr(ours, row)(), getattr(peer, row)()
            for name in mine:
                pairs.setdefault(name, []).append((mine[name], theirs[name]))
    for name, values in pairs.items():
        less_is_better = name.startswith(("memory", "first"))
        ratios = [b / a if less_is_better else a / b for a, b in values]
        mine, theirs = (statistics.median(v[i] for v in values) for i in (0, 1))
        print(f"{name:12} ours {mine:10.3f}  peer {theirs:10.3f}  ratio {statistics.median(ratios):5.2f}x"
              f"  ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    home = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path(home) / "roundhouse-peer")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", default="prompt,decode,memory,first")
    parser.add_argument("--program", default=str(ROOT / "build" / "roundhouse"))
    parser.add_argument("--urgent", action="store_true",
                        help="take the cores from other sessions while measuring (needs root)")
    parser.add_argument("--ours", default="", help="more options of ours, as one text")
    parser.add_argument("model", nargs="*")
    a = parser.parse_args()
    global URGENT
    URGENT = a.urgent
    bin_dir = build_peer(a.dir)
    for model in a.model or models(a.dir):
        print(f"\n{pathlib.Path(model).name}, {a.threads} threads, {a.repeats} repeats", flush=True)
        compare(Ours(a.program, model, a.threads, a.ours.split()),
                Peer(bin_dir, model, a.threads), a.rows.split(","), a.repeats)


if __name__ == "__main__":
    main()
