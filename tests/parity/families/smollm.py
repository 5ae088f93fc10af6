"""The tiny models of SmolLM3."""

from transformers import SmolLM3Config

from tiny import model, rope


def smollm3_config(**fields):
    return SmolLM3Config(
        vocab_size=72, hidden_size=64, intermediate_size=48, num_attention_heads=8, num_key_value_heads=2,
        max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=2, rope_parameters=rope(2e4),
        **fields,
    )  # fmt: skip


@model(published=True, without={"layer without RoPE": {"no_rope_layers": [1, 1, 1, 1]}})
def smollm3():
    """SmolLM3: one layer of four without RoPE, a tied head, four query heads to one KV head."""
    return smollm3_config(num_hidden_layers=4, no_rope_layers=[1, 0, 1, 1])


@model(
    published=True,
    published_fields={"no_rope_layers": None},
    without={"layers without RoPE": {"no_rope_layers": [1, 1, 1, 1]}},
)
def smollm3_interval():
    """SmolLM3 whose layers without RoPE are every second one."""
    return smollm3_config(num_hidden_layers=4, no_rope_layer_interval=2)


@model(without={"layer without RoPE": {"no_rope_layers": [1, 1, 1, 1]}})
def smollm3_step():
    """SmolLM3 as it is published, and as GGUF files can say it: every fourth layer without RoPE."""
    return smollm3_config(num_hidden_layers=4)
