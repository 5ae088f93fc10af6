"""Tiny models whose files hold float8 weights, in the layouts of published checkpoints (see fp8_files.py)."""

from transformers import LlamaConfig, Qwen3MoeConfig

from tiny import model, rope


def llama():
    return LlamaConfig(
        vocab_size=64, hidden_size=48, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=256, tie_word_embeddings=False,
        rope_parameters=rope(),
    )  # fmt: skip


@model(published=True, fp8="block")
def fp8_block():
    """Scales of 128x128 blocks, of which the last ones are smaller."""
    return LlamaConfig(
        vocab_size=64, hidden_size=144, intermediate_size=136, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=1, head_dim=40, max_position_embeddings=256, tie_word_embeddings=True,
        rope_parameters=rope(),
    )  # fmt: skip


@model(published=True, fp8="scalar")
def fp8_scalar():
    """A scale for every weight, without a shape, in float32, and one for its input."""
    return llama()


@model(published=True, fp8="tensor")
def fp8_tensor():
    """A scale for every weight, of shape [1], in bfloat16, and one for its input."""
    return llama()


@model(published=True, fp8="channel")
def fp8_channel():
    """A scale for every row of a weight, of shape [rows, 1], in bfloat16."""
    return llama()


@model(published=True, fp8="fbgemm")
def fp8_fbgemm():
    """A scale for every row of a weight, of shape [rows, 1], in float32; the first layer's attention in bfloat16."""
    return llama()


@model(published=True, published_fields={"num_experts": 4, "num_local_experts": None}, fp8="block")
def fp8_experts():
    """Qwen3-MoE with scales of blocks for every expert, and none for the router."""
    return Qwen3MoeConfig(
        vocab_size=64, hidden_size=144, intermediate_size=48, moe_intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=48, max_position_embeddings=256, num_experts=4,
        num_experts_per_tok=2, norm_topk_prob=True, rope_parameters=rope(),
    )  # fmt: skip
