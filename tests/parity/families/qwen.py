"""The tiny models of Qwen2, Qwen3 and Qwen3-MoE."""

import torch
from transformers import Qwen2Config, Qwen3Config, Qwen3MoeConfig

from tiny import model, rope


@model(
    published=True,
    published_fields={"sliding_window": 16},
    without={"disuse of its window": {"use_sliding_window": True, "sliding_window": 16, "layer_types": None}},
)
def qwen2_bias():
    """Qwen2: biases of the QKV projections alone, no head_dim in the config, seven query heads to one KV head, a tied
    head, a sliding window in the config that is not in use."""
    return Qwen2Config(
        vocab_size=80, hidden_size=112, intermediate_size=48, num_hidden_layers=2, num_attention_heads=7,
        num_key_value_heads=1, max_position_embeddings=256, max_window_layers=1, tie_word_embeddings=True,
        rope_parameters=rope(1e6),
    )  # fmt: skip


@model(
    published=True,
    without={
        "windows": {"layer_types": ["full_attention"] * 3},
        "full attention": {"layer_types": ["sliding_attention"] * 3},
    },
)
def qwen2_window():
    """Qwen2 with a sliding window in all layers but the first one."""
    return Qwen2Config(
        vocab_size=64, hidden_size=48, intermediate_size=56, num_hidden_layers=3, num_attention_heads=3,
        num_key_value_heads=1, max_position_embeddings=256, use_sliding_window=True, sliding_window=20,
        max_window_layers=1, rope_parameters=rope(),
    )  # fmt: skip


YARN = rope(1e4, "yarn", factor=4.0, original_max_position_embeddings=32)


@model(
    published=True,
    without={
        "scaling": {"rope_parameters": rope()},
        "attention factor": {"rope_parameters": YARN | {"attention_factor": 1.0}},
    },
)
def qwen2_yarn():
    """Qwen2 with YaRN as its model cards recommend it: the attention factor follows from the factor."""
    return Qwen2Config(
        vocab_size=72, hidden_size=64, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, rope_parameters=YARN,
    )  # fmt: skip


def qwen3(**fields):
    return Qwen3Config(max_position_embeddings=256, rms_norm_eps=1e-6, **fields)


@model(dtype=torch.float32)
def qwen3_tied():
    """QK-norm and a tied head."""
    return qwen3(
        vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, tie_word_embeddings=True, rope_parameters=rope(1e6),
    )  # fmt: skip


@model()
def qwen3_wide():
    """Seven query heads to one KV head, an untied head, a head_dim of 64."""
    return qwen3(
        vocab_size=112, hidden_size=56, intermediate_size=88, num_hidden_layers=2, num_attention_heads=7,
        num_key_value_heads=1, head_dim=64, tie_word_embeddings=False, rope_parameters=rope(),
    )  # fmt: skip


OWN_YARN = YARN | {"attention_factor": 1.5, "truncate": False}


@model(
    published=True,
    # Newer configs say "rope_type" where older ones say "type".
    published_fields={"rope_scaling": {key: value for key, value in OWN_YARN.items() if key != "rope_theta"}},
    without={
        "attention factor": {"rope_parameters": YARN},
        "untruncated ramp": {"rope_parameters": OWN_YARN | {"truncate": True}},
    },
)
def qwen3_yarn():
    """Qwen3 with YaRN, an attention factor of its own, and a ramp between dimensions that are not whole."""
    return qwen3(
        vocab_size=72, hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=32, rope_parameters=OWN_YARN,
    )  # fmt: skip


@model(
    published=True,
    published_fields={"num_experts": 8, "num_local_experts": None},
    without={"norm of weights": {"norm_topk_prob": False}, "second expert": {"num_experts_per_tok": 1}},
)
def qwen3_moe():
    """Qwen3-MoE: two of eight experts with normed weights, a dense layer in the middle."""
    return Qwen3MoeConfig(
        vocab_size=72, hidden_size=48, intermediate_size=64, moe_intermediate_size=24, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=256, num_experts=8,
        num_experts_per_tok=2, norm_topk_prob=True, mlp_only_layers=[1], rope_parameters=rope(1e6),
    )  # fmt: skip


@model(
    without={"weights as they are": {"norm_topk_prob": True}, "third expert": {"num_experts_per_tok": 2}},
)
def qwen3_moe_unnormed():
    """Qwen3-MoE: three of six experts in every second layer, weights that don't add up to one; their number named
    as Transformers 5 does."""
    return Qwen3MoeConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, moe_intermediate_size=20, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=1, head_dim=32, max_position_embeddings=256, num_experts=6,
        num_experts_per_tok=3, norm_topk_prob=False, decoder_sparse_step=2, rope_parameters=rope(),
    )  # fmt: skip
