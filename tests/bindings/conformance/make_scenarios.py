"""Writes scenarios.txt, which every binding runs, with tokens and texts from reference.py.

    pip install torch transformers sentencepiece numpy
    python3 make_scenarios.py
"""

import copy
import json
import pathlib
import urllib.parse

from chat_models import FIXTURES, chat_models, tools_model
from reference import Reference, apply_chat_template, apply_to_request, chat_tokenizer

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE.parent / "expected"

HEAD = """\
# Scenarios for all bindings; see README.md for the language. Written by make_scenarios.py: what follows a "=" comes from
# Transformers, SentencePiece and the definitions in nanolith.h, never from the library.
"""

SYSTEM = "<|system|> Each document is one record. Answer each question from the records, in as few words as possible."
RECORDS = {
    "bralm": "<|doc|> Beso Bralm stayed in Troton. Beso Bralm got key KR32. Beso Bralm arrived on 20 September. "
    "Beso Bralm paid exactly 39 crowns.",
    "nuld": "<|doc|> Jemi Nuld offered exactly 81 crowns. Jemi Nuld signed note NW84. Jemi Nuld called on 12 January. "
    "Jemi Nuld traded in Foham.",
    "polm": "<|doc|> Boso Polm earned exactly 76 crowns. Boso Polm left on 7 July. Boso Polm used badge TQ81. "
    "Boso Polm worked in Jewick.",
    "same": "<|doc|> Giso Hurg traded in Veton. Giso Hurg signed note QC19. Giso Hurg called on the same day as the "
    "previous record. Giso Hurg offered exactly 97 crowns.",
}
ASK_POLM = "<|user|> Name the place where Boso Polm worked.<|assistant|>"
ASK_BRALM = "<|user|> Name the day when Beso Bralm arrived.<|assistant|>"
ASK_HURG = "<|user|> Name the day when Giso Hurg called.<|assistant|>"
TEXTS = ["Name the place.", "", " two  spaces ", "Zürich ☃ 🙂 名前", "<|user|> x<|assistant|>", "tab\tline\nend"]
VOCAB_SIZE = 2304
HIDDEN_SIZE = 256
END_TOKEN = 2
# NL_END_*
ENDS_TOKEN, ENDS_TEXT, ENDS_LENGTH, ENDS_FULL, ENDS_CANCELLED, ENDS_DEADLINE, ENDS_ERROR = range(1, 8)
ENGINE = "model=@model device=cpu dtype=1 page_size=16 num_pages=64 threads=2"


ROLES = ["system", "user", "assistant"]
# Here a system message is a part of a user's message, so no chat ends where it ends.
FOLDED_SYSTEM = {"llama-2", "mistral-v1", "mistral-v3", "gemma"}
# Their templates here have other spaces or another end than the name means; and "template" is no name.
OTHER_BY_NAME = {"mistral-v1", "mistral-v3", "mistral-v7", "phi-3", "phi-4-mini", "template"}
# A flag that no function knows, nor will soon.
UNKNOWN_FLAG = 1 << 30


def quote(text):
    return urllib.parse.quote(text, safe="<>|/_.,:-@") or "%"


class Script:
    def __init__(self):
        self.lines = []
        self.reference = Reference()

    def add(self, *words):
        self.lines.append(" ".join(str(word) for word in words))

    def scenario(self, name, comment):
        self.lines += ["", f"# {comment}", f"scenario {name}"]

    def engine(self, options=""):
        """An engine, the prompts' tokens, and the reference's chunks of them."""
        self.add("engine", (ENGINE + " " + options).strip())
        self.tokens = {"system": [1] + self.reference.encode(SYSTEM)}
        self.tokens.update({name: self.reference.encode(text) for name, text in RECORDS.items()})
        self.tokens.update(ask_polm=self.reference.encode(ASK_POLM), ask_bralm=self.reference.encode(ASK_BRALM))
        self.tokens.update(ask_hurg=self.reference.encode(ASK_HURG))
        self.chunks, self.contexts, self.given = {}, {}, set()

    def use(self, name):
        if name not in self.given:
            self.given.add(name)
            self.add("tokens", name, *self.tokens[name])
        return self.tokens[name]

    def chunk(self, name, tokens, level, *before):
        values = self.use(tokens)
        self.add("chunk", name, tokens, level, *before)
        self.chunks[name] = self.reference.chunk(values, [self.chunks[other] for other in before])

    def cache(self, name, composition, *chunks):
        self.add("cache", name, composition, *chunks)
        self.contexts[name] = self.reference.context([self.chunks[chunk] for chunk in chunks], composition)

    def extend(self, name, tokens):
        values = self.use(tokens)
        self.add("extend", name, tokens)
        self.reference.extend(self.contexts[name], values)

    def generate(self, name, count, **sampling):
        """Fewer than three quarters of the tokens wanted would be a poor scenario: choose another seed or prompt."""
        drawn = self.reference.generate(self.contexts[name], count, sampling)
        assert 4 * len(drawn) >= 3 * count, (name, count, sampling, drawn)
        self.add("generate", name, "=", *drawn)
        return drawn

    def generation(self, name, cache, tokens, drawn, says, end, **options):
        """A generation upon `cache`, and what it gives: these tokens and this text."""
        if tokens != "none":
            self.use(tokens)
        self.add("generation", name, cache, tokens, *(f"{key}={value}" for key, value in options.items()))
        self.add("read", name, "=", end, quote(says), *drawn)

    def said(self, drawn):
        """What the tokens say, the model's end token left out."""
        return "".join(self.reference.stream([token for token in drawn if token != END_TOKEN]))

    def fails_with(self, index, needed, available):
        """Numbers that the error of the line before has; "-" for one that it doesn't have."""
        self.add("details", index, needed, available)

    def all_tokens(self, name):
        self.add("all_tokens", name, "=", *self.contexts[name].tokens)

    def fails(self, status, needle, *words):
        self.add("error", "NL_ERROR_" + status, needle, *words)


