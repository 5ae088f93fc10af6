"""Makes the parity fixtures: tiny random models as Hugging Face folders, and what Transformers computes with them.

    pip install torch transformers sentencepiece compressed-tensors
    python3 make_fixtures.py                     every tiny model, into fixtures/
    python3 make_fixtures.py qwen3_tied          one of them
    python3 make_fixtures.py --example           the reference of examples/model, into fixtures/example
    python3 make_fixtures.py --states            states.f32 alone, of every fixture that is there

A fixture is a folder with

reference.json  "model": the model's folder, relative to this one. "prompts": each with its "tokens", the
                "prefix_lengths" whose logits are in logits.f32, and the "greedy" tokens that follow the prompt.
                "error": the error of Transformers' own run in that dtype, as the root of the mean square of the
                differences from float32 over that of the float32 logits.
logits.f32      little-endian float32, one row [vocab_size] for each prompt and prefix length, in that order: the
                logits for the token after the prefix, computed by Transformers in float32 on the CPU.
states.f32      little-endian float32, two rows [hidden_size] for each prompt: its `last_hidden_state`, of the last token
                and the mean over all tokens, computed likewise.

The reference of a checkpoint with weights of 8 or 4 bits is the model with those times their scales, in float32 as it
comes:
Transformers itself would round the products to bfloat16, or the activations to float8.
"""

import argparse
import copy
import json
import os
import pathlib
import re
import shutil
import sys

import numpy as np
import safetensors.torch
import torch
import transformers
from transformers import AutoModelForCausalLM

import families  # noqa: F401
import fp8_files
import packed_files
import tiny

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = HERE / "fixtures"
EXAMPLE = HERE.parent.parent / "examples" / "model"
GREEDY_TOKENS = 64
# A greedy token is kept as a reference where the best logit leads by this share of the logits' spread: five times
# what a float32 implementation may be off.
LEAST_LEAD = 5e-4
# What every weight and every feature changes the logits by, as a share of their spread, where it is another.
LEAST_EFFECT = 0.05
# The last expert chosen leads the first one not chosen by this much in the router's logits: far more than rounding to
# bfloat16 changes them, in the prompts; more than a float32 implementation may be off, in the greedy tokens.
CLEAR_CHOICE = 0.3
LEAST_CHOICE = 2e-3


def save(model, folder, tiny_model):
    """The folder as Transformers writes it, but for what its writer has no option for."""
    shards = {"max_shard_size": tiny_model.max_shard_size} if tiny_model.max_shard_size else {}
    copy.deepcopy(model).to(tiny_model.dtype).save_pretrained(folder, **shards)
    if tiny_model.left_out:
        path = folder / "model.safetensors"
        weights = safetensors.torch.load_file(path)
        weights = {name: weight for name, weight in weights.items() if not name.endswith(tiny_model.left_out)}
        safetensors.torch.save_file(weights, path, metadata={"format": "pt"})
    if tiny_model.published:
        path = folder / "config.json"
        config = tiny.published_config(json.loads(path.read_text()), tiny_model.published_fields)
        path.write_text(json.dumps(config, indent=2) + "\n")


def load(folder, dtype):
    config = json.loads((folder / "config.json").read_text())
    if "quantization_config" in config:
        return (packed_files if packed_files.kind_of(config) else fp8_files).load(folder, dtype)
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager"
    ).eval()


@torch.no_grad()
def logits_after(model, tokens):
    """[len(tokens), vocab_size]: the logits after every prefix."""
    return model(torch.tensor([tokens])).logits[0].float().numpy()


@torch.no_grad()
def router_logits(model, tokens):
    """[layers with experts, len(tokens), experts]"""
    return torch.stack(model(torch.tensor([tokens]), output_router_logits=True).router_logits).float()


def clearness(model, tokens):
    """The least lead of the last expert chosen over the first one not chosen, for every token."""
    if not has_experts(model):
        return [float("inf")] * len(tokens)
    chosen = model.config.num_experts_per_tok
    ranked = router_logits(model, tokens).sort(descending=True).values
    return (ranked[:, :, chosen - 1] - ranked[:, :, chosen]).amin(0).tolist()


def choices(model, tokens):
    return router_logits(model, tokens).topk(model.config.num_experts_per_tok).indices.sort().values


