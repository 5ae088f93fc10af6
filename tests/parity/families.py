"""The tiny random models of the parity fixtures, family by family.

Every function under @model returns a Transformers config; its name is the fixture's, its docstring says what it
covers.
"""

import torch
from transformers import (
    Ernie4_5Config,
    Gemma2Config,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
    SmolLM3Config,
)

from tiny import Tiny

MODELS = {}


def model(**fields):
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


@model(dtype=torch.float32, max_shard_size="200KB")
def llama_gqa():
    """Grouped queries, the default head_dim, an untied head, an odd vocabulary, a file in shards."""
    return llama(
        vocab_size=131, hidden_size=64, intermediate_size=112, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=False, rope_parameters=rope(),
    )  # fmt: skip


@model(dtype=torch.float32, without={"scaling": {"rope_parameters": rope(5e5)}})
def llama_scaled():
    """Llama 3's RoPE scaling, a tied head, a head_dim that is not hidden_size / num_attention_heads."""
    scaling = rope(
        5e5, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64
    )
    return llama(
        vocab_size=96, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=3,
        num_key_value_heads=1, head_dim=32, tie_word_embeddings=True, rope_parameters=scaling,
    )  # fmt: skip


@model(
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


@model(
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
        vocab_size=72, hidden_size=192, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
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


YARN = rope(1e4, "yarn", factor=4.0, original_max_position_embeddings=32)


@model(
    published=True,
    without={"scaling": {"rope_parameters": rope()}, "attention factor": {"rope_parameters": YARN | {"attention_factor": 1.0}}},
)
def qwen2_yarn():
    """Qwen2 with YaRN as its model cards recommend it: the attention factor follows from the factor."""
    return Qwen2Config(
        vocab_size=72, hidden_size=64, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, rope_parameters=YARN,
    )  # fmt: skip


@model(
    published=True,
    without={
        "attention factor": {"rope_parameters": YARN},
        "untruncated ramp": {"rope_parameters": YARN | {"attention_factor": 1.5, "truncate": True}},
    },
)
def qwen3_yarn():
    """Qwen3 with YaRN, an attention factor of its own, and a ramp between dimensions that are not whole."""
    return qwen3(
        vocab_size=72, hidden_size=48, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=32, rope_parameters=YARN | {"attention_factor": 1.5, "truncate": False},
    )  # fmt: skip


LLAMA_YARN = rope(1e4, "yarn", factor=8.0, original_max_position_embeddings=64, beta_fast=4.0, beta_slow=0.5)


@model(
    without={
        "betas": {"rope_parameters": rope(1e4, "yarn", factor=8.0, original_max_position_embeddings=64, mscale=2.0,
                                          mscale_all_dim=0.5)},
        "mscale": {"rope_parameters": LLAMA_YARN},
    }
)  # fmt: skip
def llama_yarn():
    """Llama with YaRN's every field: the bounds of the ramp, the scales of the attention factor."""
    return llama(
        vocab_size=72, hidden_size=64, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, rope_parameters=LLAMA_YARN | {"mscale": 2.0, "mscale_all_dim": 0.5},
    )  # fmt: skip


@model(published=True, published_fields={"num_experts": 8, "num_local_experts": None}, without={"norm of weights": {"norm_topk_prob": False}, "second expert": {"num_experts_per_tok": 1}})
def qwen3_moe():
    """Qwen3-MoE: two of eight experts with normed weights, a dense layer in the middle."""
    return Qwen3MoeConfig(
        vocab_size=72, hidden_size=48, intermediate_size=64, moe_intermediate_size=24, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=256, num_experts=8,
        num_experts_per_tok=2, norm_topk_prob=True, mlp_only_layers=[1], rope_parameters=rope(1e6),
    )  # fmt: skip


@model(published=True, published_fields={"num_experts": 6, "num_local_experts": None}, without={"weights as they are": {"norm_topk_prob": True}, "third expert": {"num_experts_per_tok": 2}})
def qwen3_moe_unnormed():
    """Qwen3-MoE: three of six experts in every second layer, weights that don't add up to one."""
    return Qwen3MoeConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, moe_intermediate_size=20, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=1, head_dim=32, max_position_embeddings=256, num_experts=6,
        num_experts_per_tok=3, norm_topk_prob=False, decoder_sparse_step=2, rope_parameters=rope(),
    )  # fmt: skip


@model(published=True, published_fields={"num_experts": None}, without={"second expert": {"num_experts_per_tok": 1}})
def mixtral():
    """Mixtral: two of four experts in every layer."""
    return MixtralConfig(
        vocab_size=72, hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, num_local_experts=4, num_experts_per_tok=2,
        rope_parameters=rope(1e6),
    )  # fmt: skip


@model()
def llama_mqa():
    """32 query heads to one KV head; biases in every projection, that of the output and the MLP's too."""
    return llama(
        vocab_size=64, hidden_size=64, intermediate_size=40, num_hidden_layers=2, num_attention_heads=32,
        num_key_value_heads=1, head_dim=16, attention_bias=True, mlp_bias=True, rope_parameters=rope(),
    )  # fmt: skip


@model(dtype=torch.float16)
def llama_dim80():
    """A head_dim of 80, as many KV heads as query heads, saved in float16."""
    return llama(
        vocab_size=64, hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, head_dim=80, rope_parameters=rope(),
    )  # fmt: skip


@model()
def llama_dim128():
    """A head_dim of 128, eight query heads to one KV head."""
    return llama(
        vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=8,
        num_key_value_heads=1, head_dim=128, rope_parameters=rope(5e5),
    )  # fmt: skip
