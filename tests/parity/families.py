"""The tiny random models of the parity fixtures: their configs, and their weights.

Every function under @tiny returns a Transformers config; its name is the fixture's, its docstring says what it covers.
"""

import dataclasses
from collections.abc import Callable

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)


@dataclasses.dataclass
class Tiny:
    """A tiny model, and how its fixture is made."""

    config: Callable
    # The dtype of the model's file.
    dtype: torch.dtype = torch.bfloat16
    # Whether config.json gets the layout of the checkpoints that are published: that of Transformers 4.
    published: bool = False
    # Fields of config.json that such a checkpoint has besides, or (None) has not.
    published_fields: dict = dataclasses.field(default_factory=dict)
    # Weights (by the end of their name) that are zero and not in the file.
    left_out: str | None = None
    max_shard_size: str | None = None
    # What the model has, and the config fields that would switch it off: each changes the logits clearly.
    without: dict = dataclasses.field(default_factory=dict)
    prompt_lengths: tuple = (1, 7, 33, 70)
    # The shortest prefix of a prompt that is a reference.
    least_prefix: int = 1


MODELS = {}


def tiny(**fields):
    def add(config):
        MODELS[config.__name__] = Tiny(config, **fields)
        return config

    return add


def rope(theta=1e4, rope_type="default", **fields):
    return {"rope_type": rope_type, "rope_theta": theta, **fields}


def llama(**fields):
    return LlamaConfig(max_position_embeddings=256, rms_norm_eps=1e-5, **fields)


def qwen3(**fields):
    return Qwen3Config(max_position_embeddings=256, rms_norm_eps=1e-6, **fields)


@tiny(dtype=torch.float32, max_shard_size="200KB")
def llama_gqa():
    """Grouped queries, the default head_dim, an untied head, an odd vocabulary, a file in shards."""
    return llama(
        vocab_size=131, hidden_size=64, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=False, rope_parameters=rope(),
    )  # fmt: skip


@tiny(dtype=torch.float32, without={"scaling": {"rope_parameters": rope(5e5)}})
def llama_scaled():
    """Llama 3's RoPE scaling, a tied head, a head_dim that is not hidden_size / num_attention_heads."""
    scaling = rope(
        5e5, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64
    )
    return llama(
        vocab_size=96, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=3,
        num_key_value_heads=1, head_dim=32, tie_word_embeddings=True, rope_parameters=scaling,
    )  # fmt: skip


@tiny(
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


@tiny(dtype=torch.float32)
def qwen3_tied():
    """QK-norm and a tied head."""
    return qwen3(
        vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, tie_word_embeddings=True, rope_parameters=rope(1e6),
    )  # fmt: skip


@tiny()
def qwen3_wide():
    """Seven query heads to one KV head, an untied head, a head_dim of 64."""
    return qwen3(
        vocab_size=112, hidden_size=56, intermediate_size=88, num_hidden_layers=2, num_attention_heads=7,
        num_key_value_heads=1, head_dim=64, tie_word_embeddings=False, rope_parameters=rope(),
    )  # fmt: skip


@tiny(
    published=True,
    published_fields={"sliding_window": 16},
    without={"disuse of its window": {"use_sliding_window": True, "sliding_window": 16, "layer_types": None}},
)
def qwen2_bias():
    """Qwen2: biases of the QKV projections alone, no head_dim in the config, seven query heads to one KV head, a tied
    head, a sliding window in the config that is not in use."""
    return Qwen2Config(
        vocab_size=96, hidden_size=112, intermediate_size=72, num_hidden_layers=2, num_attention_heads=7,
        num_key_value_heads=1, max_position_embeddings=256, max_window_layers=1, tie_word_embeddings=True,
        rope_parameters=rope(1e6),
    )  # fmt: skip


@tiny(published=True, published_fields={"head_dim": None}, without={"window": {"sliding_window": None}})
def mistral_window():
    """Mistral: a sliding window in every layer, no head_dim in the config, four query heads to one KV head."""
    return MistralConfig(
        vocab_size=88, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-5, sliding_window=24,
        tie_word_embeddings=False, rope_parameters=rope(),
    )  # fmt: skip


@tiny(published=True)
def mistral_nowindow():
    """Mistral without a window, a head_dim that is not hidden_size / num_attention_heads, an untied head."""
    return MistralConfig(
        vocab_size=80, hidden_size=40, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=24, max_position_embeddings=256, rms_norm_eps=1e-5, sliding_window=None,
        tie_word_embeddings=False, rope_parameters=rope(1e6),
    )  # fmt: skip


def build(config):
    """A model in float32 with whatever weights."""
    return AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager"
    ).eval()


def changed(config, fields):
    """A config like `config` but for `fields`; "model_type" may be one of them."""
    fields = config.to_dict() | fields
    return AutoConfig.for_model(fields.pop("model_type"), **fields)


@torch.no_grad()
def randomize(model, random, tiny_model):
    """Weights of a size that lets every part of the model change its logits, as exact in the file as in float32."""
    hidden = model.config.hidden_size
    tied = model.config.tie_word_embeddings
    for name, weight in model.named_parameters():
        normal = torch.from_numpy(random.standard_normal(weight.shape)).float()
        uniform = torch.from_numpy(random.random(weight.shape)).float()
        if tiny_model.left_out and name.endswith(tiny_model.left_out):
            value = 0 * normal
        elif name.endswith("bias"):
            value = 0.5 * normal
        elif name.endswith("norm.weight"):
            # Gemma's norms multiply by 1 + weight.
            value = uniform - 0.5 if "gemma" in model.config.model_type else uniform + 0.5
        elif "embed_tokens" in name:
            value = (0.6 if tied else 1.0) * normal
        elif "lm_head" in name:
            value = 4.0 * normal / hidden**0.5
        else:
            value = 2.0 * normal / weight.shape[-1] ** 0.5
        weight.copy_(value.to(tiny_model.dtype))


def published_config(config, fields):
    """config.json's content in the layout of Transformers 4."""
    config = dict(config)
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    parameters = dict(config.pop("rope_parameters"))
    config["rope_theta"] = parameters.pop("rope_theta")
    rope_type = parameters.pop("rope_type")
    config["rope_scaling"] = None if rope_type == "default" else {"type": rope_type, **parameters}
    config |= fields
    return {key: value for key, value in config.items() if value is not None or key not in fields}
