#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a careful PyTorch loop makes of the shape llama-8b on this GPU, for peer_torch.py.

Random bf16 weights, q/k/v and gate/up as one product each, a static cache of 2,048 positions, decode
under one CUDA graph behind 1,000 tokens, cold prompts by scaled_dot_product_attention. One JSON object
on standard output: tokens a second. Needs torch 2.5 or newer and 40 GiB of the GPU.
"""
import json

import torch
import torch.nn.functional as F

HIDDEN, LAYERS, HEADS, KV, DIM, FFN, VOCAB = 4096, 32, 32, 8, 128, 14336, 128256
CONTEXT, POSITION = 2048, 1000
DEVICE, TYPE = "cuda", torch.bfloat16
torch.manual_seed(0)


def weight(outputs, inputs):
    return torch.randn(outputs, inputs, device=DEVICE, dtype=TYPE) * 0.02


def ones():
    return torch.ones(HIDDEN, device=DEVICE, dtype=TYPE)


def angles(positions):
    frequency = 1.0 / (500000.0 ** (torch.arange(0, DIM, 2, device=DEVICE).float() / DIM))
    turn = positions.float()[:, None] * frequency[None]
    return turn.cos().to(TYPE)[:, None], turn.sin().to(TYPE)[:, None]


def rotate(x, cosine, sine):
    a, b = x[..., : DIM // 2], x[..., DIM // 2 :]
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)


class Model:
    def __init__(self):
        self.layers = [
            (ones(), weight((HEADS + 2 * KV) * DIM, HIDDEN), weight(HIDDEN, HEADS * DIM),
             ones(), weight(2 * FFN, HIDDEN), weight(HIDDEN, FFN))
            for _ in range(LAYERS)
        ]
        self.embedding, self.head, self.last = weight(VOCAB, HIDDEN), weight(VOCAB, HIDDEN), ones()

    def attend(self, q, k, v, layer, cache, positions):
        if cache is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        keys, values = cache[0][layer], cache[1][layer]
        keys.index_copy_(2, positions[:1], k)
        values.index_copy_(2, positions[:1], v)
        mask = (torch.arange(CONTEXT, device=DEVICE)[None] <= positions[:1, None])[None, None]
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)

    def step(self, tokens, positions, lanes, rows, cache=None):
        x = F.embedding(tokens, self.embedding)
        cosine, sine = angles(positions)
        for i, (norm, qkv, out, norm2, gate_up, down) in enumerate(self.layers):
            h = F.linear(F.rms_norm(x, (HIDDEN,), norm, 1e-5), qkv)
            q, k, v = h.split([HEADS * DIM, KV * DIM, KV * DIM], -1)
            q = rotate(q.view(-1, HEADS, DIM), cosine, sine).view(lanes, rows, HEADS, DIM).transpose(1, 2)
            k = rotate(k.view(-1, KV, DIM), cosine, sine).view(lanes, rows, KV, DIM).transpose(1, 2)
            v = v.view(lanes, rows, KV, DIM).transpose(1, 2)
            a = self.attend(q, k, v, i, cache, positions)
            x = x + F.linear(a.transpose(1, 2).reshape(lanes * rows, HEADS * DIM), out)
            gate, up = F.linear(F.rms_norm(x, (HIDDEN,), norm2, 1e-5), gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        x = F.rms_norm(x, (HIDDEN,), self.last, 1e-5)
        return F.linear(x.view(lanes, rows, HIDDEN)[:, -1], self.head)


def milliseconds(f, times):
    f()
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
    begin.record()
    for _ in range(times):
        f()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / times


def decode(model, lanes):
    cache = [torch.zeros(LAYERS, lanes, KV, CONTEXT, DIM, device=DEVICE, dtype=TYPE) for _ in range(2)]
    tokens = torch.randint(0, VOCAB, (lanes,), device=DEVICE)
    positions = torch.full((lanes,), POSITION, device=DEVICE)
    for _ in range(2):
        model.step(tokens, positions, lanes, 1, cache)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model.step(tokens, positions, lanes, 1, cache)
    return lanes * 1e3 / milliseconds(graph.replay, 20)


def prompt(model, rows):
    tokens = torch.randint(0, VOCAB, (rows,), device=DEVICE)
    positions = torch.arange(rows, device=DEVICE)
    return rows * 1e3 / milliseconds(lambda: model.step(tokens, positions, 1, rows), 3)


def main():
    with torch.inference_mode():
        model = Model()
        print(json.dumps({
            "decode": {lanes: decode(model, lanes) for lanes in (1, 8, 32)},
            "cold": {rows: prompt(model, rows) for rows in (2048, 8192, 32768)},
            "torch": torch.__version__,
        }))


if __name__ == "__main__":
    main()
