"""The small tokenizers: every kind that models are published with, trained on corpus.PARAGRAPHS."""

import base64
import io
import json
import pathlib
import random
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import corpus

# What tokenizers without all bytes learn from: some scripts stay unknown to them.
KNOWN = [corpus.PARAGRAPHS[i] for i in (0, 1, 2, 6, 7, 8)]

# Patterns of published tokenizers.
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
# As tiktoken has it now. Oniguruma reads the `+` after braces as "once or more".
CL100K_NOW = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
    r"\s+(?!\S)|\s"
)
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)


def special(content, **options):
    return AddedToken(content, special=True, normalized=False, **options)


def plain(content, **options):
    return AddedToken(content, special=False, **{"normalized": False, **options})


def train(
    model,
    trainer_options,
    normalizer=None,
    pre_tokenizer=None,
    decoder=None,
    post=None,
    added=(),
    first=(),
    texts=None,
    trainer=trainers.BpeTrainer,
):
    """`first`: special tokens at the vocabulary's beginning; `added`: after it."""
    tokenizer = Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainer(show_progress=False, special_tokens=list(first), **trainer_options)
    tokenizer.train_from_iterator((texts or corpus.PARAGRAPHS) * 2, trainer)
    tokenizer.add_tokens(list(added))
    if decoder is not None:
        tokenizer.decoder = decoder
    if post is not None:
        tokenizer.post_processor = post(tokenizer)
    return tokenizer


def byte_level(pre_tokenizer, size=420, **options):
    return train(
        options.pop("model", None) or models.BPE(),
        {"vocab_size": size, "initial_alphabet": sorted(pre_tokenizers.ByteLevel.alphabet())},
        pre_tokenizer=pre_tokenizer,
        decoder=decoders.ByteLevel(),
        **options,
    )


def split_then_bytes(*patterns):
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def template(text, *names):
    return lambda tokenizer: processors.TemplateProcessing(
        single=text, special_tokens=[(name, tokenizer.token_to_id(name)) for name in names]
    )


def gpt2(size=420, texts=None):
    return byte_level(
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        size,
        texts=texts,
        first=[special("<|endoftext|>")],
        post=lambda _: processors.ByteLevel(trim_offsets=False),
    )


def llama3(size=420, texts=None):
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    return byte_level(
        split_then_bytes(LLAMA3),
        size,
        texts=texts,
        model=models.BPE(ignore_merges=True),
        added=map(special, names),
        post=lambda t: processors.Sequence(
            [processors.ByteLevel(trim_offsets=False), template("<|begin_of_text|> $A", "<|begin_of_text|>")(t)]
        ),
    )


def qwen2(size=420, texts=None):
    return byte_level(
        split_then_bytes(QWEN2),
        size,
        texts=texts,
        normalizer=normalizers.NFC(),
        added=[
            special("<|endoftext|>"),
            special("<|im_start|>"),
            special("<|im_end|>"),
            plain("<tool_call>"),
            plain("</tool_call>"),
        ],
        post=lambda _: processors.ByteLevel(trim_offsets=False),
    )


def cl100k():
    return byte_level(
        split_then_bytes(CL100K),
        added=[special("<|endoftext|>"), special("<|im_start|>"), special("<|im_sep|>"), special("<|im_end|>")],
    )


def cl100k_now():
    return byte_level(split_then_bytes(CL100K_NOW), added=[special("<|endoftext|>")])


def falcon():
    """ByteLevel in the middle: what stands after it sees how bytes are spelled."""
    return byte_level(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Punctuation("contiguous"),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
                pre_tokenizers.Digits(individual_digits=False),
                pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
            ]
        ),
        added=[special(">>TITLE<<"), special("<|endoftext|>")],
        post=lambda _: processors.ByteLevel(trim_offsets=True),
    )


def o200k():
    return byte_level(
        split_then_bytes(O200K),
        added=[
            special("<|endoftext|>"),
            special("<|end|>", rstrip=True),
            special("<|user|>", rstrip=True),
            special("<|assistant|>", rstrip=True),
            special("<|system|>", rstrip=True),
        ],
    )


def deepseek():
    return byte_level(
        split_then_bytes(r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", DEEPSEEK),
        added=[special("<s>"), special("</s>")],
        post=template("<s> $A", "<s>"),
    )


def starcoder():
    return byte_level(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        ),
        first=[special("<|endoftext|>")],
        added=map(special, ["<|im_start|>", "<|im_end|>", "<|begin_of_sentence|>", "<|end_of_sentence|>"]),
    )


