"""Makes GGUF files of the parity fixtures with the `gguf` package, as llama.cpp's converters do.

    python3 gguf_files.py [FIXTURE...]        writes gguf/FIXTURE.gguf for each of FIXTURES

Weights keep their numbers: a file gives the logits of its fixture's folder. Needs numpy and gguf.
"""

import json
import math
import pathlib
import struct
import sys

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent

# Fixtures that GGUF can say everything of, and their general.architecture.
FIXTURES = {
    "ernie": "ernie4_5", "ernie_bias": "ernie4_5", "gemma2": "gemma2", "gemma3": "gemma3", "gemma3_pattern": "gemma3",
    "llama_bias": "llama", "llama_dim80": "llama", "llama_mqa": "llama",
    "llama_scaled": "llama", "llama_yarn": "llama", "mistral_nowindow": "llama", "mistral_window": "llama",
    "mixtral": "llama", "phi3_long": "phi3", "phi4_mini": "phi3", "qwen2_bias": "qwen2",
    "qwen2_yarn": "qwen2", "qwen3_moe": "qwen3moe", "qwen3_moe_unnormed": "qwen3moe", "qwen3_tied": "qwen3",
    "smollm3_step": "smollm3",
}  # fmt: skip

GLOBAL_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp", "block_sparse_moe.gate": "ffn_gate_inp",
}  # fmt: skip
GEMMA_NAMES = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
EXPERT_NAMES = {"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps",
                "w1": "ffn_gate_exps", "w3": "ffn_up_exps", "w2": "ffn_down_exps"}  # fmt: skip


def read_safetensors(folder):
    """Tensors as (dtype, array); bfloat16 as its bits."""
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8 : 8 + length]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            dtype = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}[entry["dtype"]]
            tensors[name] = entry["dtype"], np.frombuffer(data[begin:end], dtype).reshape(entry["shape"])
    return tensors


def as_float32(dtype, array):
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else array.astype(np.float32)