def has_experts(model):
    return hasattr(model.config, "num_experts_per_tok")


def draw_prompt(model, random, length):
    """Random tokens, of which every router chooses clearly."""
    vocabulary = model.config.vocab_size
    if not has_experts(model):
        return random.integers(0, vocabulary, length).tolist()
    prompt = []
    while len(prompt) < length:
        token = int(random.integers(0, vocabulary))
        if clearness(model, [*prompt, token])[-1] > CLEAR_CHOICE:
            prompt.append(token)
    return prompt


def rms(values):
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))


@torch.no_grad()
def greedy(model, tokens, spread):
    """Up to GREEDY_TOKENS tokens; it ends before one whose lead, or that of its experts, is too small to be a
    reference."""
    made, cache, following = [], None, list(tokens)
    while len(made) < GREEDY_TOKENS:
        output = model(torch.tensor([following]), past_key_values=cache, use_cache=True)
        row, cache = output.logits[0, -1], output.past_key_values
        best, second = torch.topk(row, 2).values.tolist()
        if best - second < LEAST_LEAD * spread:
            break
        following = [int(row.argmax())]
        made += following
    clear = [lead > LEAST_CHOICE for lead in clearness(model, [*tokens, *made])] + [False]
    return made[: max(clear.index(False) - len(tokens), 0)]


@torch.no_grad()
def least_effect(model, tokens):
    """How much the logits change, as a share of their spread, when the weight that matters least is mixed up."""
    whole = logits_after(model, tokens)
    effects = {}
    for name, weight in model.named_parameters():
        if name.endswith("k_proj.bias") or not weight.any():
            continue  # a softmax hardly sees the one
        kept = weight.clone()
        weight.copy_(weight.flip(0))
        effects[name] = rms(logits_after(model, tokens) - whole) / rms(whole)
        weight.copy_(kept)
    return min(effects.items(), key=lambda item: item[1])


@torch.no_grad()
def effects_of_features(model, tokens, without):
    """How much the logits change, as a share of their spread, without each feature."""
    whole = logits_after(model, tokens)
    effects = {}
    for feature, fields in without.items():
        other = tiny.build(tiny.changed(model.config, fields))
        other.load_state_dict(model.state_dict())
        effects[feature] = rms(logits_after(other, tokens) - whole) / rms(whole)
    return effects


def reference_of(model_folder, prompts, prefix_lengths):
    """(reference.json's content, rows of logits)."""
    model = load(model_folder, torch.float32)
    all_logits = [logits_after(model, prompt) for prompt in prompts]
    spread = rms(np.concatenate(all_logits))
    rows = [logits[length - 1] for logits, lengths in zip(all_logits, prefix_lengths) for length in lengths]
    errors = {}
    for dtype in ("bfloat16", "float16"):
        rounded = load(model_folder, getattr(torch, dtype))
        if has_experts(model):
            same = [torch.equal(choices(rounded, prompt), choices(model, prompt)) for prompt in prompts]
            assert all(same), f"{dtype} chooses other experts"
        # Of the stored rows, which the tests measure too: rounding strikes some positions much harder than others.
        differences = [
            (logits_after(rounded, prompt) - logits)[np.array(lengths) - 1]
            for prompt, logits, lengths in zip(prompts, all_logits, prefix_lengths)
        ]
        errors[dtype] = rms(np.concatenate(differences)) / spread
    reference = {
        "made_with": f"transformers {transformers.__version__}, torch {torch.__version__}",
        "vocab_size": model.config.vocab_size,
        "error": errors,
        "prompts": [
            {"tokens": prompt, "prefix_lengths": lengths, "greedy": greedy(model, prompt, spread)}
            for prompt, lengths in zip(prompts, prefix_lengths)
        ],
    }
    return reference, np.stack(rows).astype("<f4")


def write(folder, model_folder, reference, rows):
    relative = os.path.relpath(model_folder, folder)
    text = json.dumps({"model": relative, **reference}, indent=1)
    # A list of numbers on one line.
    text = re.sub(r"\[([^\[\]]*)\]", lambda numbers: "[" + " ".join(numbers[1].split()) + "]", text)
    (folder / "reference.json").write_text(text + "\n")
    (folder / "logits.f32").write_bytes(rows.tobytes())
    write_states(folder)
    print(f"{folder.name}: {rows.shape[0]} rows, spread {rms(rows):.2f}, error", reference["error"],
          "greedy", [(len(p["greedy"]), len(set(p["greedy"]))) for p in reference["prompts"]])  # fmt: skip


