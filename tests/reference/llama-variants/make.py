# SPDX-License-Identifier: Apache-2.0
# Made the folders beside this file: small models with random weights, written by transformers, and
# what transformers answers for them in float32. Usage: python make.py
import os

import torch
import transformers
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
COMMON = dict(vocab_size=80, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
              max_position_embeddings=256, initializer_range=0.2, bos_token_id=0, eos_token_id=[1, 2])
VARIANTS = {
    # every bias, untied, a head size of its own, llama3 angles, several files
    "llama3": dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16, attention_bias=True,
                   mlp_bias=True, tie_word_embeddings=False, rms_norm_eps=1e-5,
                   rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=8.0,
                                        low_freq_factor=1.0, high_freq_factor=4.0,
                                        original_max_position_embeddings=64)),
    # one KV head, tied, linear angles, bf16
    "linear": dict(num_attention_heads=4, num_key_value_heads=1, head_dim=32, tie_word_embeddings=True,
                   rms_norm_eps=1e-6,
                   rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
    # a KV head for each query head, head size from the others, f16
    "plain": dict(num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=False,
                  rms_norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=100000.0)),
}
DTYPES = {"llama3": torch.float32, "linear": torch.bfloat16, "plain": torch.float16}
TOKENS = 100


@torch.no_grad()
def make(name):
    torch.manual_seed(sum(map(ord, name)))
    config = LlamaConfig(**COMMON, **VARIANTS[name], attn_implementation="eager")
    model = LlamaForCausalLM(config).eval()
    for key, p in model.named_parameters():
        if key.endswith("norm.weight"):
            p.copy_(1 + 0.2 * torch.randn_like(p))
        elif key.endswith("bias"):
            p.copy_(0.3 * torch.randn_like(p))
    model = model.to(DTYPES[name])
    path = os.path.join(HERE, name)
    model.save_pretrained(path, max_shard_size="40KB" if name == "llama3" else "5GB")
    wide = LlamaForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.randint(0, COMMON["vocab_size"], (1, TOKENS))
    out = wide(ids, output_hidden_states=True, use_cache=False)
    hidden = torch.stack([h[0] for h in out.hidden_states])
    save_file({"ids": ids[0].to(torch.int32), "logits": out.logits[0].contiguous(),
               "hidden": hidden.contiguous()}, os.path.join(path, "expected.safetensors"))
    print(name, out.logits.std().item(), hidden.abs().max().item())


print(transformers.__version__, torch.__version__)
for variant in VARIANTS:
    make(variant)
