"""The tiny models of Llama."""

import torch
from transformers import LlamaConfig

from tiny import model, rope


def llama(**fields):
    return LlamaConfig(max_position_embeddings=256, rms_norm_eps=1e-5, **fields)


@model(dtype=torch.float32, max_shard_size="200KB")
def llama_gqa():
    """Grouped queries, the default head_dim, an untied head, an odd vocabulary, a file in shards."""
    return llama(
        vocab_size=131, hidden_size=64, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=False, rope_parameters=rope(),
    )  # fmt: skip


@model(dtype=torch.float32, without={"scaling": {"rope_parameters": rope(5e5)}})
def llama_scaled():
    """Llama 3's RoPE scaling, a tied head, a head_dim that is not hidden_size / num_attention_heads."""
    scaling = rope(
        5e5, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64
    )
    return llama(
        vocab_size=96, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=3,
        num_key_value_heads=1, head_dim=32, tie_word_embeddings=True, rope_parameters=scaling,
    )  # fmt: skip


@model(
    dtype=torch.float32,
    published=True,
    left_out="o_proj.bias",
    without={"scaling": {"rope_parameters": rope()}},
)
def llama_bias():
    """Biases of the QKV projections, linear RoPE scaling, as many KV heads as query heads."""
    return llama(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, attention_bias=True, tie_word_embeddings=False,
        rope_parameters=rope(1e4, "linear", factor=2.5),
    )  # fmt: skip


LLAMA_YARN = rope(1e4, "yarn", factor=8.0, original_max_position_embeddings=64, beta_fast=4.0, beta_slow=0.5)


@model(
    without={
        "betas": {"rope_parameters": rope(1e4, "yarn", factor=8.0, original_max_position_embeddings=64, mscale=2.0,
                                          mscale_all_dim=0.5)},
        "mscale": {"rope_parameters": LLAMA_YARN},
    }
)  # fmt: skip
def llama_yarn():
    """Llama with YaRN's every field: the bounds of the ramp, the scales of the attention factor."""
    return llama(
        vocab_size=72, hidden_size=64, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, rope_parameters=LLAMA_YARN | {"mscale": 2.0, "mscale_all_dim": 0.5},
    )  # fmt: skip


@model()
def llama_mqa():
    """32 query heads to one KV head; biases in every projection, that of the output and the MLP's too."""
    return llama(
        vocab_size=64, hidden_size=64, intermediate_size=40, num_hidden_layers=2, num_attention_heads=32,
        num_key_value_heads=1, head_dim=16, attention_bias=True, mlp_bias=True, rope_parameters=rope(),
    )  # fmt: skip


@model(dtype=torch.float16)
def llama_dim80():
    """A head_dim of 80, as many KV heads as query heads, saved in float16."""
    return llama(
        vocab_size=64, hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, head_dim=80, rope_parameters=rope(),
    )  # fmt: skip


@model()
def llama_dim128():
    """A head_dim of 128, eight query heads to one KV head."""
    return llama(
        vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=1, head_dim=128, rope_parameters=rope(5e5),
    )  # fmt: skip