def pages(tokens, page_size=16):
    return -(-tokens // page_size)


def compositions(s):
    r = s.reference
    s.scenario("exact", "Chunks in a row give what one prefill gives, in every order")
    s.engine()
    for name in ("system", "bralm", "nuld", "polm"):
        s.chunk(name, name, 0 if name == "system" else 1)
    for number, order in enumerate((("bralm", "nuld", "polm"), ("polm", "bralm", "nuld"), ("nuld", "polm", "bralm"))):
        s.cache(f"c{number}", "exact", "system", *order)
        s.extend(f"c{number}", "ask_polm")
        s.generate(f"c{number}", 4)
        s.all_tokens(f"c{number}")

    s.scenario("independent", "Chunks as they were prefilled, in every order and twice; nothing is computed for them")
    s.engine()
    for name in ("system", "bralm", "nuld", "polm"):
        s.chunk(name, name, 0 if name == "system" else 1)
    for number, order in enumerate((("bralm", "nuld", "polm"), ("polm", "bralm"), ("nuld", "polm", "nuld"))):
        name = f"c{number}"
        s.cache(name, "independent", "system", *order)
        chunk_tokens = len(s.contexts[name].tokens)
        s.add("cache_fact", name, 5, "=", chunk_tokens)  # reused
        s.add("cache_fact", name, 6, "=", 0)  # computed
        s.extend(name, "ask_polm")
        s.add("cache_fact", name, 6, "=", len(s.tokens["ask_polm"]))
        s.generate(name, 4)

    s.scenario("behind_system", "Chunks prefilled after the system chunk, then moved")
    s.engine()
    s.chunk("system", "system", 0)
    s.chunk("bralm", "bralm", 1, "system")
    s.chunk("polm", "polm", 1, "system", "bralm")
    s.cache("c", "independent", "system", "polm", "bralm")
    s.extend("c", "ask_bralm")
    s.generate("c", 4)

    s.scenario("order_matters", "A record that refers to the one before it: the answer follows the order")
    s.engine()
    for name in ("system", "bralm", "nuld", "same"):
        s.chunk(name, name, 0 if name == "system" else 1)
    answers = []
    for number, order in enumerate((("bralm", "nuld", "same"), ("nuld", "bralm", "same"))):
        s.cache(f"c{number}", "exact", "system", *order)
        s.extend(f"c{number}", "ask_hurg")
        answers.append(r.decode(s.generate(f"c{number}", 3)).strip())
    assert answers[0].startswith("12 January") and answers[1].startswith("20 September"), answers

    s.scenario("no_chunks", "A cache without chunks is an ordinary conversation; logits say what greedy takes")
    s.engine()
    s.tokens["prompt"] = s.tokens["system"] + s.tokens["polm"] + s.tokens["ask_polm"]
    s.cache("c", "exact")
    s.extend("c", "prompt")
    s.add("argmax", "c", "=", int(s.contexts["c"].logits.argmax()))
    s.generate("c", 4)


def branches(s):
    r = s.reference
    s.scenario("fork", "Forks share what they have and go their own ways")
    s.engine()
    s.chunk("system", "system", 0)
    s.chunk("polm", "polm", 1)
    s.chunk("bralm", "bralm", 1)
    s.cache("c", "exact", "system", "polm", "bralm")
    s.add("fork d c")
    s.contexts["d"] = r.context([s.chunks[name] for name in ("system", "polm", "bralm")], "exact")
    s.extend("c", "ask_polm")
    s.extend("d", "ask_bralm")
    s.generate("d", 4)
    s.generate("c", 4)
    s.add("free c")
    s.generate("d", 3)
    s.all_tokens("d")

    s.scenario("truncate", "A conversation goes back and takes another turn")
    s.engine()
    s.chunk("system", "system", 0)
    s.chunk("polm", "polm", 1)
    s.chunk("bralm", "bralm", 1)
    s.cache("c", "exact", "system", "polm", "bralm")
    begin = len(s.contexts["c"].tokens)
    s.extend("c", "ask_polm")
    s.generate("c", 4)
    s.add("truncate c", begin)
    s.add("cache_fact c 1 =", begin)
    s.contexts["c"] = r.context([s.chunks[name] for name in ("system", "polm", "bralm")], "exact")
    s.extend("c", "ask_bralm")
    s.generate("c", 4)
    s.add("truncate c 20")
    s.contexts["c"] = r.context([], "exact")
    r.extend(s.contexts["c"], s.tokens["system"][:20])
    s.extend("c", "polm")
    s.extend("c", "ask_polm")
    s.generate("c", 4)

    s.scenario("batch", "A batch gives each conversation what it gets alone")
    s.engine()
    s.chunk("system", "system", 0)
    s.chunk("polm", "polm", 1)
    s.chunk("bralm", "bralm", 1)
    asked = {"a": ("exact", "polm", "ask_polm"), "b": ("independent", "bralm", "ask_bralm"), "c": ("exact", "bralm", "ask_bralm")}
    for name, (composition, record, question) in asked.items():
        s.cache(name, composition, "system", record)
        s.extend(name, question)
    drawn = [r.generate(s.contexts[name], 3) for name in asked]
    for step in range(min(len(tokens) for tokens in drawn)):
        names = list(asked)[step % 3 :] + list(asked)[: step % 3]
        s.add("step", *names, "=", *(drawn[list(asked).index(name)][step] for name in names))


def sampling(s):
    cases = [
        ("temperature", {"temperature": 1.0}),
        ("cool", {"temperature": 0.5}),
        ("top_k", {"temperature": 1.5, "top_k": 5}),
        ("top_p", {"temperature": 1.5, "top_p": 0.75}),
        ("min_p", {"temperature": 2.0, "min_p": 0.1}),
        ("all_filters", {"temperature": 2.0, "top_k": 40, "top_p": 0.9, "min_p": 0.02}),
    ]
    for number, (name, options) in enumerate(cases):
        s.scenario(f"sampling_{name}", "Draws from the seed, the position and the logits")
        s.engine()
        s.cache("c", "exact")
        s.extend("c", "system")
        s.extend("c", "polm")
        s.add("fork d c")
        s.add("fork e c")
        # The first seed from a different place for each case whose draws are clear of every boundary.
        begin = s.reference.context([], "exact")
        s.reference.extend(begin, s.tokens["system"] + s.tokens["polm"])
        for seed in range(1000003 * (number + 1), 1000003 * (number + 1) + 500):
            context = copy.deepcopy(begin)
            drawn = s.reference.generate(context, 6, {**options, "seed": seed})
            if len(drawn) == 6:
                break
        assert len(drawn) == 6, name
        words = [f"{key}={value}" for key, value in {**options, "seed": seed}.items()]
        s.add("sampling c", *words)
        s.add("generate c =", *drawn)
        s.add("sampling d", *words)
        s.add("generate d =", *drawn)
        s.add("sampling e", *words)
        s.add("tokens none")
        s.generation("g", "e", "none", drawn, s.said(drawn), ENDS_LENGTH, max_tokens=6, end_tokens=0)
        s.add("truncate d", len(begin.tokens))
        s.add("sampling d")
        s.contexts["d"] = begin
        s.generate("d", 4)


def choosing(s):
    s.scenario("choosing", "What is drawn follows from the options alone")
    s.engine()
    s.cache("c", "exact")
    s.extend("c", "system")
    s.add("sampling c allowed_token=912")
    s.add("generate c = 912 912 912")
    s.add("sampling c temperature=3.0 allowed_token=7 allowed_token=8 banned_token=7")
    s.add("generate c = 8 8")
    s.add("sampling c biased_token=912:100000")
    s.add("generate c = 912 912")
    s.add(f"error NL_ERROR_INVALID_ARGUMENT NL_OPTION_BANNED_TOKEN sampling c banned_token={VOCAB_SIZE}")
    s.add("error NL_ERROR_INVALID_ARGUMENT NL_OPTION_BIASED_TOKEN sampling c biased_token=912:x")
    count = len(s.use("polm"))
    s.add("score c polm =", count)
    s.add("cache d exact")
    s.add("score d polm =", count - 1)


def vectors(s):
    s.scenario("vectors", "Hidden states, and which of several tokens would follow")
    s.engine()
    s.cache("c", "exact")
    s.extend("c", "system")
    count = len(s.use("polm"))
    s.add("embed c polm 1 0 =", HIDDEN_SIZE)
    s.reference.extend(s.contexts["c"], s.tokens["polm"])
    s.all_tokens("c")
    s.add("tokens none")
    s.add("tokens candidates 7 966", *s.reference.generate(s.contexts["c"], 1, {}))
    s.add("score_next c none candidates = 2")
    s.add("embed c none 1 1 =", HIDDEN_SIZE)
    s.add("embed c polm 2 0 =", HIDDEN_SIZE)
    s.add("embed c polm 3 1 =", HIDDEN_SIZE * count)
    s.add("embed c none 3 0 = 0")
    s.fails("INVALID_ARGUMENT", "pooling", "embed c polm 4 0")
    s.fails("INVALID_ARGUMENT", "num_tokens", "embed c none 2 0")
    s.add("cache d exact")
    s.fails("INVALID_ARGUMENT", "empty", "embed d none 1 0")
    s.fails("INVALID_ARGUMENT", "empty", "score_next d none candidates")
    s.add("cache_fact c 1 =", len(s.tokens["system"]) + 3 * count)


def facts(s):
    s.scenario("engine_facts", "What config.json says")
    s.engine()
    weights = sum(weight.numel() for weight in s.reference.model.parameters())
    page_bytes = 6 * 2 * 2 * 16 * 64 * 4  # layers, K and V, KV heads, tokens, head dim, float32
    for fact, value in enumerate((VOCAB_SIZE, 6, HIDDEN_SIZE, 4, 2, 64, 4096, 1, 16, page_bytes, 64, 64, 0, weights), 1):
        s.add("engine_fact", fact, "=", value)
    s.add("end_token 2 = 1")
    s.add("end_token 7 = 0")
    s.add("device =", quote("cpu (2 threads)"))

    s.scenario("model_facts", "What a folder is, without loading it")
    config = s.reference.model.config
    for name, value in (
        ("model", "supported"), ("architecture", config.architectures[0]), ("parameters", weights),
        ("layers", config.num_hidden_layers), ("hidden size", config.hidden_size),
        ("query heads", config.num_attention_heads), ("KV heads", config.num_key_value_heads),
        ("context", config.max_position_embeddings), ("logits", VOCAB_SIZE), ("tokenizer", "supported"),
    ):  # fmt: skip
        s.add("describe @model", quote(name), "=", value)
    for name in ("chatml", "gemma"):
        s.add(f"describe @work/chats/{name}", quote("chat format"), "=", name)
    s.fails("NOT_FOUND", "/nowhere", "describe /nowhere model =")
    s.fails("INVALID_ARGUMENT", "path_length", "describe % model =")

    s.scenario("chunk_facts", "Pages, bytes and users of chunks, and the store that finds them again")
    s.engine()
    for name in ("system", "polm"):
        s.chunk(name, name, 0 if name == "system" else 1)
        tokens = len(s.tokens[name])
        values = (tokens, 0 if name == "system" else 1, pages(tokens), pages(tokens) * page_bytes, tokens, 1)
        for fact, value in enumerate(values, 1):
            s.add("chunk_fact", name, fact, "=", value)
    s.add("retain again polm")
    s.add("chunk_fact polm 6 = 2")
    s.chunk("found", "polm", 2)
    s.add("chunk_fact found 5 = 0")
    s.add("chunk_fact found 2 = 1")
    s.add("chunk_fact polm 6 = 3")
    s.cache("c", "independent", "system", "polm")
    s.add("chunk_fact polm 6 = 4")
    s.add("cache_fact c 1 =", len(s.contexts["c"].tokens))
    total = pages(len(s.tokens["system"])) + pages(len(s.tokens["polm"]))
    for fact, value in ((2, total), (3, 0), (4, total * page_bytes)):
        s.add("cache_fact c", fact, "=", value)
    s.add("engine_fact 12 =", 64 - total)
    for name in ("again", "polm", "system", "c", "found"):
        s.add("free", name)
    s.add("engine_fact 13 =", total)

    s.scenario("tenants", "Chunks are kept for each tenant, and those of the engine itself for all")
    s.engine()
    s.chunk("system", "system", 0)
    tokens = len(s.tokens["polm"])
    for tenant in ("a", "b"):
        s.add("tenant", tenant)
        s.chunk(f"polm_{tenant}", "polm", 1)
        s.add("chunk_fact", f"polm_{tenant}", 5, "=", tokens)
        for fact in (15, 23):
            s.add("engine_fact", fact, "= 1")
        s.add("engine_fact 25 =", tokens)
    s.fails("INVALID_ARGUMENT", "chunks[1]", "cache c independent system polm_a")
    s.fails("INVALID_ARGUMENT", "before[0]", "chunk c system 1 polm_a")
    s.cache("c", "independent", "system", "polm_b")
    s.fails("INVALID_ARGUMENT", "salt_length", "tenant %")
    s.add("tenant a")
    s.chunk("again", "polm", 1)
    s.add("chunk_fact again 5 = 0")
    s.add("engine_fact 20 = 1")
    s.add("chunk_fact again 8 = 50")
    s.add("priority again 101")
    s.add("chunk_fact polm_a 8 = 101")
    s.fails("INVALID_ARGUMENT", "102", "priority again 102")

    s.scenario("tokenizer_facts", "The vocabulary")
    s.add("tokenizer @model")
    for fact, value in enumerate((VOCAB_SIZE, 1, 2, 0, s.reference.text.pad_id()), 1):
        s.add("tokenizer_fact", fact, "=", value)
    for token in (0, 1, 5, 7, 100, 205, 273, 2303):
        s.add("piece", token, "=", quote(s.reference.text.id_to_piece(token)))
    for piece in ("<s>", "<|user|>", "\u2581Name", "<0x41>"):
        s.add("find", quote(piece), "=", s.reference.text.piece_to_id(piece))


def texts(s):
    s.scenario("text", "Text to tokens, back, and one by one")
    s.add("tokenizer @model")
    for number, text in enumerate(TEXTS):
        tokens = s.reference.encode(text)
        s.add("encode", quote(text), 0, "=", *tokens)
        s.add("encode", quote(text), 3, "=", 1, *tokens, 2)
        s.add("tokens", f"t{number}", *tokens)
        s.add("decode", f"t{number}", "=", quote(s.reference.decode(tokens)))
        s.add("stream", f"t{number}", "=", *(quote(piece) for piece in s.reference.stream(tokens)))
    part = s.reference.encode("☃")[:-1]
    s.add("tokens part", *part)
    # One U+FFFD for all that there is of the character, as Unicode recommends; SentencePiece gives one a byte.
    s.add("decode part =", quote("☃".encode()[:-1].decode(errors="replace")))

    s.scenario("special_tokens", "What a model folder wants around a text, and special tokens as text")
    corpus = [text for encoding, text in json.loads((FIXTURES / "corpus.json").read_text())["texts"] if encoding == "utf-8"]
    for folder in ("llama3", "roberta"):
        s.add("tokenizer", f"@text/{folder}")
        rows = json.loads((FIXTURES / folder / "expected.json").read_text())["rows"]
        short = [(text, row) for text, row in zip(corpus, rows) if 0 < len(text) < 80 and "\0" not in text]
        for text, (plain, special, as_text, _) in short[::5]:
            for flags, tokens in ((0, plain), (4, special), (8, as_text)):
                s.add("encode", quote(text), flags, "=", *tokens)

    s.scenario("engine_first", "What an engine gave outlives it")
    s.engine()
    s.add("tokenizer engine")
    s.chunk("system", "system", 0)
    s.chunk("polm", "polm", 1)
    s.cache("c", "exact", "system", "polm")
    s.add("free engine")
    s.add("free system")
    s.extend("c", "ask_polm")
    s.add("encode", quote(ASK_POLM), 0, "=", *s.tokens["ask_polm"])
    s.add("fork d c")
    drawn = s.generate("c", 3)
    s.add("tokens none")
    s.add("generation g d none end_tokens=0 max_tokens=3")
    s.add("free d")
    s.add("read g =", ENDS_LENGTH, quote(s.said(drawn)), *drawn)


def cut(s, drawn, stop):
    """The tokens up to the one that completes the stop text, and what they say before it."""
    for count in range(1, len(drawn) + 1):
        text = s.said(drawn[:count])
        if stop in text:
            return drawn[:count], text[: text.index(stop)]
    raise ValueError(stop)


def generations(s):
    r = s.reference

    def begin(options=""):
        """Two questions after the same chunks, and what greedy drawing answers: the draws go on after the end token."""
        s.engine(options)
        for name in ("system", "polm", "bralm"):
            s.chunk(name, name, 0 if name == "system" else 1)
        answers = {}
        for name in ("polm", "bralm"):
            context = r.context([s.chunks[chunk] for chunk in ("system", "polm", "bralm")], "exact")
            r.extend(context, s.tokens[f"ask_{name}"])
            answers[name] = r.generate(context, 8)
            assert END_TOKEN in answers[name][:-1], answers
            s.add("cache", name, "exact system polm bralm")
        s.add("tokens none")
        return answers

    def answer(drawn):
        return drawn[: drawn.index(END_TOKEN) + 1]

    s.scenario("generation", "A generation draws what steps draw, and the cache goes on after it")
    answers = begin()
    before = sum(len(s.tokens[name]) for name in ("system", "polm", "bralm"))
    s.add("fork steps polm")
    drawn = answer(answers["polm"])
    s.generation("g", "polm", "ask_polm", drawn, s.said(drawn), ENDS_TOKEN)
    s.add("extend steps ask_polm")
    s.add("generate steps =", *drawn)
    total = before + len(s.tokens["ask_polm"]) + len(drawn)
    for fact, value in ((1, len(drawn)), (2, before), (8, ENDS_TOKEN)):
        s.add("generation_fact g", fact, "=", value)
    s.add("cache_fact polm 1 =", total)
    s.add("read g =", ENDS_TOKEN, "%")  # the end again
    rest = answers["polm"][len(drawn) :]
    s.generation("h", "polm", "none", rest, s.said(rest), ENDS_LENGTH, max_tokens=len(rest), end_tokens=0)
    s.add("truncate polm", before)
    s.generation("i", "polm", "ask_bralm", answer(answers["bralm"]), s.said(answer(answers["bralm"])), ENDS_TOKEN)

    s.scenario("generations_at_once", "Several at once give what each gives alone, in whatever order they are read")
    answers = begin()
    s.use("ask_polm"), s.use("ask_bralm")
    for number in range(3):
        for name in ("polm", "bralm"):
            s.add(f"fork {name}{number} {name}")
            s.add(f"generation g_{name}{number} {name}{number} ask_{name}")
    for number in (1, 2, 0):
        for name in ("bralm", "polm"):
            drawn = answer(answers[name])
            s.add(f"read g_{name}{number} =", ENDS_TOKEN, quote(s.said(drawn)), *drawn)

    s.scenario("generation_ends", "Most and fewest tokens, stop tokens and texts")
    answers = begin()
    polm, bralm = answers["polm"], answers["bralm"]
    cases = [
        ("polm", polm[:1], ENDS_LENGTH, {"max_tokens": 1}),
        ("polm", polm[:4], ENDS_LENGTH, {"max_tokens": 4, "end_tokens": 0}),
        ("bralm", bralm[:2], ENDS_TOKEN, {"stop_token": bralm[1]}),
    ]
    # No end token is drawn before there are the fewest tokens.
    least = polm.index(END_TOKEN) + 1
    context = r.context([s.chunks[chunk] for chunk in ("system", "polm", "bralm")], "exact")
    r.extend(context, s.tokens["ask_polm"])
    longer = answer(r.generate(context, 16, never=[END_TOKEN], least=least))
    assert len(longer) > least, longer
    cases.append(("polm", longer, ENDS_TOKEN, {"min_tokens": least}))
    for number, (name, drawn, end, options) in enumerate(cases):
        s.add(f"fork c{number} {name}")
        s.generation(f"g{number}", f"c{number}", f"ask_{name}", drawn, s.said(drawn), end, **options)
    said = s.said(answer(bralm))
    stops = (said[2:4], said[1], said[-2:])
    for number, stop in enumerate(stops, len(cases)):
        drawn, text = cut(s, answer(bralm), stop)
        s.add(f"fork c{number} bralm")
        s.generation(f"g{number}", f"c{number}", "ask_bralm", drawn, text, ENDS_TEXT, stop_text=quote(stop))
    # A text that does not come is held back in part, and given in the end.
    s.add("fork held bralm")
    drawn = answer(bralm)
    s.generation("g_held", "held", "ask_bralm", drawn, said, ENDS_TOKEN, stop_text=quote(said[-1] + "?"))
    s.add("fork silent polm")
    s.generation("g_silent", "silent", "ask_polm", polm[:2], "", ENDS_LENGTH, text=0, max_tokens=2, end_tokens=0)

    s.scenario("constraints", "Constraints that allow what the model would say anyway change nothing; others are refused")
    answers = begin()
    drawn = answer(answers["bralm"])
    said = s.said(drawn)
    constraints = {
        "choice": said,
        "regex": "[ A-Za-z0-9]+",
        "grammar": 'root ::= ( " " word ){2}\nword ::= [0-9]+ | [A-Z] [a-z]*',
    }
    for name, constraint in constraints.items():
        s.add(f"fork c_{name} bralm")
        s.generation(f"g_{name}", f"c_{name}", "ask_bralm", drawn, said, ENDS_TOKEN, **{name: quote(constraint)})
    s.fails("INVALID_ARGUMENT", "closed", "generation g bralm ask_bralm regex=" + quote("(a"))
    s.fails("UNSUPPORTED", "uniqueItems", "generation g bralm ask_bralm json_schema=" + quote('{"uniqueItems":true}'))
    s.fails("INVALID_ARGUMENT", "rule", "generation g bralm ask_bralm grammar=" + quote("root ::= x"))
    s.fails("INVALID_ARGUMENT", "NL_OPTION_JSON_OBJECT", "generation g bralm ask_bralm json_object=1 regex=a")

    s.scenario("logits", "A function of the caller's leaves one token that can be drawn, each generation's its own")
    s.engine()
    s.use("ask_polm")
    s.add("tokens none")
    s.add("cache c exact")
    s.add("cache d exact")
    forced = {"c": 912, "d": 559}
    for name, token in forced.items():
        s.add(f"generation g_{name} {name} ask_polm max_tokens=3 force={token}")
    for name, token in reversed(forced.items()):
        s.add(f"read g_{name} =", ENDS_LENGTH, quote(s.said([token] * 3)), *[token] * 3)
    s.generation("h", "c", "none", [END_TOKEN], "", ENDS_TOKEN, force=END_TOKEN)
    s.generation("i", "c", "none", [END_TOKEN] * 2, "", ENDS_LENGTH, max_tokens=2, end_tokens=0, force=END_TOKEN)
    s.add("cache_fact c 1 =", len(s.tokens["ask_polm"]) + 6)

    s.scenario("generation_busy", "A cache that generates says so, until its generation is cancelled")
    answers = begin()
    before = sum(len(s.tokens[name]) for name in ("system", "polm", "bralm"))
    for cancelled in ("g", "polm", "engine"):
        # It pauses when two tokens wait for the reader, so it can't end before.
        s.use("ask_polm")
        s.add("generation g polm ask_polm end_tokens=0 buffer_tokens=2")
        for line in ("extend polm ask_polm", "fork x polm", "truncate polm 1", "sampling polm temperature=1",
                     "argmax polm = 0", "step polm = 0", "generation h polm none"):  # fmt: skip
            s.fails("BUSY", "generating", line)
        s.add("next g -1")
        s.add("generation_fact g 8 = 0")
        s.add("cancel", cancelled)
        s.add("read g")
        s.add("generation_fact g 8 =", ENDS_CANCELLED)
        s.add("truncate polm", before)
        drawn = answer(answers["polm"])
        s.generation("i", "polm", "ask_polm", drawn, s.said(drawn), ENDS_TOKEN)
        s.add("truncate polm", before)

    s.scenario("generation_times", "Waiting for nothing, and a deadline")
    s.engine()
    s.add("tokens none")
    s.add("tokens long", *[7] * 480)
    s.add("cache c exact")
    s.add("generation g c long max_tokens=1 end_tokens=0")
    s.fails("TIMEOUT", "came", "next g 0")
    s.add("read g")
    s.add("generation_fact g 8 =", ENDS_LENGTH)
    s.add("generation h c none end_tokens=0 deadline_ms=1")
    s.add("read h")
    s.add("generation_fact h 8 =", ENDS_DEADLINE)

    s.scenario("generation_limits", "The context is full, and so are the pages")
    s.engine("max_context=40")
    s.use("system")
    s.add("tokens none")
    s.add("cache c exact")
    s.add("generation g c system end_tokens=0")
    s.add("read g")
    s.add("generation_fact g 8 =", ENDS_FULL)
    s.add("generation_fact g 1 =", 40 - len(s.tokens["system"]))
    s.add("cache_fact c 1 = 40")
    s.fails("CONTEXT_FULL", "40", "generation h c none")
    s.fails_with("-", 1, 0)
    s.engine("num_pages=2")
    s.use("system")
    s.add("cache d exact")
    s.add("generation g d system end_tokens=0")
    s.fails("OUT_OF_PAGES", "pages", "read g")
    s.add("generation_fact g 8 =", ENDS_ERROR)

    s.scenario("generation_errors", "Generations that can't be had")
    s.engine()
    s.use("ask_polm")
    s.add("tokens none")
    s.add("tokens bad 5", VOCAB_SIZE)
    s.add("cache c exact")
    s.fails("INVALID_ARGUMENT", "empty", "generation g c none")
    s.fails("INVALID_ARGUMENT", "tokens[1]", "generation g c bad")
    for option, value in (("max_tokens", -1), ("min_tokens", -1), ("stop_token", -1), ("end_tokens", 2),
                          ("deadline_ms", -1), ("priority", 101), ("buffer_tokens", 0), ("stop_text", "%")):  # fmt: skip
        s.fails("INVALID_ARGUMENT", "NL_OPTION_" + option.upper(), f"generation g c ask_polm {option}={value}")
    s.fails("INVALID_ARGUMENT", "NL_OPTION_STOP_TEXT", "generation g c ask_polm text=0 stop_text=x")
    s.add("cache_fact c 1 = 0")
    s.add("engine model=@work/no_tokenizer device=cpu num_pages=4")
    s.add("cache d exact")
    s.fails("UNSUPPORTED", "tokenizer", "generation g d ask_polm stop_text=x")

    s.scenario("option_bounds", "What the header says that options may be")
    for option, *values in ((4, 16, 256, 64), (7, 1, 65536, 2048), (10, 1, 1048576, 4096), (100, 0, 1, 0), (204, -(2**63), 2**63 - 1, 0), (306, -100, 100, 0),
                            (307, 1, 1048576, 1024)):  # fmt: skip
        s.add("int_bounds", option, "=", *values)
    s.fails("INVALID_ARGUMENT", "option", "int_bounds 99 = 0")
    s.fails("INVALID_ARGUMENT", "NL_OPTION_TOP_P", "int_bounds 202 = 0")


def words(chat):
    return [word for role, text in chat for word in (ROLES.index(role), quote(text))]


def prefix_ends(entry, chat):
    """Where each message's part ends: there the chat without the later messages ends."""
    tokens = apply_chat_template(entry, chat)
    beginnings = [apply_chat_template(entry, chat[:count]) for count in range(1, len(chat) + 1)]
    assert all(tokens[: len(begin)] == begin for begin in beginnings), (entry["name"], chat)
    return [len(begin) for begin in beginnings]


def chats(s):
    for name, entry in chat_models().items():
        s.scenario(f"chat_{name}", "Messages as this format's template writes them, and where each one's part ends")
        s.add("tokenizer", f"@work/chats/{name}")
        s.add("format", "%")
        s.add("format_name", "=", name)
        if name not in OTHER_BY_NAME:
            s.add("format", name)
        for case in entry["cases"][2:12:3]:
            chat = case["messages"]
            assert apply_chat_template(entry, chat, case["generation"]) == case["tokens"], name
            s.add("render", int(case["generation"]), *words(chat), "=", *case["tokens"])
            if name not in FOLDED_SYSTEM or chat[0][0] != "system":
                s.add("ends", int(case["generation"]), *words(chat), "=", *prefix_ends(entry, chat))
        # An ill-formed byte is U+FFFD.
        s.add("render 0 1 a%FFb", "=", *apply_chat_template(entry, [["user", "a\ufffdb"]]))

    s.scenario("chat_in_chunks", "A chat split along its messages: the next one finds its beginning in the store")
    s.engine()
    s.add("tokenizer engine")
    s.add("format plain")
    s.add("format_name = plain")
    for name, question in (("c", ASK_POLM), ("d", ASK_BRALM)):
        texts = [SYSTEM, RECORDS["polm"], RECORDS["bralm"], question]
        parts = [s.reference.encode(text) for text in texts]
        chat = words(zip(["system", "user", "user", "user"], texts))
        ends = [sum(len(part) for part in parts[: count + 1]) for count in range(len(parts))]
        s.add("render 1", *chat, "=", *(token for part in parts for token in part))
        s.add("ends 1", *chat, "=", *ends)
        for part, tokens in zip(("first", "second", "third"), parts):
            s.tokens[part] = tokens
            s.chunk(f"{name}_{part}", part, 0 if part == "first" else 1)
            s.add("chunk_fact", f"{name}_{part}", 5, "=", len(tokens) if name == "c" else 0)
        s.cache(name, "independent", f"{name}_first", f"{name}_second", f"{name}_third")
        s.extend(name, "ask_polm" if name == "c" else "ask_bralm")
        s.generate(name, 4)

    chats_as_json(s)

    s.scenario("chat_errors", "Formats and messages that can't be had")
    s.add("tokenizer @model")
    s.fails("NOT_FOUND", "template", "format %")
    s.fails("INVALID_ARGUMENT", "no-such", "format no-such")
    s.fails("INVALID_ARGUMENT", "name", "format %FF")
    s.fails("UNSUPPORTED", "<|im_start|>", "format chatml")
    s.add("tokenizer @work/chats/chatml")
    s.fails("UNSUPPORTED", "<|im_sep|>", "format phi-4")
    s.add("format chatml")
    s.fails("INVALID_ARGUMENT", "num_messages", "render 0 =")
    s.fails("INVALID_ARGUMENT", "roles[1]", "render 0 1 x 3 y =")
    s.fails("INVALID_ARGUMENT", "roles[0]", "render 0 -1 x =")
    s.fails("INVALID_ARGUMENT", "flags", "render", UNKNOWN_FLAG, "1 x =")
    s.add("tokenizer @work/chats/llama-2")
    s.add("format llama-2")
    s.fails("INVALID_ARGUMENT", "contents[0]", "render 0 1 [INST] =")
    s.fails("INVALID_ARGUMENT", "roles[0]", "render 0 2 x =")
    s.fails("INVALID_ARGUMENT", "roles[1]", "render 0 1 x 0 y =")


TOOL = {"type": "function", "function": {"name": "ring", "parameters": {"type": "object", "properties": {}}}}
REQUESTS = [
    {"messages": [{"role": "user", "content": "Größe?"}]},
    {
        "messages": [
            {"role": "user", "content": "Ring the bell"},
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "ring", "arguments": {"n": 2}}}]},
            {"role": "tool", "content": "rung"},
        ],
        "tools": [TOOL],
        "variables": {"mood": "cheerful"},
    },
]


