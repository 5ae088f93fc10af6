#!/usr/bin/env python3
"""Writes a model that says fixed sentences: make_model.py FOLDER.

Each token has one successor, so what it says is known beforehand without computing anything: calls of functions in the
forms of several model families, text without an end, and short answers. The chat template chooses by its last token.
Tokens without a successor are followed by any token, each as likely as the others. Python alone, no packages.
"""

import array
import json
import pathlib
import struct
import sys

# Sentences by the token that they follow; the last piece is followed by the end token, or as `LOOPS` says.
SENTENCES = {
    "<|hermes|>": ["Let me look.\n", "<tool", "_call>\n{\"name\": ", "\"get_weather\", \"argu", "ments\": {\"city\": \"Par",
                   "is\"}}\n</tool_", "call>"],
    "<|hermes2|>": ["<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bonn\"}}</tool_call>", "\n<tool_call>",
                    "{\"name\": \"get_time\", \"arguments\": {}}", "</tool_call>"],
    "<|llama|>": ["{\"name\": \"get_weather\", ", "\"parameters\": {\"city\": ", "\"Rome\"}}"],
    "<|mistral|>": ["[TOOL_CALLS]", "[{\"name\": \"get_weather\", \"arg", "uments\": {\"city\": \"Oslo\"}}]"],
    "<|unknown|>": ["<tool_call>{\"name\": \"rm\", ", "\"arguments\": {}}</tool_call>."],
    "<|json|>": ["{\"temperature\": ", "21}"],
    "<|said|>": ["It is ", "sunny."],
    "<|talk|>": ["la ", "li ", "lu\n"],
    "<|agree|>": ["aye."],
    "<|deny|>": ["nay."],
}  # fmt: skip
LOOPS = {"lu\n": "la "}
SPECIAL = ["</s>", "[TOOL_CALLS]"] + list(SENTENCES)
TEMPLATE = """
{%- for message in messages %}{{ message.role }}: {{ message.content }}
{%- for call in message.tool_calls or [] %} {{ call.function.name }}({{ call.function.arguments | tojson }}){% endfor %}
{% endfor %}
{%- for tool in tools or [] %}{{ tool | tojson }}
{% endfor %}
STYLES
{%- if not style %}{% if messages[-1].role == 'tool' %}<|said|>{% elif tools %}<|hermes|>{% else %}<|talk|>{% endif %}
{%- endif %}"""
# What a template takes from variables is text and no mark, so each mark is written out.
STYLES = "".join("{%- if style == '" + mark[2:-2] + "' %}" + mark + "{% endif %}" for mark in SENTENCES)
VOCABULARY = 320
CONTEXT = 131072


def byte_letters():
    """The letters that byte-level vocabularies write bytes with, as GPT-2 chose them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        letters.setdefault(byte, chr(256 + len(letters) - len(printable)))
    return [letters[byte] for byte in range(256)]


def added_tokens():
    pieces = SPECIAL + [piece for pieces in SENTENCES.values() for piece in pieces if piece not in SPECIAL]
    assert len(set(pieces)) == len(pieces)
    return {piece: 256 + i for i, piece in enumerate(pieces)}


def successors(ids):
    follows = {}
    for first, pieces in SENTENCES.items():
        for piece, after in zip([first, *pieces], [*pieces, LOOPS.get(pieces[-1], "</s>")]):
            follows[ids[piece]] = ids[after]
    return follows


def tokenizer(ids):
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": piece, "special": piece in SPECIAL, **flags} for piece, i in ids.items()],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "vocab": {letter: byte for byte, letter in enumerate(byte_letters())},
            "merges": [],
            "byte_fallback": False,
        },
    }


def weights(follows):
    """A layer that adds nothing, embeddings that are all different, and a head that knows what follows."""
    size = VOCABULARY
    tensors = {}

    def tensor(name, rows, columns=None, ones=()):
        values = array.array("f", bytes(4 * rows * (columns or 1)))
        for row, column, value in ones:
            values[row * (columns or 1) + column] = value
        tensors[name] = ([rows, columns] if columns else [rows], values)

    all_ones = [(i, 0, 1.0) for i in range(size)]
    tensor("model.embed_tokens.weight", size, size, [(i, i, 1.0) for i in range(size)])
    tensor("lm_head.weight", size, size, [(after, token, 10.0) for token, after in follows.items()])
    tensor("model.norm.weight", size, ones=all_ones)
    layer = "model.layers.0."
    tensor(layer + "input_layernorm.weight", size, ones=all_ones)
    tensor(layer + "post_attention_layernorm.weight", size, ones=all_ones)
    for name in ("q", "k", "v", "o"):
        tensor(layer + f"self_attn.{name}_proj.weight", size, size)
    for name in ("gate", "up", "down"):
        tensor(layer + f"mlp.{name}_proj.weight", size, size)
    return tensors


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, (shape, values) in tensors.items():
        end = offset + 4 * len(values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            file.write(values.tobytes())


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    ids = added_tokens()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": VOCABULARY,
        "intermediate_size": VOCABULARY,
        "num_hidden_layers": 1,
        "num_attention_heads": 5,
        "num_key_value_heads": 5,
        "head_dim": 64,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "eos_token_id": ids["</s>"],
        "torch_dtype": "float32",
    }
    names = {
        "eos_token": "</s>",
        "chat_template": TEMPLATE.replace("STYLES", STYLES),
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(ids)))
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    write_safetensors(folder / "model.safetensors", weights(successors(ids)))


if __name__ == "__main__":
    main()