def roberta():
    return byte_level(
        pre_tokenizers.ByteLevel(add_prefix_space=True),
        first=[special("<s>"), special("<pad>"), special("</s>")],
        added=[special("<mask>", lstrip=True)],
        post=lambda t: processors.RobertaProcessing(("</s>", 2), ("<s>", 0)),
    )


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def sentencepiece_like(size=700, texts=None, **options):
    """A BPE with byte fallback: byte tokens are put in by hand, as the trainer knows none."""
    tokenizer = train(
        models.BPE(),
        {"vocab_size": size - 259},
        normalizer=normalizers.Replace(" ", "▁"),
        texts=texts or KNOWN,
        pre_tokenizer=pre_tokenizers.Split("▁", "merged_with_next"),
    )
    state = json.loads(tokenizer.to_str())["model"]
    pieces = ["<unk>", "<s>", "</s>"] + BYTES + [p for p, _ in sorted(state["vocab"].items(), key=lambda item: item[1])]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    made = Tokenizer(
        models.BPE(
            vocab, [tuple(pair) for pair in state["merges"]], unk_token="<unk>", fuse_unk=True, byte_fallback=True
        )
    )
    for name, value in options.items():
        if name not in ("added", "post_processor"):
            setattr(made, name, value)
    made.add_tokens([special("<unk>"), special("<s>"), special("</s>")] + list(options.get("added", [])))
    made.post_processor = template("<s> $A", "<s>")(made)
    return made


LLAMA2_DECODER = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]


def llama2(size=700, texts=None):
    return sentencepiece_like(
        size,
        texts,
        normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        decoder=decoders.Sequence(LLAMA2_DECODER + [decoders.Strip(" ", 1, 0)]),
        added=[special("<pad>")]
        + [special(f"<|{name}|>", rstrip=True) for name in ("system", "user", "assistant", "end")],
    )


def mistral():
    return sentencepiece_like(
        pre_tokenizer=pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False),
        decoder=decoders.Sequence(LLAMA2_DECODER + [decoders.Strip(" ", 1, 0)]),
        added=map(special, ["[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"]),
    )


def gemma():
    return sentencepiece_like(
        normalizer=normalizers.Replace(" ", "▁"),
        pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous"),
        decoder=decoders.Sequence(LLAMA2_DECODER),
        added=[
            special("<start_of_turn>"),
            special("<end_of_turn>"),
            plain("\n"),
            plain("\n\n"),
            plain("\n\n\n"),
            plain("▁▁"),
            plain("▁▁▁▁"),
            plain("\t"),
        ],
    )


def metaspace():
    """No byte fallback: unknown characters, unfused; Metaspace in both directions."""
    tokenizer = train(
        models.BPE(unk_token="<unk>", fuse_unk=False),
        {"vocab_size": 300},
        texts=KNOWN,
        pre_tokenizer=pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True),
        decoder=decoders.Metaspace("▁", prepend_scheme="always"),
        first=[special("<unk>"), special("<s>")],
        added=[plain("word", single_word=True, normalized=True)],
    )
    return tokenizer


def odd():
    """Every option of added tokens, and normalizers one after the other."""
    return train(
        models.BPE(unk_token="<unk>", fuse_unk=True),
        {"vocab_size": 300},
        texts=KNOWN,
        normalizer=normalizers.Sequence(
            [
                normalizers.NFKC(),
                normalizers.Lowercase(),
                normalizers.Strip(),
                normalizers.Replace(Regex(r"[‘’]|\.{3}"), "'"),
            ]
        ),
        pre_tokenizer=pre_tokenizers.Sequence(
            [
                pre_tokenizers.WhitespaceSplit(),
                pre_tokenizers.Punctuation("contiguous"),
                pre_tokenizers.Digits(individual_digits=False),
                pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True),
            ]
        ),
        decoder=decoders.Metaspace("▁", prepend_scheme="always"),
        first=[special("<unk>"), special("<s>"), special("</s>")],
        added=[
            plain("[L]", lstrip=True),
            plain("[R]", rstrip=True),
            plain("[S]", lstrip=True, rstrip=True, single_word=True),
            plain("[N]", normalized=True),
            plain("word", single_word=True, normalized=True),
            AddedToken("<mask>", special=True, normalized=True, lstrip=True, rstrip=True),
        ],
        post=lambda t: processors.BertProcessing(("</s>", 2), ("<s>", 1)),
    )


