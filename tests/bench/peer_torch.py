#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shape llama-8b on this GPU: this program beside a careful PyTorch loop (torch_loop.py).

Runs both in turn, so that drift meets both alike, and prints medians and ratios: above 1, ours is
faster. No part of the product.

    tests/bench/peer_torch.py --pairs 3 --json result.json build/roundhouse
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOALS = {("decode", 1): 1.5, ("decode", 32): 1.5, ("cold", 2048): 1.0, ("cold", 8192): 1.0,
         ("cold", 32768): 1.0}


def ours(program, more):
    """(kind, size) -> tokens a second."""
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        command = [program, "bench", "--shape", "llama-8b", "--device", "cuda", "--profile",
                   "cuda-bf16-sm90", "--graphs", "on", "--lanes", "32", "--seconds", "1", "--quiet",
                   "--json", f.name] + more
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        mode = json.load(f)["modes"][0]
    rates = {("cold", row["tokens"]): row["tok_s"] for row in mode["cold"]}
    rates.update({("decode", row["lanes"]): row["tok_s"] for row in mode["decode"]})
    return rates


def peer():
    run = subprocess.run([sys.executable, os.path.join(HERE, "torch_loop.py")], check=True,
                         stdout=subprocess.PIPE)
    result = json.loads(run.stdout.splitlines()[-1])
    return {(kind, int(size)): rate for kind in ("decode", "cold")
            for size, rate in result[kind].items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="roundhouse")
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--json", help="write medians and ratios here")
    parser.add_argument("--more", default="", help="more options for roundhouse bench")
    args = parser.parse_args()
    runs = []
    for _ in range(args.pairs):
        runs.append((ours(args.program, args.more.split()), peer()))
    rows = []
    for key in sorted(runs[0][1], key=lambda k: (k[0] != "decode", k[1])):
        pairs = [(a[key], b[key]) for a, b in runs if key in a]
        if not pairs:
            continue
        ratios = [a / b for a, b in pairs]
        row = {"what": key[0], "size": key[1], "ours_tok_s": statistics.median(a for a, _ in pairs),
               "peer_tok_s": statistics.median(b for _, b in pairs),
               "ratio": statistics.median(ratios), "ratios": ratios, "goal": GOALS.get(key)}
        rows.append(row)
        goal = "" if row["goal"] is None else "  goal %.1fx" % row["goal"]
        print("%-6s %6d  ours %9.0f  peer %9.0f tok/s  %.2fx (%s)%s" % (
            key[0], key[1], row["ours_tok_s"], row["peer_tok_s"], row["ratio"],
            ", ".join("%.2f" % r for r in ratios), goal))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