def chats_as_json(s):
    s.scenario("chat_json", "Chats that are JSON objects, as a template and as a format that is named take them")
    entry = tools_model()
    s.add("tokenizer @work/chats/tools")
    s.add("format %")
    for request in REQUESTS:
        request = {**request, "date": "2024-07-04"}
        for generation in (False, True):
            text, tokens = apply_to_request(entry, request, generation)
            # A message ends after its end-of-message token; the part that lists the tools ends with one too.
            parts = text.split("<|im_end|>\n")[: len(request["messages"]) + ("tools" in request)]
            beginnings = ["".join(part + "<|im_end|>\n" for part in parts[:count]) for count in range(1, len(parts) + 1)]
            ends = [len(chat_tokenizer(entry).encode(text, add_special_tokens=False)) for text in beginnings]
            asked = quote(json.dumps(request, ensure_ascii=False))
            s.add("render_json", int(generation), len(request["messages"]), asked, "=", *tokens)
            s.add("ends_json", int(generation), len(request["messages"]), asked, "=", *ends["tools" in request :])
            s.add("render_json", int(generation), 0, asked, "=", *tokens)
    s.fails("INVALID_ARGUMENT", "num_ends", "render_json 0 2", quote(json.dumps(REQUESTS[0])), "=")
    s.fails("INVALID_ARGUMENT", "well-formed", "render_json 0 0", quote('{"messages": ?}'), "=")
    s.fails("INVALID_ARGUMENT", "messages[0]", "render_json 0 0", quote('{"messages": [{}]}'), "=")
    s.fails("INVALID_ARGUMENT", "date", "render_json 0 0", quote(json.dumps({**REQUESTS[0], "date": "today"})), "=")
    s.fails("INVALID_ARGUMENT", "flags", "render_json", UNKNOWN_FLAG, 0, quote(json.dumps(REQUESTS[0])), "=")
    entry = chat_models()["chatml"]
    s.add("tokenizer @work/chats/chatml")
    s.add("format chatml")
    for case in entry["cases"][2:12:3]:
        messages = [{"role": role, "content": text} for role, text in case["messages"]]
        asked = quote(json.dumps({"messages": messages}, ensure_ascii=False))
        s.add("render_json", int(case["generation"]), 0, asked, "=", *case["tokens"])
        ends = prefix_ends(entry, case["messages"])
        s.add("ends_json", int(case["generation"]), len(messages), asked, "=", *ends)
    s.fails("INVALID_ARGUMENT", "tools", "render_json 0 0", quote(json.dumps({**REQUESTS[0], "tools": [TOOL]})), "=")


