"""The sentencepiece BPE vocabulary, trained on generated records."""

import io
import json
import pathlib
import random
import string

import sentencepiece

import generate

VOCABULARY = 2304
BOS, EOS = 1, 2
MARKERS = ["<|system|>", "<|doc|>", "<|user|>", "<|assistant|>"]
# Pieces of their own, so that a word is spelled the same before a full stop as elsewhere.
PUNCTUATION = [".", ",", "?"]


def train_tokenizer(folder, seed):
    """Writes tokenizer.model and tokenizer_config.json into `folder`."""
    rng = random.Random(seed)
    texts = [generate.SYSTEM] * 100
    for _ in range(4000):
        documents, asked = generate.scene(rng, 6)
        texts += documents + [question for _, question, _ in asked]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        # Every text is preceded by a space, as it is in a chunk, so that a word has one spelling wherever it stands.
        sentence_iterator=(f" {text}" for text in texts),
        model_writer=model,
        model_type="bpe",
        vocab_size=VOCABULARY,
        byte_fallback=True,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        user_defined_symbols=MARKERS + PUNCTUATION,
        required_chars="".join(sorted(set(string.printable[:94]) - set(PUNCTUATION))),
        unk_id=0,
        bos_id=BOS,
        eos_id=EOS,
        pad_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    (pathlib.Path(folder) / "tokenizer.model").write_bytes(model.getvalue())
    config = {
        "tokenizer_class": "LlamaTokenizer",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "add_bos_token": False,
        "add_eos_token": False,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "legacy": False,
        "model_max_length": 4096,
    }
    (pathlib.Path(folder) / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def load_tokenizer(folder):
    return sentencepiece.SentencePieceProcessor(model_file=str(pathlib.Path(folder) / "tokenizer.model"))
