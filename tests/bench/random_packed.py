"""Makes a model folder of random integers as AWQ, GPTQ or compressed-tensors checkpoints have them, for measurements:
what a model says does not matter.

    pip install numpy && python3 random_packed.py awq|gptq|gptq-ordered|packed FOLDER [qwen3-0.6b|llama-3.1-8b]

All have 4 bits and groups of 128; AWQ has zero points; gptq-ordered has its inputs in another order than their groups
("desc_act"). Embeddings and head are 16-bit.
"""

import json
import pathlib
import sys

import numpy as np

GROUP = 128
SHAPES = {
    "qwen3-0.6b": ("Qwen3ForCausalLM", 1024, 3072, 28, 16, 8, 128, 151936, True),
    "llama-3.1-8b": ("LlamaForCausalLM", 4096, 14336, 32, 32, 8, 128, 128256, False),
}
COMPRESSED = {
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
        "group_size": GROUP, "num_bits": 4, "strategy": "group", "symmetric": True, "type": "int"}}},
    "format": "pack-quantized", "ignore": ["lm_head"], "quant_method": "compressed-tensors",
}  # fmt: skip
CONFIGS = {
    "awq": {"bits": 4, "group_size": GROUP, "quant_method": "awq", "version": "gemm", "zero_point": True},
    "gptq": {"bits": 4, "desc_act": False, "group_size": GROUP, "quant_method": "gptq", "sym": True},
    "gptq-ordered": {"bits": 4, "desc_act": True, "group_size": GROUP, "quant_method": "gptq", "sym": True},
    "packed": COMPRESSED,
}


class Writer:
    """A safetensors file of tensors that are made one after the other when they are written."""

    def __init__(self):
        self.tensors = []

    def add(self, name, dtype, shape, make):
        self.tensors.append((name, dtype, shape, make))

    def write(self, path):
        sizes = {"F16": 2, "BF16": 2, "I32": 4, "I64": 8}
        header, at = {}, 0
        for name, dtype, shape, _ in self.tensors:
            end = at + sizes[dtype] * int(np.prod(shape))
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
            at = end
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for _, _, shape, make in self.tensors:
                file.write(make(shape).tobytes())


def main():
    kind, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    shape = sys.argv[3] if len(sys.argv) > 3 else "qwen3-0.6b"
    architecture, hidden, inner, layers, heads, kv_heads, head_dim, vocab, tied = SHAPES[shape]
    random = np.random.default_rng(1)
    writer = Writer()

    def words(shape):
        return random.integers(0, 2**32, shape, np.uint32)

    def halves(shape):
        return random.normal(0, 2**-5, shape).astype(np.float16)

    # Integers of 4 bits differ from their zero point by 4.6 in the mean square.
    def scales(shape):
        return (2**-5 / 4.6 * random.uniform(0.5, 1.5, shape)).astype(np.float16)

    def bfloat16_scales(shape):
        return (scales(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)

    def add_matrix(module, rows, cols):
        groups = cols // GROUP
        if kind == "packed":
            writer.add(f"{module}.weight_packed", "I32", [rows, cols // 8], words)
            writer.add(f"{module}.weight_scale", "BF16", [rows, groups], bfloat16_scales)
            writer.add(f"{module}.weight_shape", "I64", [2], lambda _: np.array([rows, cols], np.int64))
            return
        awq = kind == "awq"
        writer.add(f"{module}.qweight", "I32", [cols, rows // 8] if awq else [cols // 8, rows], words)
        zeros = (lambda shape: 0x77777777 ^ words(shape) & 0x11111111) if awq else lambda s: np.full(s, 0x77777777)
        writer.add(f"{module}.qzeros", "I32", [groups, rows // 8], lambda s: zeros(s).astype(np.uint32))
        writer.add(f"{module}.scales", "F16", [groups, rows], scales)
        if kind == "gptq-ordered":  # one order for all matrices with the same inputs, as GPTQ's tools write it
            order = np.random.default_rng(cols).permutation(np.arange(cols, dtype=np.int32) // GROUP)
            writer.add(f"{module}.g_idx", "I32", [cols], lambda _: order)

    def add_ones(name, size):
        writer.add(name, "F16", [size], lambda shape: np.ones(shape, np.float16))

    writer.add("model.embed_tokens.weight", "F16", [vocab, hidden], halves)
    if not tied:
        writer.add("lm_head.weight", "F16", [vocab, hidden], halves)
    add_ones("model.norm.weight", hidden)
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        add_ones(f"{prefix}.input_layernorm.weight", hidden)
        add_ones(f"{prefix}.post_attention_layernorm.weight", hidden)
        if architecture == "Qwen3ForCausalLM":
            add_ones(f"{prefix}.self_attn.q_norm.weight", head_dim)
            add_ones(f"{prefix}.self_attn.k_norm.weight", head_dim)
        for name, rows, cols in [("self_attn.q_proj", heads * head_dim, hidden),
                                 ("self_attn.k_proj", kv_heads * head_dim, hidden),
                                 ("self_attn.v_proj", kv_heads * head_dim, hidden),
                                 ("self_attn.o_proj", hidden, heads * head_dim), ("mlp.gate_proj", inner, hidden),
                                 ("mlp.up_proj", inner, hidden), ("mlp.down_proj", hidden, inner)]:  # fmt: skip
            add_matrix(f"{prefix}.{name}", rows, cols)
    folder.mkdir(parents=True, exist_ok=True)
    writer.write(folder / "model.safetensors")
    config = {
        "architectures": [architecture], "vocab_size": vocab, "hidden_size": hidden, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "head_dim": head_dim, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "tie_word_embeddings": tied, "hidden_act": "silu", "eos_token_id": 2, "quantization_config": CONFIGS[kind],
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