def splits():
    """Every way that Split treats its matches."""
    split = pre_tokenizers.Split
    return byte_level(
        pre_tokenizers.Sequence(
            [
                split(Regex(r"\n+"), "contiguous"),
                split(Regex(r"[,;]"), "merged_with_previous"),
                split(Regex(r"[$€£#]"), "merged_with_next"),
                split("::", "isolated"),
                split(Regex(r"\x{200B}|\u00ad"), "removed"),
                split(Regex(r"\w+|[^\w]+"), "merged_with_previous", invert=True),
                split(Regex(r"^a|z$|.b(?=c)|(?<=x)y"), "isolated"),
                split(Regex(r"\d+?\D"), "merged_with_next"),
                split(Regex(r"\p{Han}{2}"), "removed", invert=False),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
        normalizer=normalizers.NFD(),
    )


def nfkd():
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.NFKD())


def clip():
    """Words that end with a suffix, spelled byte by byte."""
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    words.train_from_iterator(
        [text.lower() for text in corpus.PARAGRAPHS],
        trainers.BpeTrainer(
            vocab_size=700, initial_alphabet=alphabet, end_of_word_suffix="</w>", show_progress=False
        ),
    )
    # Published vocabularies have every byte with the suffix too.
    state = json.loads(words.to_str())["model"]
    pieces = list(dict.fromkeys(alphabet + [c + "</w>" for c in alphabet] + list(state["vocab"])))
    vocab = {piece: i for i, piece in enumerate(pieces + ["<|startoftext|>", "<|endoftext|>"])}
    tokenizer = Tokenizer(
        models.BPE(
            vocab,
            [tuple(merge) for merge in state["merges"]],
            unk_token="<|endoftext|>",
            continuing_subword_prefix="",
            end_of_word_suffix="</w>",
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = words.pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([special("<|startoftext|>"), special("<|endoftext|>")])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("<|endoftext|>", vocab["<|endoftext|>"]),
        ("<|startoftext|>", vocab["<|startoftext|>"]),
        add_prefix_space=False,
        trim_offsets=False,
    )
    return tokenizer


def gpt1():
    return train(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        {"vocab_size": 500, "end_of_word_suffix": "</w>"},
        texts=KNOWN,
        normalizer=normalizers.BertNormalizer(),
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
        decoder=decoders.BPEDecoder("</w>"),
        first=[special("<unk>")],
        added=[plain("[N]", normalized=True)],
    )


def affixes():
    """A prefix and a suffix, and words of other makes."""
    return train(
        models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="@@", fuse_unk=True),
        {"vocab_size": 700, "continuing_subword_prefix": "##", "end_of_word_suffix": "@@"},
        texts=KNOWN,
        normalizer=normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()]),
        pre_tokenizer=pre_tokenizers.Sequence(
            [pre_tokenizers.CharDelimiterSplit(" "), pre_tokenizers.FixedLength(7), pre_tokenizers.Punctuation()]
        ),
        decoder=decoders.BPEDecoder("@@"),
        first=[special("<unk>")],
    )


def word_level():
    """No decoder: spaces stand between the words."""
    return train(
        models.WordLevel(unk_token="[UNK]"),
        {"vocab_size": 300},
        trainer=trainers.WordLevelTrainer,
        texts=KNOWN,
        normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
        pre_tokenizer=pre_tokenizers.Whitespace(),
        first=[special("[UNK]"), special("[PAD]")],
        added=[plain("<tool_call>")],
    )


def spelled_bytes():
    """Bytes spelled by the normalizer, so that patterns see the spelling."""
    return byte_level(
        pre_tokenizers.Split(Regex(r"\u0120?\w+|\u0120?[^\w\u0120]+|\u0120+"), "isolated"),
        normalizer=normalizers.Sequence([normalizers.NFC(), normalizers.ByteLevel()]),
        added=[plain("<tool_call>", normalized=True), special("<|end|>")],
    )


def bert():
    return train(
        models.WordPiece(unk_token="[UNK]"),
        {"vocab_size": 400},
        trainer=trainers.WordPieceTrainer,
        texts=KNOWN,
        normalizer=normalizers.BertNormalizer(),
        pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
        decoder=decoders.WordPiece(),
        first=map(special, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]),
        post=template("[CLS] $A [SEP]", "[CLS]", "[SEP]"),
    )


def word_piece():
    """Every option of WordPiece and its companions otherwise than BERT has it."""
    tokenizer = train(
        models.WordPiece(unk_token="<unk>", continuing_subword_prefix="@@", max_input_chars_per_word=9),
        {"vocab_size": 500, "continuing_subword_prefix": "@@"},
        trainer=trainers.WordPieceTrainer,
        normalizer=normalizers.BertNormalizer(handle_chinese_chars=False, strip_accents=True, lowercase=False),
        pre_tokenizer=pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous")]
        ),
        decoder=decoders.WordPiece("@@", cleanup=False),
        first=[special("<unk>"), special("<s>"), special("</s>")],
        added=[plain("word", single_word=True, normalized=True)],
        post=lambda t: processors.BertProcessing(("</s>", 2), ("<s>", 1)),
    )
    return tokenizer


