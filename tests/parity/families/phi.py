"""The tiny models of Phi-3 and Phi-4-mini."""

from transformers import Phi3Config

from tiny import model, rope


def longrope(half, **fields):
    """LongRoPE of 2 * half rotated dimensions: factors that grow with the wavelength, as found by search."""
    short = [round(1 + 0.5 * (i / half) ** 2, 3) for i in range(half)]
    long = [round(1.1 + 7 * (i / half) ** 1.5, 3) for i in range(half)]
    return {"short_factor": short, "long_factor": long, "rope_type": "longrope", **fields}


@model(
    published=True,
    without={
        "scaling": {"rope_parameters": rope()},
        "short factors": {"rope_parameters": longrope(48, rope_theta=1e4) | {"short_factor": [1.0] * 48}},
    },
)
def phi3():
    """Phi-3: fused QKV and gate/up weights, LongRoPE, a head_dim of 96; every position within the original context,
    which uses the short factors."""
    return Phi3Config(
        vocab_size=64, hidden_size=192, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=576, original_max_position_embeddings=144,
        pad_token_id=0, eos_token_id=2, rope_parameters=longrope(48, rope_theta=1e4),
    )  # fmt: skip


@model(
    published=True,
    prompt_lengths=(17, 20, 33, 70),
    least_prefix=17,
    without={
        "scaling": {"rope_parameters": rope()},
        "long factors": {"rope_parameters": longrope(8, rope_theta=1e4) | {"long_factor": longrope(8)["short_factor"]}},
    },
)
def phi3_long():
    """Phi-3 beyond its original context of 16 tokens, which uses the long factors at every position; as many KV heads
    as query heads."""
    return Phi3Config(
        vocab_size=64, hidden_size=64, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=256, original_max_position_embeddings=16,
        pad_token_id=0, eos_token_id=2, rope_parameters=longrope(8, rope_theta=1e4),
    )  # fmt: skip


@model(
    published=True,
    without={
        "attention factor": {"rope_parameters": longrope(12, rope_theta=1e4, partial_rotary_factor=0.75)},
        "partial rotation": {"rope_parameters": longrope(16, rope_theta=1e4, attention_factor=1.4)},
        "window": {"sliding_window": None},
    },
)
def phi4_mini():
    """Phi-4-mini: three quarters of each head rotated, a tied head, LongRoPE with an attention factor of its own,
    grouped queries, a sliding window."""
    return Phi3Config(
        vocab_size=80, hidden_size=96, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3,
        num_key_value_heads=1, max_position_embeddings=576, original_max_position_embeddings=144, sliding_window=30,
        tie_word_embeddings=True, pad_token_id=0, eos_token_id=2,
        rope_parameters=longrope(12, rope_theta=1e4, partial_rotary_factor=0.75, attention_factor=1.4),
    )  # fmt: skip