@torch.no_grad()
def write_states(folder):
    reference = json.loads((folder / "reference.json").read_text())
    model = load((folder / reference["model"]).resolve(), torch.float32)
    rows = []
    for prompt in reference["prompts"]:
        states = model.base_model(torch.tensor([prompt["tokens"]])).last_hidden_state[0].double()
        rows += [states[-1].numpy(), states.mean(0).numpy()]
    (folder / "states.f32").write_bytes(np.stack(rows).astype("<f4").tobytes())


def make_tiny(name):
    """Tries seeds until every prompt has all its greedy tokens and they are not a few over and over."""
    folder = FIXTURES / name
    tiny_model = tiny.MODELS[name]
    for seed in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        random = np.random.default_rng(seed)
        model = tiny.build(tiny_model.config())
        tiny.randomize(model, random, tiny_model)
        save(model, folder, tiny_model)
        files = fp8_files if tiny_model.fp8 else packed_files
        stored_as = tiny_model.fp8 or tiny_model.packed
        if stored_as:
            files.quantize_files(folder, stored_as, random)
            model = load(folder, torch.float32)
        prompts = [draw_prompt(model, random, length) for length in tiny_model.prompt_lengths]
        assert np.allclose(logits_after(load(folder, torch.float32), prompts[-1]),
                           logits_after(model, prompts[-1]), atol=1e-4), "the saved model is another one"  # fmt: skip
        effects = effects_of_features(model, prompts[-1], tiny_model.without)
        if stored_as:
            whole = logits_after(model, prompts[-1])
            for weight, other in files.models_with_other_scales(folder):
                effects[f"scales of {weight}"] = rms(logits_after(other, prompts[-1]) - whole) / rms(whole)
        weight, effect = min([least_effect(model, prompts[-1]), *effects.items()], key=lambda item: item[1])
        if effect < LEAST_EFFECT:
            print(f"  seed {seed}: {weight} hardly matters: {effect:.3f}")
            continue
        lengths = [list(range(tiny_model.least_prefix, len(prompt) + 1)) for prompt in prompts]
        reference, rows = reference_of(folder, prompts, lengths)
        if all(len(p["greedy"]) == GREEDY_TOKENS and len(set(p["greedy"])) >= 12 for p in reference["prompts"]):
            write(folder, folder, {"seed": seed, **reference}, rows)
            print(f"  seed {seed}; without", {name: round(effect, 3) for name, effect in effects.items()})
            return
    raise SystemExit(f"{name}: no seed gives usable greedy tokens")


def make_example(model_folder):
    """A question of each kind, tokenized chunk by chunk as the model was trained to read them."""
    import sentencepiece

    sys.path.insert(0, str(model_folder))
    import generate

    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(model_folder / "tokenizer.model"))
    prompts, prefix_lengths = [], []
    for item in generate.items(seed=7, count=len(generate.KINDS)):
        chunks = [generate.system_chunk(item["system"])]
        chunks += [generate.document_chunk(document) for document in item["documents"]]
        chunks += [generate.question_chunk(item["question"])]
        prompts.append([tokenizer.bos_id()] + [token for chunk in chunks for token in tokenizer.encode(chunk)])
        size = len(prompts[-1])
        prefix_lengths.append(sorted({1, 16, 65, size // 2, size - 1, size}))
    folder = FIXTURES / "example"
    folder.mkdir(parents=True, exist_ok=True)
    reference, rows = reference_of(model_folder, prompts, prefix_lengths)
    write(folder, model_folder, reference, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(tiny.MODELS)}")
    parser.add_argument("--example", nargs="?", const=EXAMPLE, type=pathlib.Path, metavar="FOLDER",
                        help="make the reference of the example model instead; FOLDER in place of examples/model")  # fmt: skip
    parser.add_argument("--states", action="store_true", help="write the states of the fixtures that are there, alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if arguments.example:
        make_example(arguments.example.resolve())
        return
    if arguments.states:
        for folder in sorted(FIXTURES.iterdir()):
            write_states(folder)
        return
    for name in arguments.names or tiny.MODELS:
        make_tiny(name)


if __name__ == "__main__":
    main()