def permute(array, heads):
    """Rows of a head in pairs of neighbours, as llama.cpp's Llama has them."""
    return array.reshape(heads, 2, array.shape[0] // heads // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def rope_of(config):
    """RoPE's parameters in either layout of config.json: of layers that see everything, and of those with a window."""
    parameters = config.get("rope_parameters")
    if parameters and "full_attention" in parameters:
        return parameters["full_attention"], parameters["sliding_attention"]
    if parameters is None:
        scaling = config.get("rope_scaling") or {}
        parameters = {"rope_theta": config.get("rope_theta", 1e4), **scaling}
        parameters["rope_type"] = scaling.get("rope_type", scaling.get("type", "default"))
    local = {"rope_theta": config["rope_local_base_freq"]} if "rope_local_base_freq" in config else None
    return parameters, local


def llama3_factors(rope, head_dim):
    """What each pair's frequency is divided by: the numbers of llama.cpp's rope_freqs.weight."""
    factors = []
    for pair in range(head_dim // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * pair / head_dim)
        low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
        high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
        if wavelength < high:
            factors.append(1.0)
        elif wavelength > low:
            factors.append(rope["factor"])
        else:
            share = (rope["original_max_position_embeddings"] / wavelength - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"])  # fmt: skip
            factors.append(1 / ((1 - share) / rope["factor"] + share))
    return np.array(factors, np.float32)


def yarn_attention(rope):
    """Transformers' attention factor of YaRN, where it is not the plain one."""
    if "attention_factor" in rope:
        return rope["attention_factor"]
    if "mscale" in rope and "mscale_all_dim" in rope:
        scale = [0.1 * rope[name] * math.log(rope["factor"]) + 1 for name in ("mscale", "mscale_all_dim")]
        return scale[0] / scale[1]
    return None


class Maker:
    def __init__(self, name, family, folder, path):
        self.config = json.loads((folder / "config.json").read_text())
        self.family = family
        self.heads = self.config["num_attention_heads"]
        self.kv_heads = self.config.get("num_key_value_heads") or self.heads
        self.head_dim = self.config.get("head_dim") or self.config["hidden_size"] // self.heads
        self.tensors = read_safetensors(folder)
        self.writer = gguf.GGUFWriter(path, family)
        self.writer.add_name(name)

    def make(self):
        self.add_sizes()
        self.add_rope()
        self.add_family()
        self.add_tensors()
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()

    def add_sizes(self):
        writer, config = self.writer, self.config
        writer.add_context_length(config["max_position_embeddings"])
        writer.add_embedding_length(config["hidden_size"])
        writer.add_block_count(config["num_hidden_layers"])
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count(self.heads)
        writer.add_head_count_kv(self.kv_heads)
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        writer.add_vocab_size(config["vocab_size"])
        if config.get("head_dim"):
            writer.add_key_length(self.head_dim)
            writer.add_value_length(self.head_dim)
        if self.config.get("sliding_window") and self.family in ("llama", "gemma2", "gemma3", "phi3"):
            writer.add_sliding_window(config["sliding_window"])
        if experts := config.get("num_local_experts", config.get("num_experts")):
            writer.add_expert_count(experts)
            writer.add_expert_used_count(config["num_experts_per_tok"])
        if "moe_intermediate_size" in config:
            writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
            writer.add_expert_weights_norm(config["norm_topk_prob"])

    def add_rope(self):
        writer = self.writer
        rope, local = rope_of(self.config)
        writer.add_rope_freq_base(rope["rope_theta"])
        if local:
            writer.add_float32(f"{self.family}.rope.freq_base_swa", local["rope_theta"])
        share = rope.get("partial_rotary_factor", self.config.get("partial_rotary_factor", 1.0))
        writer.add_rope_dimension_count(int(self.head_dim * share))
        kind = rope["rope_type"]
        if kind == "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["factor"])
        elif kind == "yarn":
            writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            writer.add_rope_scaling_factor(rope["factor"])
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            for name in ("beta_fast", "beta_slow"):
                if name in rope:
                    writer.add_float32(f"{self.family}.rope.scaling.yarn_{name}", rope[name])
            if (factor := yarn_attention(rope)) is not None:
                writer.add_float32(f"{self.family}.rope.scaling.yarn_attn_factor", factor)
        elif kind == "llama3":
            writer.add_tensor("rope_freqs.weight", llama3_factors(rope, self.head_dim))
        elif kind == "longrope":
            original = self.config.get("original_max_position_embeddings", rope.get("original_max_position_embeddings"))
            stretch = self.config["max_position_embeddings"] / original
            factor = rope.get("attention_factor", math.sqrt(1 + math.log(stretch) / math.log(original)))
            writer.add_rope_scaling_orig_ctx_len(original)
            writer.add_rope_scaling_attn_factors(factor)
            for length in ("long", "short"):
                writer.add_tensor(f"rope_factors_{length}.weight", np.array(rope[f"{length}_factor"], np.float32))

    def add_family(self):
        writer, config = self.writer, self.config
        if self.family not in ("gemma2", "gemma3"):
            return
        # llama.cpp knows the published models' scales by their number of layers; these have others.
        writer.add_attention_scale(config.get("query_pre_attn_scalar", 256) ** -0.5)
        if config.get("attn_logit_softcapping"):
            writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        if config.get("final_logit_softcapping"):
            writer.add_final_logit_softcapping(config["final_logit_softcapping"])
        if self.family == "gemma3":
            types = config.get("layer_types")
            pattern = [kind == "sliding_attention" for kind in types] if types else config["sliding_window_pattern"]
            key = "gemma3.attention.sliding_window_pattern"
            writer.add_array(key, pattern) if types else writer.add_uint32(key, pattern)

    def gguf_name(self, name):
        """The tensor's name in the file, and the expert's number or None."""
        stem, _, end = name.rpartition(".")
        if stem in GLOBAL_NAMES:
            return f"{GLOBAL_NAMES[stem]}.{end}", None
        layer, _, part = stem.removeprefix("model.layers.").partition(".")
        if ".experts." in name:
            _, _, rest = part.partition("experts.")
            expert, _, which = rest.partition(".")
            return f"blk.{layer}.{EXPERT_NAMES[which]}.{end}", int(expert)
        names = LAYER_NAMES | (GEMMA_NAMES if self.family.startswith("gemma") else {})
        return f"blk.{layer}.{names[part]}.{end}", None

    def add_tensors(self):
        experts = {}
        for name, (dtype, array) in self.tensors.items():
            if self.family in ("llama", "smollm3") and ".q_proj." in name:
                array = permute(array, self.heads)
            if self.family in ("llama", "smollm3") and ".k_proj." in name:
                array = permute(array, self.kv_heads)
            to, expert = self.gguf_name(name)
            if expert is not None:
                experts.setdefault(to, (dtype, {}))[1][expert] = array
            else:
                self.add_tensor(to, dtype, array)
        for to, (dtype, parts) in experts.items():
            self.add_tensor(to, dtype, np.stack([parts[i] for i in range(len(parts))]))

    def add_tensor(self, name, dtype, array):
        if array.ndim < 2 or "ffn_gate_inp" in name:
            array = as_float32(dtype, array)
            if self.family.startswith("gemma") and name.endswith("norm.weight"):
                array = array + np.float32(1)
            self.writer.add_tensor(name, array)
        elif dtype == "BF16":
            self.writer.add_tensor(name, np.ascontiguousarray(array).view(np.uint8),
                                   raw_dtype=gguf.GGMLQuantizationType.BF16)  # fmt: skip
        else:
            self.writer.add_tensor(name, np.ascontiguousarray(array))


def main():
    (HERE / "gguf").mkdir(exist_ok=True)
    for name in sys.argv[1:] or FIXTURES:
        folder = HERE / "fixtures" / name
        if not folder.exists():
            continue
        path = HERE / "gguf" / f"{name}.gguf"
        Maker(name, FIXTURES[name], folder, path).make()
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