def errors(s):
    s.scenario("load_errors", "Models and options that can't be had")
    s.fails("NOT_FOUND", "/nowhere", "engine model=/nowhere device=cpu")
    s.fails("NOT_FOUND", "config.json", "engine model=@work/empty device=cpu")
    s.fails("BAD_MODEL", "config.json", "engine model=@work/broken device=cpu")
    s.fails("UNSUPPORTED", "architectures", "engine model=@work/unsupported device=cpu")
    s.fails("NOT_FOUND", "model.safetensors", "engine model=@work/no_weights device=cpu")
    s.fails("INVALID_ARGUMENT", "path_length", "engine model=% device=cpu")
    for option, value in (("page_size", 17), ("num_pages", -1), ("max_context", -5), ("max_batch_tokens", 65537),
                          ("threads", 1025), ("dtype", 9), ("device", "tpu")):  # fmt: skip
        needle = value if option == "device" else "NL_OPTION_" + option.upper()
        device = "" if option == "device" else " device=cpu"
        s.fails("INVALID_ARGUMENT", needle, f"engine model=@model{device} {option}={value}")
    s.fails("INVALID_ARGUMENT", "max_context", "engine model=@model device=cpu max_context=5000")
    s.fails("UNSUPPORTED", "dtype", "engine model=@model device=cpu dtype=2")
    s.fails("OUT_OF_MEMORY", "num_pages", "engine model=@model device=cpu num_pages=33000000")
    s.fails("NOT_FOUND", "tokenizer.model", "tokenizer @work/empty")
    s.fails("BAD_MODEL", "tokenizer.model", "tokenizer @work/broken")
    s.add("engine model=@work/no_tokenizer device=cpu num_pages=4")
    s.fails("NOT_FOUND", "tokenizer.model", "tokenizer engine")

    s.scenario("tokenizer_errors", "Tokens and pieces that are not there")
    s.add("tokenizer @model")
    s.fails("INVALID_ARGUMENT", "flags", "encode x", UNKNOWN_FLAG, "=")
    s.add("tokens bad 5", VOCAB_SIZE)
    s.fails("INVALID_ARGUMENT", VOCAB_SIZE, "decode bad =")
    s.fails("INVALID_ARGUMENT", VOCAB_SIZE, "stream bad =")
    s.fails("INVALID_ARGUMENT", "-1", "piece -1 =")
    s.fails("NOT_FOUND", "no-such", "find no-such = 0")
    s.fails("INVALID_ARGUMENT", "fact", "tokenizer_fact 99 = 0")

    s.scenario("chunk_errors", "A call that fails changes nothing")
    s.engine("max_context=200")
    s.add("tokens none")
    s.add("tokens bad 5", VOCAB_SIZE, 7)
    s.add("tokens negative 5 -1")
    s.add("tokens long", *[7] * 201)
    s.chunk("system", "system", 0)
    s.fails("INVALID_ARGUMENT", "num_tokens", "chunk x none 1")
    s.fails("INVALID_ARGUMENT", "tokens[1]", "chunk x bad 1")
    s.fails("INVALID_ARGUMENT", "tokens[1]", "chunk x negative 1")
    s.fails("INVALID_ARGUMENT", "level", "chunk x system 3")
    s.fails("INVALID_ARGUMENT", "level", "chunk x system -1")
    s.fails("CONTEXT_FULL", "200", "chunk x long 1")
    s.fails_with("-", 201, 200)
    s.fails("INVALID_ARGUMENT", "before[1]", "chunk x system 1 system null")
    s.fails("INVALID_ARGUMENT", "chunks[0]", "cache x exact null")
    s.fails("INVALID_ARGUMENT", "NL_OPTION_COMPOSITION", "cache x 7 system")
    s.fails("INVALID_ARGUMENT", "fact", "chunk_fact system 99 = 0")
    s.fails("INVALID_ARGUMENT", "fact", "engine_fact 99 = 0")
    s.add("chunk_fact system 6 = 1")
    s.fails("CONTEXT_FULL", "200", "cache x independent", *["system"] * 10)
    s.add("chunk_fact system 6 = 1")

    s.scenario("cache_errors", "Caches and batches")
    s.engine("max_context=200")
    s.chunk("system", "system", 0)
    s.chunk("polm", "polm", 1)
    s.add("tokens bad 5", VOCAB_SIZE)
    s.add("tokens long", *[7] * 190)
    s.cache("c", "exact", "system", "polm")
    s.cache("empty", "exact")
    s.extend("c", "ask_polm")
    count = len(s.contexts["c"].tokens)
    s.fails("INVALID_ARGUMENT", "tokens[1]", "extend c bad")
    s.fails("CONTEXT_FULL", "200", "extend c long")
    s.fails_with("-", 190, 200 - count)
    s.fails("INVALID_ARGUMENT", "num_tokens", "truncate c", count + 1)
    s.fails("INVALID_ARGUMENT", "cache", "argmax empty = 0")
    s.fails("INVALID_ARGUMENT", "caches[0]", "step empty = 0")
    s.fails("INVALID_ARGUMENT", "caches[1]", "step c empty = 0 0")
    s.fails_with(1, "-", "-")
    s.fails("INVALID_ARGUMENT", "caches[1]", "step c c = 0 0")
    s.fails("INVALID_ARGUMENT", "caches[1]", "step c null = 0 0")
    s.fails("INVALID_ARGUMENT", "fact", "cache_fact c 99 = 0")
    for option, value in (("temperature", -1), ("top_k", -2), ("top_p", 1.5), ("min_p", -0.5)):
        s.fails("INVALID_ARGUMENT", "NL_OPTION_" + option.upper(), f"sampling c {option}={value}")
    s.add("cache_fact c 1 =", count)
    s.generate("c", 4)

    s.scenario("two_engines", "Handles of two engines don't mix")
    s.engine()
    s.chunk("system", "system", 0)
    s.cache("c", "exact", "system")
    s.add("engine", ENGINE)
    s.fails("INVALID_ARGUMENT", "chunks[0]", "cache x exact system")
    s.fails("INVALID_ARGUMENT", "before[0]", "chunk x system 1 system")
    s.add("chunk mine system 0")
    s.add("cache d exact mine")
    s.fails("INVALID_ARGUMENT", "caches[1]", "step c d = 0 0")
    s.extend("c", "polm")
    s.extend("c", "ask_polm")
    s.generate("c", 3)

    s.scenario("out_of_pages", "A pool that is full says so, and chunks that nobody holds make room")
    s.engine("num_pages=6")
    s.chunk("system", "system", 0)
    free = 6 - pages(len(s.tokens["system"]))
    s.add("tokens three", *[7] * 33)
    s.add("chunk a three 1")
    free -= 3
    s.add("engine_fact 12 =", free)
    s.add("tokens other", *[8] * (16 * free + 1))
    s.fails("OUT_OF_PAGES", "pages", "chunk b other 1")
    s.fails_with("-", free + 1, free)
    s.add("free a")
    s.add("chunk b other 1")
    s.cache("c", "exact", "system")
    s.add("tokens big", *[9] * (16 * 4 + 1))
    s.fails("OUT_OF_PAGES", "pages", "extend c big")
    s.add("free b")
    s.extend("c", "polm")


