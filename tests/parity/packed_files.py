"""Checkpoints with weights of 4 or 8 bits as integers, in the layouts in which they are published.

A weight is its scale times the integer less its zero point; inputs of a matrix that are adjacent ("groups") share both.

gptq        GPTQ as AutoGPTQ writes it, symmetric: qweight [in / 8, out], eight inputs in an int32, the first one in its
            lowest bits; scales [groups, out]; qzeros [groups, out / 8], less one; g_idx [in], the group of each input.
gptq_order  The same with zero points and inputs whose groups are not in order ("desc_act"): in even layers in one order
            for all matrices with the same inputs, as GPTQ's tools write them, in odd layers each in its own.
gptq_eight  The same with 8 bits, a group for a whole row, and zero points as they are ("gptq_v2").
awq         AWQ as AutoAWQ writes it ("gemm"): qweight [in, out / 8], outputs 0, 2, 4, 6, 1, 3, 5 and 7 of eight in an
            int32; qzeros [groups, out / 8] likewise; scales [groups, out].
pack4       "compressed-tensors" of format pack-quantized with zero points: weight_packed [out, in / 8], weight_scale
            [out, groups], weight_zero_point [out / 8, groups], weight_shape.
pack8       The same with 8 bits and a scale for each row, symmetric.
int8        "compressed-tensors" of format int-quantized: weight [out, in] in bytes, weight_scale [out, 1].
"""

import json
import re
import tempfile
import zlib

import numpy as np
import safetensors.torch
import torch
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32
from transformers import AutoModelForCausalLM

GROUP = 32
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def compressed_tensors(kind, bits, strategy, symmetric):
    weights = {
        "actorder": None, "block_structure": None, "dynamic": False, "group_size": GROUP if strategy == "group" else None,
        "num_bits": bits, "observer": "minmax", "observer_kwargs": {}, "strategy": strategy, "symmetric": symmetric,
        "type": "int",
    }  # fmt: skip
    group = {"input_activations": None, "output_activations": None, "targets": ["Linear"], "weights": weights}
    return {
        "config_groups": {"group_0": group}, "format": kind, "global_compression_ratio": None, "ignore": ["lm_head"],
        "kv_cache_scheme": None, "quant_method": "compressed-tensors", "quantization_status": "compressed",
    }  # fmt: skip


# quantization_config of config.json.
CONFIGS = {
    "gptq": {
        "bits": 4, "damp_percent": 0.1, "desc_act": False, "group_size": GROUP, "quant_method": "gptq", "sym": True,
    },
    "gptq_order": {
        "bits": 4, "checkpoint_format": "gptq", "desc_act": True, "group_size": GROUP, "lm_head": False,
        "quant_method": "gptq", "sym": False,
    },
    "gptq_eight": {
        "bits": 8, "checkpoint_format": "gptq_v2", "desc_act": False, "group_size": -1, "pack_dtype": "int32",
        "quant_method": "gptq", "sym": False,
    },
    "awq": {
        "bits": 4, "group_size": GROUP, "modules_to_not_convert": None, "quant_method": "awq", "version": "gemm",
        "zero_point": True,
    },
    "pack4": compressed_tensors("pack-quantized", 4, "group", False),
    "pack8": compressed_tensors("pack-quantized", 8, "channel", True),
    "int8": compressed_tensors("int-quantized", 8, "channel", True),
}  # fmt: skip


def scale_name(module, kind):
    return f"{module}.scales" if kind.startswith(("gptq", "awq")) else f"{module}.weight_scale"


def bits_of(kind):
    return 8 if kind in ("gptq_eight", "pack8", "int8") else 4


def group_of(kind, cols, module=None):
    """The group of each input."""
    size = GROUP if kind in ("gptq", "gptq_order", "awq", "pack4") else cols
    groups = np.arange(cols) // size
    if kind != "gptq_order":
        return groups
    layer = int(re.search(r"layers\.(\d+)", module)[1])
    inputs = re.sub(r"\.(q|k|v|gate|up)_proj$", "", module) if layer % 2 == 0 else module
    return np.random.default_rng(zlib.crc32(inputs.encode())).permutation(groups)


def quantize(weight, kind, module, random):
    """(integers [out, in] of 0 to 2^bits - 1, scales [out, groups], zero points [out, groups], group of each input) of
    a weight whose groups differ in size."""
    most = 2 ** bits_of(kind) - 1
    group = group_of(kind, weight.shape[1], module)
    count = int(group.max()) + 1
    weight = weight.numpy() * 2.0 ** random.uniform(-1, 1, (weight.shape[0], count))[:, group]
    dtype = torch.float16 if kind.startswith(("gptq", "awq")) else torch.bfloat16
    scales, zeros = np.empty((weight.shape[0], count)), np.empty((weight.shape[0], count), np.int64)
    for g in range(count):
        part = weight[:, group == g]
        low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
        if kind in ("gptq", "pack8", "int8"):
            scales[:, g], zeros[:, g] = 2 * np.maximum(-low, high) / most, (most + 1) // 2
        else:
            scales[:, g] = (high - low) / most
            zeros[:, g] = np.clip(np.round(-low / scales[:, g]), 1, most)  # "gptq" can't store a zero point of 0
    scales = torch.from_numpy(scales).to(dtype)
    integers = np.round(weight / scales.double().numpy()[:, group]) + zeros[:, group]
    return np.clip(integers, 0, most).astype(np.int64), scales, zeros, group


