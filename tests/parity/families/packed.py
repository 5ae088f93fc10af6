"""Tiny models whose files hold weights of 4 or 8 bits as integers, in the layouts of published checkpoints (see
packed_files.py)."""

from transformers import LlamaConfig, Phi3Config, Qwen2Config, Qwen3MoeConfig

from tiny import model, rope


def llama():
    return LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=256, tie_word_embeddings=False,
        rope_parameters=rope(),
    )  # fmt: skip


@model(published=True, packed="gptq")
def gptq():
    """GPTQ of 4 bits without zero points of its own."""
    return llama()


@model(published=True, packed="gptq_order")
def gptq_order():
    """GPTQ whose columns are not in the order of their groups."""
    return llama()


@model(published=True, packed="gptq_eight")
def gptq_eight():
    """GPTQ of 8 bits, a group for a whole row, beside biases."""
    return Qwen2Config(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True, rope_parameters=rope(),
    )  # fmt: skip


@model(published=True, packed="awq")
def awq():
    """AWQ, whose words have outputs of a matrix in an order of their own."""
    return llama()


@model(published=True, published_fields={"num_experts": 4, "num_local_experts": None}, packed="awq")
def awq_experts():
    """AWQ of every expert, and none of the router."""
    return Qwen3MoeConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=32, max_position_embeddings=256, num_experts=4,
        num_experts_per_tok=2, norm_topk_prob=True, rope_parameters=rope(),
    )  # fmt: skip


@model(published=True, packed="pack4")
def packed_fused():
    """compressed-tensors of 4 bits with zero points, in matrices that are several projections."""
    return Phi3Config(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, original_max_position_embeddings=256, pad_token_id=0,
        eos_token_id=2, tie_word_embeddings=False, rope_parameters=rope(),
    )  # fmt: skip


@model(published=True, packed="pack8")
def packed_eight():
    """compressed-tensors of 8 bits with a scale for each row."""
    return llama()


@model(published=True, packed="int8")
def packed_bytes():
    """compressed-tensors of 8 bits, not packed, as it is written for integer products."""
    return llama()
