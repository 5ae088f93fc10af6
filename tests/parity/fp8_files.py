"""Checkpoints with float8 (e4m3) weights, in the layouts in which they are published.

A weight is the stored one times its scale; nothing else about activations' scales in such a checkpoint changes its
weights, and an engine that computes in a wider type ignores those.

block    "fp8" with weight_block_size, as DeepSeek-V3 and Qwen3 have it: weight_scale_inv [rows / 128, columns / 128]
         rounded up, float32, to multiply with in spite of its name (README_WEIGHTS.md of DeepSeek-V3).
scalar   "fp8" without blocks, as AutoFP8 wrote it: weight_scale and input_scale without a shape, float32 (vLLM's
         documentation of its "fp8" method).
tensor   "compressed-tensors" of format float-quantized and strategy tensor: weight_scale and input_scale [1]
         (the package compressed-tensors), of the model's dtype.
channel  The same of strategy channel: weight_scale [rows, 1]; the scales of the inputs are not in the file.
fbgemm   "fbgemm_fp8": weight_scale [rows, 1], float32 (Transformers' FbgemmFp8Linear).
"""

import json
import tempfile

import numpy as np
import safetensors.torch
import torch
from transformers import AutoModelForCausalLM

BLOCK = 128
LARGEST = torch.finfo(torch.float8_e4m3fn).max


def arguments(strategy, dynamic):
    return {
        "actorder": None, "block_structure": None, "dynamic": dynamic, "group_size": None, "num_bits": 8,
        "observer": None if dynamic else "minmax", "observer_kwargs": {}, "strategy": strategy, "symmetric": True,
        "type": "float",
    }  # fmt: skip


def compressed_tensors(weights, inputs):
    group = {"input_activations": inputs, "output_activations": None, "targets": ["Linear"], "weights": weights}
    return {
        "config_groups": {"group_0": group}, "format": "float-quantized", "global_compression_ratio": None,
        "ignore": ["lm_head"], "kv_cache_scheme": None, "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
    }  # fmt: skip


UNCONVERTED = ["lm_head", *(f"model.layers.0.self_attn.{name}_proj" for name in "qkvo")]
# quantization_config of config.json.
CONFIGS = {
    "block": {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "quant_method": "fp8",
        "weight_block_size": [BLOCK, BLOCK],
    },
    "scalar": {"activation_scheme": "static", "ignored_layers": ["lm_head"], "quant_method": "fp8"},
    "tensor": compressed_tensors(arguments("tensor", False), arguments("tensor", False)),
    "channel": compressed_tensors(arguments("channel", False), arguments("token", True)),
    "fbgemm": {"activation_scale_ub": 1200.0, "modules_to_not_convert": UNCONVERTED, "quant_method": "fbgemm_fp8"},
}
# Rows and columns of the part of a weight that has one scale, and the scales' dtype.
PARTS = {
    "block": (BLOCK, BLOCK, torch.float32),
    "scalar": (None, None, torch.float32),
    "tensor": (None, None, torch.bfloat16),
    "channel": (1, None, torch.bfloat16),
    "fbgemm": (1, None, torch.float32),
}


def spread(scales, rows, columns, shape):
    """Scales [row parts, column parts] as one for every element of a weight of that shape."""
    wide = scales.repeat_interleave(rows, 0).repeat_interleave(columns, 1)
    return wide[: shape[0], : shape[1]]


def quantize(weight, kind, random):
    """(stored weight, scales [row parts, column parts]) of a weight whose parts differ in size."""
    rows, columns = (size or whole for size, whole in zip(PARTS[kind], weight.shape))
    parts = [-(-whole // size) for whole, size in zip(weight.shape, (rows, columns))]
    several = parts[0] * parts[1] > 1
    exponents = np.linspace(-1, 1, parts[0] * parts[1]) if several else random.uniform(-0.5, 0.5, 1)
    sizes = random.permutation(2.0**exponents).reshape(parts)
    weight = weight * spread(torch.from_numpy(sizes).float(), rows, columns, weight.shape)
    scales = torch.empty(parts)
    for i in range(parts[0]):
        for j in range(parts[1]):
            part = weight[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
            scales[i, j] = part.abs().max() / LARGEST
    scales = scales.to(PARTS[kind][2])
    stored = weight / spread(scales.float(), rows, columns, weight.shape)
    return stored.clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn), scales


def dequantize(stored, scales, kind):
    rows, columns = (size or whole for size, whole in zip(PARTS[kind], stored.shape))
    scales = scales.float().reshape(-(-stored.shape[0] // rows), -1)
    return stored.float() * spread(scales, rows, columns, stored.shape)


def quantize_files(folder, kind, random):
    """Turns a saved model's projections into float8 ones."""
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    for name, weight in list(tensors.items()):
        module = name.removesuffix(".weight")
        if not module.endswith("_proj") or (kind == "fbgemm" and module in UNCONVERTED):
            continue
        tensors[name], scales = quantize(weight.float(), kind, random)
        scales = scales.reshape({"scalar": (), "tensor": (1,)}.get(kind, scales.shape))
        tensors[scale_name(name, kind)] = scales
        if kind in ("scalar", "tensor"):
            tensors[f"{module}.input_scale"] = torch.full_like(scales, 0.03)
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    path = folder / "config.json"
    config = json.loads(path.read_text()) | {"quantization_config": CONFIGS[kind]}
    path.write_text(json.dumps(config, indent=2) + "\n")


def scale_name(weight_name, kind):
    return f"{weight_name}_scale{'_inv' if kind == 'block' else ''}"


def load(folder, dtype, changed=lambda name, scales: scales):
    """The model with the dequantized weights: Transformers itself would compute with float8 or bfloat16 ones."""
    config = json.loads((folder / "config.json").read_text())
    found = config.pop("quantization_config")
    kind = next(kind for kind, fields in CONFIGS.items() if fields == found)
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    plain = {name: weight for name, weight in weights.items() if not name.endswith(("_scale", "_scale_inv"))}
    for name, weight in plain.items():
        if weight.dtype == torch.float8_e4m3fn:
            plain[name] = dequantize(weight, changed(name, weights[scale_name(name, kind)]), kind)
    with tempfile.TemporaryDirectory() as other:
        safetensors.torch.save_file(plain, f"{other}/model.safetensors", metadata={"format": "pt"})
        with open(f"{other}/config.json", "w") as file:
            json.dump(config, file)
        return AutoModelForCausalLM.from_pretrained(
            other, dtype=dtype, attn_implementation="eager", experts_implementation="eager"
        ).eval()


def models_with_other_scales(folder):
    """For every float8 weight (name, the model whose scales for it are in reverse, or twice as large where all are
    one)."""
    for name, weight in safetensors.torch.load_file(folder / "model.safetensors").items():
        if weight.dtype == torch.float8_e4m3fn:

            def other(found, scales, name=name):
                if found != name:
                    return scales
                return 2 * scales if scales.numel() == 1 else scales.flip(tuple(range(scales.dim())))

            yield name, load(folder, torch.float32, other)
