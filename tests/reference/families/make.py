# SPDX-License-Identifier: Apache-2.0
# Made the folders beside this file: small models with random weights, written by transformers, and
# what transformers answers for them in float32. Usage: python make.py [name ...]
import os
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
COMMON = dict(vocab_size=80, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=256, initializer_range=0.2, bos_token_id=0, eos_token_id=[1, 2],
              pad_token_id=None)
VARIANTS = {
    # biases, untied, no window
    "qwen2": ("qwen2", torch.float32, dict(num_key_value_heads=2, hidden_size=64, tie_word_embeddings=False,
              use_sliding_window=False, sliding_window=32, max_window_layers=1)),
    # tied; the second layer alone within a window
    "qwen2-window": ("qwen2", torch.bfloat16, dict(num_key_value_heads=1, hidden_size=64,
                     tie_word_embeddings=True, use_sliding_window=True, sliding_window=21,
                     max_window_layers=1)),
    # every layer within a window
    "mistral": ("mistral", torch.bfloat16, dict(num_key_value_heads=2, head_dim=32, sliding_window=30,
                tie_word_embeddings=False)),
    # no window, head size from the others
    "mistral-full": ("mistral", torch.float16, dict(num_attention_heads=2, num_key_value_heads=1,
                     sliding_window=None, tie_word_embeddings=False)),
    # norms of heads, heads wider than hidden / heads, tied
    "qwen3": ("qwen3", torch.bfloat16, dict(num_key_value_heads=2, head_dim=32, tie_word_embeddings=True)),
    # with every attention bias, untied, a window from layer 1 on
    "qwen3-bias": ("qwen3", torch.float32, dict(num_key_value_heads=4, head_dim=16, attention_bias=True,
                   tie_word_embeddings=False, use_sliding_window=True, sliding_window=17,
                   max_window_layers=1)),
    # sandwich norms, gelu, two sets of angles; the first layer within a window
    "gemma3": ("gemma3_text", torch.float32, dict(num_key_value_heads=2, head_dim=32, sliding_window=23,
               layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=24,
               rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                                    sliding_attention=dict(rope_type="default", rope_theta=1e4)))),
    # bf16: the root of hidden 48 is 6.9375 there
    "gemma3-bf16": ("gemma3_text", torch.bfloat16, dict(num_key_value_heads=1, head_dim=16, hidden_size=48,
                    sliding_window=40, layer_types=["full_attention", "sliding_attention"],
                    query_pre_attn_scalar=16, attention_bias=True)),
    # a router and experts in each layer, weights that sum to 1
    "qwen3-moe": ("qwen3_moe", torch.bfloat16, dict(num_key_value_heads=2, head_dim=32, num_experts=8,
                  num_experts_per_tok=3, moe_intermediate_size=32, norm_topk_prob=True, tie_word_embeddings=True)),
    # weights as the softmax over all experts has them
    "qwen3-moe-softmax": ("qwen3_moe", torch.float32, dict(num_key_value_heads=4, head_dim=16, num_experts=5,
                          num_experts_per_tok=2, moe_intermediate_size=64, norm_topk_prob=False,
                          tie_word_embeddings=False)),
    # an MLP without experts in the first layer; every layer within a window, whatever max_window_layers says
    "qwen3-moe-dense": ("qwen3_moe", torch.bfloat16, dict(num_key_value_heads=2, head_dim=32, num_experts=6,
                        num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True, tie_word_embeddings=True,
                        mlp_only_layers=[0], use_sliding_window=True, sliding_window=27, max_window_layers=1)),
    "mixtral": ("mixtral", torch.float16, dict(num_attention_heads=2, num_key_value_heads=1, num_local_experts=4, num_experts_per_tok=2,
                intermediate_size=64, sliding_window=None, tie_word_embeddings=False)),
    # every layer within a window
    "mixtral-window": ("mixtral", torch.bfloat16, dict(num_key_value_heads=2, head_dim=32, num_local_experts=6,
                       num_experts_per_tok=1, intermediate_size=32, sliding_window=19, tie_word_embeddings=True)),
}
TOKENS = 100


@torch.no_grad()
def make(name):
    kind, dtype, fields = VARIANTS[name]
    torch.manual_seed(sum(map(ord, name)))
    config = AutoConfig.for_model(kind, **{**COMMON, **fields})
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    for key, p in model.named_parameters():
        if key.endswith("norm.weight"):
            p.copy_(p.mean() + 0.2 * torch.randn_like(p))
        elif key.endswith("bias"):
            p.copy_(0.3 * torch.randn_like(p))
    model = model.to(dtype)
    path = os.path.join(HERE, name)
    model.save_pretrained(path)
    wide = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    if kind == "gemma3_text":  # the scale as the model's own type has it
        scale = wide.model.embed_tokens.embed_scale
        print("scale", scale, model.model.embed_tokens.embed_scale)
        scale.copy_(scale.to(dtype))
    ids = torch.randint(0, config.vocab_size, (1, TOKENS))
    out = wide(ids, output_hidden_states=True, use_cache=False)
    hidden = torch.stack([h[0] for h in out.hidden_states])
    save_file({"ids": ids[0].to(torch.int32), "logits": out.logits[0].contiguous(),
               "hidden": hidden.contiguous()}, os.path.join(path, "expected.safetensors"))
    print(name, out.logits.std().item(), hidden.abs().max().item())


print(transformers.__version__, torch.__version__)
for variant in sys.argv[1:] or VARIANTS:
    make(variant)
