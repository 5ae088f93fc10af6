"""The Llama architecture in plain PyTorch, for training. Its weights carry the names that Transformers gives them."""

import dataclasses
import json
import pathlib

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import nn

from start import start
from tokenizer import BOS, EOS, VOCABULARY


@dataclasses.dataclass
class Shape:
    vocabulary: int = VOCABULARY
    hidden: int = 256
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    feed_forward: int = 768
    positions: int = 4096
    theta: float = 500000.0
    epsilon: float = 1e-5


class RMSNorm(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.hidden))
        self.epsilon = shape.epsilon

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.epsilon)


def rope_tables(positions, shape, dtype):
    """cos and sin of [batch, 1, length, head_dim], with the two halves of a head rotated against each other."""
    frequencies = shape.theta ** (-torch.arange(0, shape.head_dim, 2, device=positions.device) / shape.head_dim)
    angles = positions[:, None, :, None] * frequencies
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head_dim, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head_dim, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=False)

    def forward(self, x, mask, cos, sin):
        batch, length, _ = x.shape
        q, k, v = (
            projection(x).view(batch, length, -1, self.shape.head_dim).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        group = self.shape.heads // self.shape.kv_heads
        k, v = rotate(k, cos, sin).repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), k, v, attn_mask=mask)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.down_proj = nn.Linear(shape.feed_forward, shape.hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.input_layernorm, self.self_attn = RMSNorm(shape), Attention(shape)
        self.post_attention_layernorm, self.mlp = RMSNorm(shape), FeedForward(shape)

    def forward(self, x, mask, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), mask, cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape)

    def forward(self, tokens, positions, mask, dtype):
        x = self.embed_tokens(tokens).to(dtype)
        cos, sin = rope_tables(positions, self.shape, dtype)
        for layer in self.layers:
            x = layer(x, mask, cos, sin)
        return self.norm(x)


class Llama(nn.Module):
    """`mask` is [batch, 1, length, length], true where the row's token may look at the column's token."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.model = Decoder(shape)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                # The layers' outputs start small, so that the residual stream does not grow with depth.
                nn.init.normal_(weight, std=0.02 if name.endswith("down_proj.weight") else 0.04)
        start(self)

    def forward(self, tokens, positions, mask, dtype=torch.float32):
        """The last hidden states; `logits` turns those that are wanted into scores."""
        return self.model(tokens, positions, mask, dtype)

    def logits(self, states):
        return F.linear(states, self.model.embed_tokens.weight.to(states.dtype)).float()


def save(model, folder):
    """Writes config.json, generation_config.json and model.safetensors in bf16."""
    shape, folder = model.shape, pathlib.Path(folder)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.feed_forward,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": shape.positions,
        "rms_norm_eps": shape.epsilon,
        "rope_theta": shape.theta,
        "rope_scaling": None,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "torch_dtype": "bfloat16",
    }
    generation = {"bos_token_id": BOS, "eos_token_id": EOS, "do_sample": False, "max_new_tokens": 16}
    for name, content in (("config.json", config), ("generation_config.json", generation)):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")
    weights = {name: weight.detach().to("cpu", torch.bfloat16).contiguous() for name, weight in model.state_dict().items()}
    safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