def examples(reference):
    """What the small programs print, the same in every language. The answers stand in the records."""
    records = [RECORDS[name] for name in ("bralm", "nuld", "polm")]
    reused = 1 + len(reference.encode(SYSTEM)) + sum(len(reference.encode(record)) for record in records)
    (EXPECTED / "chat.txt").write_text(
        f"> Name the place where Boso Polm worked.\n Jewick\n  reused {reused} tokens\n"
        f"> Name the price that Jemi Nuld offered.\n 81 crowns\n  reused {reused} tokens\n"
    )
    (EXPECTED / "minimal.txt").write_text(" Jewick")
    (EXPECTED / "parallel.txt").write_text(
        "Name the place where Boso Polm worked. Jewick\nName the place where Beso Bralm stayed. Troton\n"
        "Name the day when Beso Bralm arrived. 20 September\nName the day when Boso Polm left. 7 July\n"
    )
    texts = [
        SYSTEM,
        "<|doc|> Boso Polm stayed in Drawick. Boso Polm got key GD15. Boso Polm arrived on 22 August. "
        "Boso Polm paid exactly 50 crowns.",
        RECORDS["bralm"],
    ]
    lines = ["The chat format is plain"]
    questions = (("Name the key that Beso Bralm got.", " KR32"), ("Name the place where Boso Polm stayed.", " Drawick"))
    for number, (question, answer) in enumerate(questions):
        lines += ["", f"> {question}"]
        for i, content in enumerate(texts, 1):
            found = "found in the store" if number else "computed"
            lines.append(f"  message {i}: {len(reference.encode(content))} tokens, {found}")
        lines.append(answer)
    (EXPECTED / "messages.txt").write_text("\n".join(lines) + "\n")
    text = "<|user|> Name the place where Boso Polm worked: Zürich?"
    tokens = [1] + reference.encode(text)
    lines = [f"{token} {reference.text.id_to_piece(token)}" for token in tokens] + [reference.decode(tokens)]
    (EXPECTED / "tokenize.txt").write_text("\n".join(lines) + "\n")


def main():
    script = Script()
    for part in (compositions, branches, sampling, choosing, vectors, facts, texts, generations, chats, errors):
        part(script)
    # A line that expects no tokens ends with "=".
    (HERE / "scenarios.txt").write_text(HEAD + "\n".join(line.rstrip() for line in script.lines) + "\n")
    examples(script.reference)


if __name__ == "__main__":
    main()