def charsmap():
    """A small table of replacements as SentencePiece makes it, some of them of several characters."""
    rules = "FB01\t66 69\n2126\t3A9\nFF46\t66\nFF55\t75\nFF4C\t6C\nA0\t20\n3000\t20\n9\t20\n65 301\tE9\n78\t58\n78 301\tD7\n"
    rules += "AD\t\n2026\t2E 2E 2E\nD A\t20\nA\t20\n1F468 200D\t1F468\n"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rules.tsv"
        path.write_text(rules)
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus.PARAGRAPHS[0].split()),
            model_writer=model,
            vocab_size=60,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(path),
            minloglevel=2,
        )
    return sentencepiece_model_pb2.ModelProto.FromString(model.getvalue()).normalizer_spec.precompiled_charsmap


def unigram(size, unk="<unk>", texts=None, **options):
    return train(
        models.Unigram(),
        {"vocab_size": size, "unk_token": unk, "shrinking_factor": 0.6},
        trainer=trainers.UnigramTrainer,
        texts=texts or KNOWN,
        **options,
    )


def t5():
    return unigram(
        400,
        normalizer=normalizers.Precompiled(charsmap()),
        pre_tokenizer=pre_tokenizers.Metaspace("▁", prepend_scheme="always"),
        decoder=decoders.Metaspace("▁", prepend_scheme="always"),
        first=[special("<pad>"), special("</s>"), special("<unk>")],
        added=[special("<extra_id_0>", lstrip=True)],
        post=template("$A </s>", "</s>"),
    )


def albert():
    return unigram(
        400,
        normalizer=normalizers.Sequence(
            [
                normalizers.Replace("``", '"'),
                normalizers.Replace("''", '"'),
                normalizers.NFKD(),
                normalizers.StripAccents(),
                normalizers.Lowercase(),
                normalizers.Precompiled(charsmap()),
                normalizers.Replace(Regex(" {2,}"), " "),
            ]
        ),
        pre_tokenizer=pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", prepend_scheme="always")]
        ),
        decoder=decoders.Metaspace("▁", prepend_scheme="always"),
        first=[special("<pad>"), special("<unk>"), special("[CLS]"), special("[SEP]")],
        post=template("[CLS] $A [SEP]", "[CLS]", "[SEP]"),
    )


def unigram_ties():
    """Pieces that many ways are made of: sums in another order, or of other doubles, would choose another way. Byte
    fallback, and whole texts as words."""
    rng = random.Random(85)  # with scores to the nearest double two texts of the corpus come out otherwise
    letters = ["a", "b", "▁", "\n", ".", "é", "е"]
    made = ["".join(rng.choices(letters, k=rng.randrange(2, 5))) for _ in range(60)]
    repeated = [letter * count for letter in letters for count in (1, 2, 3, 5)]
    shown = sorted({c for text in corpus.PARAGRAPHS[:4] for c in text if c != " "})
    pieces = list(dict.fromkeys(["<unk>", "<s>", "</s>"] + BYTES + repeated + made + shown))
    scores = [-rng.random() * len(piece) * 3 for piece in pieces]
    scores[0] = 0.0
    tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores)), unk_id=0, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(LLAMA2_DECODER)
    tokenizer.add_tokens([special("<s>"), special("</s>")])
    return tokenizer


JSON_KINDS = {
    f.__name__: f
    for f in [
        gpt2,
        llama3,
        qwen2,
        cl100k,
        cl100k_now,
        falcon,
        o200k,
        deepseek,
        starcoder,
        roberta,
        llama2,
        mistral,
        gemma,
        metaspace,
        odd,
        splits,
        nfkd,
        clip,
        gpt1,
        affixes,
        word_level,
        spelled_bytes,
        bert,
        word_piece,
        t5,
        albert,
        unigram_ties,
    ]
}

