"""The tiny models of ERNIE 4.5."""

from transformers import Ernie4_5Config

from tiny import model, rope


@model(published=True, without={"interleaving": {"model_type": "llama"}})
def ernie():
    """ERNIE 4.5: rotation of neighbouring dimensions, a tied head, eight query heads to one KV head."""
    return Ernie4_5Config(
        vocab_size=72, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=1, head_dim=32, max_position_embeddings=256, rope_parameters=rope(5e5),
    )  # fmt: skip


@model(without={"interleaving": {"model_type": "llama", "attention_bias": True, "mlp_bias": True}})
def ernie_bias():
    """ERNIE 4.5 with biases in every projection and an untied head."""
    return Ernie4_5Config(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=256, use_bias=True, tie_word_embeddings=False,
        rope_parameters=rope(1e4),
    )  # fmt: skip