def pack(integers, bits, order=range(8)):
    """[n, m] as int32 [n, m / (32 / bits)], the first of the order in the lowest bits."""
    count = 32 // bits
    parts = integers.reshape(integers.shape[0], -1, count)
    words = sum(parts[:, :, place] << (bits * i) for i, place in zip(range(count), order))
    return torch.from_numpy(words.astype(np.uint32).view(np.int32))


def stored(kind, module, integers, scales, zeros, group):
    """The tensors of a weight, by their names."""
    bits = bits_of(kind)
    if kind.startswith("gptq"):
        less = 0 if kind == "gptq_eight" else 1
        return {
            f"{module}.qweight": pack(integers, bits).T.contiguous(),
            f"{module}.qzeros": pack((zeros - less).T, bits),
            f"{module}.scales": scales.T.contiguous(),
            f"{module}.g_idx": torch.from_numpy(group.astype(np.int32)),
        }
    if kind == "awq":
        return {
            f"{module}.qweight": pack(integers.T, bits, AWQ_ORDER),
            f"{module}.qzeros": pack(zeros.T, bits, AWQ_ORDER),
            f"{module}.scales": scales.T.contiguous(),
        }
    tensors = {f"{module}.weight_scale": scales}
    half = 2 ** (bits - 1)
    signed = torch.from_numpy((integers - half).astype(np.int8))
    if kind == "int8":
        return tensors | {f"{module}.weight": signed}
    tensors[f"{module}.weight_packed"] = pack_to_int32(signed, bits)
    tensors[f"{module}.weight_shape"] = torch.tensor(signed.shape)
    if kind == "pack4":
        signed_zeros = torch.from_numpy((zeros - half).astype(np.int8))
        tensors[f"{module}.weight_zero_point"] = pack_to_int32(signed_zeros, bits, packed_dim=0).contiguous()
    return tensors


def unpack(words, bits, order=range(8)):
    count = 32 // bits
    words = words.numpy().view(np.uint32).astype(np.int64)
    parts = np.empty((*words.shape, count), np.int64)
    for i, place in zip(range(count), order):
        parts[:, :, place] = words >> (bits * i) & (2**bits - 1)
    return parts.reshape(words.shape[0], -1)


def dequantize(kind, module, tensors, scales):
    """float32 [out, in]."""
    bits = bits_of(kind)
    if kind.startswith(("gptq", "awq")):
        order = AWQ_ORDER if kind == "awq" else range(8)
        zeros = unpack(tensors[f"{module}.qzeros"], bits, order) + (kind in ("gptq", "gptq_order"))
        words = tensors[f"{module}.qweight"]
        integers = unpack(words, bits, order) if kind == "awq" else unpack(words.T.contiguous(), bits).T
        if f"{module}.g_idx" in tensors:
            group = tensors[f"{module}.g_idx"].numpy()
        else:
            group = group_of(kind, integers.shape[0])
        weight = scales.float()[group] * torch.from_numpy(integers - zeros[group]).float()
        return weight.T.contiguous()
    if kind == "int8":
        return scales.float() * tensors[f"{module}.weight"].float()
    shape = tensors[f"{module}.weight_shape"]
    integers = unpack_from_int32(tensors[f"{module}.weight_packed"], bits, torch.Size(shape)).float()
    if kind == "pack4":
        zero_shape = torch.Size((shape[0], scales.shape[1]))
        zeros = unpack_from_int32(tensors[f"{module}.weight_zero_point"], bits, zero_shape, packed_dim=0).float()
        integers = integers - zeros.repeat_interleave(GROUP, 1)
    return scales.float().repeat_interleave(integers.shape[1] // scales.shape[1], 1) * integers


def quantize_files(folder, kind, random):
    """Turns a saved model's projections into packed ones."""
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    for name in list(tensors):
        module = name.removesuffix(".weight")
        if module.endswith("_proj"):
            weight = tensors.pop(name)
            tensors |= stored(kind, module, *quantize(weight.float(), kind, module, random))
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    path = folder / "config.json"
    config = json.loads(path.read_text()) | {"quantization_config": CONFIGS[kind]}
    path.write_text(json.dumps(config, indent=2) + "\n")


def kind_of(config):
    return next((kind for kind, fields in CONFIGS.items() if fields == config.get("quantization_config")), None)


def modules_of(tensors, kind):
    end = ".scales" if kind.startswith(("gptq", "awq")) else ".weight_scale"
    return [name.removesuffix(end) for name in tensors if name.endswith(end)]


def load(folder, dtype, changed=lambda module, scales: scales):
    """The model with the dequantized weights."""
    config = json.loads((folder / "config.json").read_text())
    kind = kind_of(config)
    del config["quantization_config"]
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    modules = modules_of(tensors, kind)
    plain = {
        name: tensor for name, tensor in tensors.items()
        if name.endswith(".bias") or name.rpartition(".")[0] not in modules
    }  # fmt: skip
    for module in modules:
        scales = changed(module, tensors[scale_name(module, kind)])
        plain[f"{module}.weight"] = dequantize(kind, module, tensors, scales)
    with tempfile.TemporaryDirectory() as other:
        safetensors.torch.save_file(plain, f"{other}/model.safetensors", metadata={"format": "pt"})
        with open(f"{other}/config.json", "w") as file:
            json.dump(config, file)
        return AutoModelForCausalLM.from_pretrained(
            other, dtype=dtype, attn_implementation="eager", experts_implementation="eager"
        ).eval()


def models_with_other_scales(folder):
    """For every packed weight (name, the model whose scales for it are in reverse)."""
    kind = kind_of(json.loads((folder / "config.json").read_text()))
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    for module in modules_of(tensors, kind):

        def other(found, scales, module=module):
            return scales.flip((0, 1)) if found == module else scales

        yield module, load(folder, torch.float32, other)
