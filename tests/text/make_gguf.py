"""Makes GGUF files of some of the small tokenizers with the `gguf` package, as llama.cpp's converters do: gguf/KIND.gguf.

    pip install gguf sentencepiece && python3 make_gguf.py

They have no weights. Their tokens are those of fixtures/KIND/expected.json.
"""

import json
import pathlib

import gguf
from gguf import TokenType
from sentencepiece import SentencePieceProcessor

HERE = pathlib.Path(__file__).resolve().parent
# Kinds of byte-pair encoding, by what GGUF files call their pre-tokenizers.
BYTE_PAIRS = {"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen2": "qwen2", "starcoder": "starcoder", "o200k": "gpt-4o"}
SENTENCE_PIECES = ["sp_legacy"]


def read_json(kind, name):
    path = HERE / "fixtures" / kind / name
    return json.loads(path.read_text()) if path.exists() else {}


def spelling(value):
    return value["content"] if isinstance(value, dict) else value


def add_specials(writer, tokens, config):
    for name, add in (("bos", writer.add_bos_token_id), ("eos", writer.add_eos_token_id),
                      ("unk", writer.add_unk_token_id), ("pad", writer.add_pad_token_id)):  # fmt: skip
        if (token := spelling(config.get(f"{name}_token"))) in tokens:
            add(tokens.index(token))
    if template := config.get("chat_template"):
        writer.add_chat_template(template)


def add_byte_pairs(writer, kind):
    tokenizer = read_json(kind, "tokenizer.json")
    by_id = {token: (piece, TokenType.NORMAL) for piece, token in tokenizer["model"]["vocab"].items()}
    for token in tokenizer["added_tokens"]:
        by_id[token["id"]] = token["content"], TokenType.CONTROL if token["special"] else TokenType.USER_DEFINED
    size = max(by_id) + 1
    rows = [by_id.get(i, (f"[PAD{i}]", TokenType.UNUSED)) for i in range(size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(BYTE_PAIRS[kind])
    writer.add_token_list([token for token, _ in rows])
    writer.add_token_types([int(kind) for _, kind in rows])
    writer.add_token_merges([" ".join(merge) if isinstance(merge, list) else merge
                             for merge in tokenizer["model"]["merges"]])  # fmt: skip
    add_specials(writer, [token for token, _ in rows], read_json(kind, "tokenizer_config.json"))


def add_sentence_pieces(writer, kind):
    model = SentencePieceProcessor(model_file=str(HERE / "fixtures" / kind / "tokenizer.model"))
    config = read_json(kind, "tokenizer_config.json")
    rows = []
    for i in range(model.vocab_size()):
        of_piece = (TokenType.UNKNOWN if model.IsUnknown(i) else TokenType.CONTROL if model.IsControl(i)
                    else TokenType.UNUSED if model.IsUnused(i) else TokenType.BYTE if model.IsByte(i)
                    else TokenType.NORMAL)  # fmt: skip
        rows.append([model.IdToPiece(i), model.GetScore(i), of_piece])
    for key, token in config.get("added_tokens_decoder", {}).items():
        while len(rows) <= int(key):
            rows.append([f"[PAD{len(rows)}]", -1000.0, TokenType.UNUSED])
        rows[int(key)] = [token["content"], -1000.0,
                          TokenType.CONTROL if token["special"] else TokenType.USER_DEFINED]  # fmt: skip
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([token for token, _, _ in rows])
    writer.add_token_scores([score for _, score, _ in rows])
    writer.add_token_types([int(kind) for _, _, kind in rows])
    add_specials(writer, [token for token, _, _ in rows], config)
    writer.add_add_bos_token(config.get("add_bos_token", True))
    writer.add_add_eos_token(config.get("add_eos_token", False))


def main():
    (HERE / "gguf").mkdir(exist_ok=True)
    for kind in [*BYTE_PAIRS, *SENTENCE_PIECES]:
        writer = gguf.GGUFWriter(HERE / "gguf" / f"{kind}.gguf", "llama")
        (add_byte_pairs if kind in BYTE_PAIRS else add_sentence_pieces)(writer, kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()


if __name__ == "__main__":
    main()
