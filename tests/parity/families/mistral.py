"""The tiny models of Mistral and Mixtral."""

from transformers import MistralConfig, MixtralConfig

from tiny import model, rope


@model(published=True, published_fields={"head_dim": None}, without={"window": {"sliding_window": None}})
def mistral_window():
    """Mistral: a sliding window in every layer, no head_dim in the config, four query heads to one KV head."""
    return MistralConfig(
        vocab_size=88, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, sliding_window=24,
        tie_word_embeddings=False, rope_parameters=rope(),
    )  # fmt: skip


@model(published=True)
def mistral_nowindow():
    """Mistral without a window, a head_dim that is not hidden_size / num_attention_heads, an untied head."""
    return MistralConfig(
        vocab_size=80, hidden_size=40, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=24, max_position_embeddings=256, rms_norm_eps=1e-5, sliding_window=None,
        tie_word_embeddings=False, rope_parameters=rope(1e6),
    )  # fmt: skip


@model(published=True, published_fields={"num_experts": None}, without={"second expert": {"num_experts_per_tok": 1}})
def mixtral():
    """Mixtral: two of four experts in every layer."""
    return MixtralConfig(
        vocab_size=72, hidden_size=64, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, num_local_experts=4, num_experts_per_tok=2,
        rope_parameters=rope(1e6),
    )  # fmt: skip
