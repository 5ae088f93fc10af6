"""What every tiny random model of the parity fixtures has: its weights, and the layouts of its config.json."""

import dataclasses
from collections.abc import Callable

import torch
from transformers import AutoConfig, AutoModelForCausalLM


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
    # The layout of its float8 weights, of fp8_files.PARTS.
    fp8: str | None = None
    # The layout of its packed weights, of packed_files.CONFIGS.
    packed: str | None = None
    # What the model has, and the config fields that would switch it off: each changes the logits clearly.
    without: dict = dataclasses.field(default_factory=dict)
    prompt_lengths: tuple = (1, 7, 33, 70)
    # The shortest prefix of a prompt that is a reference.
    least_prefix: int = 1


# Every tiny model, by its fixture's name.
MODELS = {}


def model(**fields):
    """Marks a function that returns a Transformers config as a tiny model's, and says how its fixture is made: its name
    is the fixture's, its docstring says what it covers. The fields are Tiny's."""

    def add(config):
        MODELS[config.__name__] = Tiny(config, **fields)
        return config

    return add


def rope(theta=1e4, rope_type="default", **fields):
    return {"rope_type": rope_type, "rope_theta": theta, **fields}


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
    # Gemma's norms multiply by 1 + weight, and its embeddings are scaled: small ones let the layers add as much.
    gemma = "gemma" in model.config.model_type
    embedding = 0.2 if gemma else 0.6 if model.config.tie_word_embeddings else 1.0
    for name, weight in model.named_parameters():
        normal = torch.from_numpy(random.standard_normal(weight.shape)).float()
        uniform = torch.from_numpy(random.random(weight.shape)).float()
        if tiny_model.left_out and name.endswith(tiny_model.left_out):
            value = 0 * normal
        elif name.endswith("bias"):
            value = 0.5 * normal
        elif gemma and name == "model.norm.weight":
            # Of either sign: a tied head would say the last token over and over.
            value = torch.where(normal > 0, uniform - 0.5, -1.5 - uniform)
        elif name.endswith("norm.weight"):
            value = uniform - 0.5 if gemma else uniform + 0.5
        elif "embed_tokens" in name:
            value = embedding * normal
        elif "lm_head" in name:
            value = 4.0 * normal / hidden**0.5
        else:  # also routers: theirs makes logits about as wide
            value = 2.0 * normal / weight.shape[-1] ** 0.5
        weight.copy_(value.to(tiny_model.dtype))


def published_rope(config, parameters):
    """The fields that Transformers 4 had for RoPE."""
    if "full_attention" in parameters:
        local = parameters["sliding_attention"]["rope_theta"]
        return {**published_rope(config, parameters["full_attention"]), "rope_local_base_freq": local}
    parameters = dict(parameters)
    fields = {"rope_theta": parameters.pop("rope_theta")}
    # Phi-3's checkpoints have these outside of the scaling.
    if "original_max_position_embeddings" in config:
        parameters.pop("original_max_position_embeddings", None)
    if (share := parameters.pop("partial_rotary_factor", 1.0)) != 1.0:
        fields["partial_rotary_factor"] = share
    rope_type = parameters.pop("rope_type")
    fields["rope_scaling"] = None if rope_type == "default" else {"type": rope_type, **parameters}
    return fields


def published_config(config, fields):
    """config.json's content in the layout of Transformers 4."""
    config = dict(config)
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    config |= published_rope(config, config.pop("rope_parameters")) | fields
    return {key: value for key, value in config.items() if value is not None or key not in fields}
