"""Compares, field by field, what each family's Transformers model reads in config.json with what the library reads.

    python3 config_fields.py LIBNANOLITH.SO [FAMILY...]

For each family a tiny random model is written once. Then one field of its config.json after the other is changed, or
added where the family does not have it, and both compute the same prompt: where Transformers gives logits, the library
must give the same ones or refuse the folder with a sentence that names the field. Where Transformers fails there is
nothing to compare with, and what the library does is counted. So no field is half-applied, and none that the reference ignores changes a token.

The fields of the family's configuration class that src/model nowhere mentions are listed too: each must be one that does
not change what a model computes.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import sys
import tempfile
import warnings

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

import families  # noqa: F401
import tiny
from nanolith_engine import Engine, Refused

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROMPT = 30
# Of the logits' spread: what float32 may differ by, five times over.
TOLERANCE = 5e-4

# One tiny model for each family.
FAMILIES = {
    "llama": "llama_gqa",
    "mistral": "mistral_window",
    "mixtral": "mixtral",
    "qwen2": "qwen2_bias",
    "qwen3": "qwen3_tied",
    "qwen3_moe": "qwen3_moe",
    "ernie4_5": "ernie",
    "gemma2": "gemma2",
    "gemma3": "gemma3",
    "phi3": "phi3",
    "smollm3": "smollm3",
}


def layer_types(config):
    """All full, all with a window, and turns of the two."""
    count = config["num_hidden_layers"]
    names = ("full_attention", "sliding_attention")
    return [[names[0]] * count, [names[1]] * count, [names[i % 2] for i in range(count)]]


# What every field is changed to; functions of the family's own config.
CHANGES = {
    "layer_types": layer_types,
    "sliding_window": lambda config: [8, 16, None],
    "use_sliding_window": lambda config: [True, False],
    "max_window_layers": lambda config: [0, 1, 99],
    "sliding_window_pattern": lambda config: [1, 2, 3],
    "_sliding_window_pattern": lambda config: [2],
    "partial_rotary_factor": lambda config: [0.5],
    "rope_theta": lambda config: [2e4],
    "rope_local_base_freq": lambda config: [3e3],
    "rope_scaling": lambda config: [
        {"rope_type": "linear", "factor": 2.0},
        {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5},
        {"type": "linear", "factor": 4.0},
        {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64},
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 64},
    ],  # fmt: skip
    "original_max_position_embeddings": lambda config: [32],
    "attn_logit_softcapping": lambda config: [2.0, None],
    "final_logit_softcapping": lambda config: [2.0, None],
    "query_pre_attn_scalar": lambda config: [7],
    "attention_bias": lambda config: [True, False],
    "mlp_bias": lambda config: [True, False],
    "use_bias": lambda config: [True, False],
    "no_rope_layers": lambda config: [[1] * config["num_hidden_layers"], [0] * config["num_hidden_layers"]],
    "no_rope_layer_interval": lambda config: [1, 2],
    "rms_norm_eps": lambda config: [1e-2],
    "layer_norm_eps": lambda config: [1e-2],
    "hidden_act": lambda config: ["gelu_pytorch_tanh", "gelu", "silu"],
    "hidden_activation": lambda config: ["silu", "gelu_pytorch_tanh"],
    "tie_word_embeddings": lambda config: [True, False],
    "norm_topk_prob": lambda config: [True, False],
    "num_experts_per_tok": lambda config: [1],
    "decoder_sparse_step": lambda config: [1],
    "mlp_only_layers": lambda config: [[]],
    "use_bidirectional_attention": lambda config: [True, False],
    "attention_dropout": lambda config: [0.5],
    "clip_qkv": lambda config: [0.1],
    "logits_scaling": lambda config: [4.0],
    "residual_multiplier": lambda config: [0.5],
    "embedding_multiplier": lambda config: [3.0],
    "attention_multiplier": lambda config: [0.5],
    "mup_width_multiplier": lambda config: [2.0],
    "use_qk_norm": lambda config: [True, False],
    "pretraining_tp": lambda config: [2],
}

# Fields of the classes that src/model need not know: they don't change what a loaded model computes.
WITHOUT_EFFECT = {
    "attention_dropout", "bos_token_id", "embd_pdrop", "initializer_range", "output_router_logits", "pad_token_id",
    "pretraining_tp", "resid_pdrop", "router_aux_loss_coef", "router_jitter_noise", "use_cache",
}  # fmt: skip


def reference(folder, tokens):
    """The logits after the last token, or the sentence of what went wrong."""
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager",
            output_loading_info=True,
        )  # fmt: skip
        if info["missing_keys"]:
            return f"no weights for {sorted(info['missing_keys'])[0]}"
        with torch.no_grad():
            return model.eval()(torch.tensor([tokens])).logits[0, -1].float().numpy()
    except Exception as error:  # whatever a model raises that can't have this config
        return str(error).split("\n")[0]


def ours(library, folder, tokens):
    try:
        engine = Engine(library, folder, threads=1, num_pages=16, dtype="float32", warm_up=0)
    except Refused as error:
        return str(error)
    try:
        cache = engine.cache(tokens)
        logits = engine.logits(cache)
        engine.free_cache(cache)
        return logits
    finally:
        engine.close()


def judge(field, theirs, mine):
    """What is wrong, or nothing."""
    if isinstance(mine, str):
        if isinstance(theirs, str):
            return None
        names = [field, *(["rope_parameters"] if field.startswith("rope") else []), "tensor", "partial_rotary_factor"]
        return None if any(name in mine for name in names) else f"refused without the field's name: {mine}"
    if isinstance(theirs, str):
        return None
    error = np.abs(theirs - mine).max() / theirs.std()
    return None if error < TOLERANCE else f"logits are off by {error:.2g} of their spread"


def unknown_fields(config):
    source = "".join(path.read_text() for path in (ROOT / "src" / "model").glob("*.cpp"))
    source += (ROOT / "src" / "model" / "architecture.h").read_text()
    known = set(re.findall(r'"(\w+)"', source))
    names = {name for base in type(config).__mro__ for name in vars(base).get("__annotations__", {})}
    general = {name for base in transformers.PreTrainedConfig.__mro__ for name in vars(base).get("__annotations__", {})}
    return sorted(name for name in names - general - known - WITHOUT_EFFECT if not name.startswith("_"))


def write_model(name, folder):
    """A tiny model in float32. Its config.json in Transformers 5's layout and in that of checkpoints before it, both
    without layer_types."""
    made = dataclasses.replace(tiny.MODELS[name], dtype=torch.float32)
    model = tiny.build(made.config())
    tiny.randomize(model, np.random.default_rng(7), made)
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config.pop("layer_types", None)
    published = tiny.published_config(config, made.published_fields)
    if isinstance(published.get("rope_scaling"), dict):  # as checkpoints of today call it
        published["rope_scaling"]["rope_type"] = published["rope_scaling"].pop("type")
    return config, published


def compare(family, library):
    """Counts and complaints of one family."""
    same, refused, alone, complaints = 0, 0, 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        layouts = write_model(FAMILIES[family], folder)
        config = layouts[0]
        tokens = np.random.default_rng(1).integers(0, config["vocab_size"], PROMPT).tolist()
        for field in unknown_fields(AutoConfig.from_pretrained(folder)):
            complaints.append(f"{field}: the class reads it, src/model does not mention it")
        cases = [("", None, config) for config in layouts]
        for field, values in CHANGES.items():
            cases += [(field, value, {**config, field: value}) for config in layouts for value in values(config)]
        for field, value, changed in cases:
            (folder / "config.json").write_text(json.dumps(changed))
            theirs, mine = reference(folder, tokens), ours(library, folder, tokens)
            problem = judge(field, theirs, mine)
            alone += isinstance(theirs, str) and not isinstance(mine, str)
            same += problem is None and not isinstance(mine, str) and not isinstance(theirs, str)
            refused += problem is None and isinstance(mine, str)
            if problem:
                complaints.append(f"{field} = {json.dumps(value)}: {problem}")
    return same, refused, alone, complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], help="all, where none is named")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    bad = 0
    for family in arguments.families or FAMILIES:
        same, refused, alone, complaints = compare(family, arguments.library)
        print(f"{family}: {same} as in Transformers, {refused} refused, {alone} where Transformers fails, "
              f"{len(complaints)} wrong", flush=True)  # fmt: skip
        for complaint in complaints:
            print(f"    {complaint}")
        bad += len(complaints)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