# What stands in the tokenizer_config.json of each.
JSON_CONFIGS = {
    "gpt2": {
        "bos_token": "<|endoftext|>",
        "eos_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
        "add_prefix_space": False,
    },
    "llama3": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
    "qwen2": {"bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "add_bos_token": False},
    "llama2": {"bos_token": {"__type": "AddedToken", "content": "<s>"}, "eos_token": "</s>", "unk_token": "<unk>"},
    "gemma": {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True, "add_eos_token": True},
}

SP_SYMBOLS = {
    "user_defined_symbols": ["<|user|>", "<tool_call>", "<|im_start|>", "<|im_end|>"],
    "control_symbols": ["<ctrl>"],
}
SP_KINDS = {
    "sp_plain": (
        {
            "model_type": "bpe",
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            **SP_SYMBOLS,
        },
        None,
    ),
    "sp_legacy": (
        {
            "model_type": "bpe",
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
        },
        {"legacy": True, "add_bos_token": True},
    ),
    "sp_first": (
        {
            "model_type": "bpe",
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
        },
        {"legacy": False, "add_eos_token": True},
    ),
    "sp_never": (
        {
            "model_type": "bpe",
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
        },
        {"legacy": False, "add_prefix_space": False},
    ),
    "sp_unigram": ({"model_type": "unigram", **SP_SYMBOLS}, None),
    "sp_unigram_bytes": ({"model_type": "unigram", "byte_fallback": True}, {"legacy": False}),
}


def train_sentencepiece(folder, options, config):
    model = io.BytesIO()
    if "normalization_rule_name" not in options:
        # A table that keeps the file small; NFKC's would take 240 KB.
        rules = folder / "rules.tsv"
        rules.write_text("FB01\t66 69\n2126\t3A9\nFF46\t66\nFF55\t75\nFF4C\t6C\nA0\t20\n3000\t20\n9\t20\n65 301\tE9\n")
        options = {**options, "normalization_rule_tsv": str(rules)}
    sentences = [line for text in corpus.PARAGRAPHS * 2 for line in text.split("\n") if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        vocab_size=560 if options.get("byte_fallback") else 300,
        hard_vocab_limit=False,
        character_coverage=0.98,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    proto.trainer_spec.ClearField("model_prefix")
    proto.normalizer_spec.ClearField("normalization_rule_tsv")  # a path of this machine
    (folder / "tokenizer.model").write_bytes(proto.SerializeToString())
    (folder / "rules.tsv").unlink(missing_ok=True)
    if config is None:
        return
    size = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).vocab_size()
    token = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    names = ["<unk>", "<s>", "</s>"]
    added = {str(i): {"content": name, "special": True, **token} for i, name in enumerate(names)}
    added[str(size)] = {"content": "<|im_start|>", "special": True, **token}
    added[str(size + 1)] = {"content": "<|im_end|>", "special": True, **token}
    added[str(size + 2)] = {"content": "<tool_call>", "special": False, **token}
    full = {"added_tokens_decoder": added, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(full, indent=1) + "\n")


TEKKEN_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)


def tekken_file(pieces, pattern, specials, num_special, version, unused=0):
    """`pieces` follow the 256 bytes; the last `unused` of them stand in the file alone."""
    tokens = [bytes([byte]) for byte in range(256)] + pieces
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(data).decode(), "token_str": None}
        for rank, data in enumerate(tokens)
    ]
    config = {
        "pattern": pattern,
        "num_vocab_tokens": len(tokens),
        "default_vocab_size": len(tokens) - unused + num_special,
        "default_num_special_tokens": num_special,
        "version": version,
    }
    listed = {"special_tokens": specials} if specials is not None else {}
    return {"config": config, "vocab": vocab, **listed}


def tekken():
    """Merges in the order in which they were learnt, as in published files."""
    state = json.loads(byte_level(split_then_bytes(O200K), 480).to_str())["model"]
    spelled = byte_spelling()
    pieces = [bytes(spelled[c] for c in left + right) for left, right in state["merges"]]
    names = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<pad>", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "<mask>"]
    specials = [{"rank": i, "token_str": name, "is_control": True} for i, name in enumerate(names)]
    return tekken_file(pieces, TEKKEN_PATTERN, specials, 14, "v11", unused=20)


def tekken_odd():
    """Random pieces in random order, of which many can't be reached; a pattern that leaves characters out; no list of
    special tokens."""
    rng = random.Random(7)
    data = " ".join(corpus.CORPUS).encode()
    pieces = set()
    while len(pieces) < 400:
        begin = rng.randrange(len(data))
        pieces.add(data[begin : begin + rng.randrange(2, 9)])
    pieces |= {letter * count for letter in (b"a", b" ", b"\n", b"ab") for count in (2, 3, 4, 7)}
    pieces = sorted(pieces - {bytes([byte]) for byte in range(256)})
    rng.shuffle(pieces)
    return tekken_file(pieces, r"[^;\u0430-\u044f]{1,40}+|;$", None, 25, "v3")


def byte_spelling():
    """GPT-2's characters for bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


TEKKEN_KINDS = {f.__name__: f for f in [tekken, tekken_odd]}
