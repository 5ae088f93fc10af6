"""The tiny models of Gemma 2 and 3."""

from transformers import Gemma2Config, Gemma3TextConfig

from tiny import model, rope


@model(
    published=True,
    # Published configs of Gemma name the activation twice, and rely on the tied head being the default.
    published_fields={"hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": None},
    without={
        "capped attention": {"attn_logit_softcapping": None},
        "capped logits": {"final_logit_softcapping": None},
        "windows": {"layer_types": ["full_attention"] * 2},
        "full attention": {"layer_types": ["sliding_attention"] * 2},
        "query_pre_attn_scalar": {"query_pre_attn_scalar": 256},
        "GELU": {"hidden_activation": "silu"},
    },
)
def gemma2():
    """Gemma 2: norms before and after attention and MLP, of weight 1 + w; GELU; scaled embeddings; attention scores
    and logits capped; windows in every other layer; a query_pre_attn_scalar that is not the head_dim of 256."""
    return Gemma2Config(
        vocab_size=64, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=256, max_position_embeddings=256, query_pre_attn_scalar=900, sliding_window=16,
        attn_logit_softcapping=3.0, final_logit_softcapping=2.0, rope_parameters=rope(),
    )  # fmt: skip


def gemma3_config(**fields):
    return Gemma3TextConfig(
        hidden_size=48, intermediate_size=64, num_attention_heads=4, num_key_value_heads=1,
        max_position_embeddings=256, sliding_window=16, **fields,
    )  # fmt: skip


GEMMA3_ROPE = {"full_attention": rope(1e5, "linear", factor=4.0), "sliding_attention": rope(1e3)}


@model(
    without={
        "windows": {"layer_types": ["full_attention"] * 4, "rope_parameters": GEMMA3_ROPE},
        "full attention": {"layer_types": ["sliding_attention"] * 4, "rope_parameters": GEMMA3_ROPE},
        "scaling": {"rope_parameters": GEMMA3_ROPE | {"full_attention": rope(1e5)}},
        "local rotation": {"rope_parameters": GEMMA3_ROPE | {"sliding_attention": rope(1e5, "linear", factor=4.0)}},
        "query_pre_attn_scalar": {"query_pre_attn_scalar": 32},
    }
)
def gemma3():
    """Gemma 3: QK-norm, windows in two of three layers, RoPE of its own in these, scaled RoPE in the others; one KV
    head."""
    return gemma3_config(
        vocab_size=64, num_hidden_layers=4, head_dim=32, sliding_window_pattern=3, query_pre_attn_scalar=9,
        rope_parameters=GEMMA3_ROPE,
    )  # fmt: skip


@model(
    published=True,
    published_fields={"sliding_window_pattern": 2, "_sliding_window_pattern": None, "tie_word_embeddings": None},
    without={"windows": {"layer_types": ["full_attention"] * 3}},
)
def gemma3_pattern():
    """Gemma 3 with its layers' types as a pattern, and RoPE, in the layout of published checkpoints."""
    return gemma3_config(
        vocab_size=80, num_hidden_layers=3, head_dim=16, sliding_window_pattern=2, query_pre_attn_scalar=4,
        rope_parameters={"full_attention": rope(1e6), "sliding_attention": rope()},
    )  # fmt: skip
