"""What Transformers and SentencePiece say about the example model: tokens, logits and draws that scenarios expect.

Chunks are reproduced from their definition in nanolith.h: a chunk's keys and values are computed with its `before`
chunks in view, in float32, and its keys are then turned to the position that it has in a context.
"""

import datetime
import pathlib

import numpy as np
import sentencepiece
import torch
from chat_models import FIXTURES
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.cache_utils import DynamicCache
from transformers.utils import chat_template_utils

MODEL = pathlib.Path(__file__).resolve().parents[3] / "examples" / "model"
# A greedy token is expected only where the best logit leads by this, and so is a top-k where the k-th does; a draw, only
# where no share that it is compared with is nearer. That is many times what float32 implementations differ by.
LEAST_LEAD = 5e-3
LEAST_SHARE = 2e-4


class Chunk:
    def __init__(self, tokens, keys, values, base):
        self.tokens, self.keys, self.values, self.base = tokens, keys, values, base


class Context:
    """`logits` are those after the last token, or None."""

    def __init__(self, tokens, cache):
        self.tokens, self.cache, self.logits = list(tokens), cache, None


class Reference:
    def __init__(self):
        self.model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager").eval()
        self.text = sentencepiece.SentencePieceProcessor(model_file=str(MODEL / "tokenizer.model"))

    # ---- Chunks ----

    def turn(self, keys, distance):
        """Keys [1, heads, tokens, dim] rotated on by `distance` positions, by the angles of the model's own RoPE."""
        positions = torch.tensor([[distance]])
        cosine, sine = self.model.model.rotary_emb(keys, positions)
        half = keys.shape[-1] // 2
        rotated = torch.cat((-keys[..., half:], keys[..., :half]), dim=-1)
        return keys * cosine[:, None] + rotated * sine[:, None]

    def lay_out(self, chunks):
        """The key-value cache of `chunks` one after the other, each as it is stored."""
        cache = DynamicCache()
        base = 0
        for chunk in chunks:
            for layer, (keys, values) in enumerate(zip(chunk.keys, chunk.values)):
                cache.update(self.turn(keys, base - chunk.base), values, layer)
            base += len(chunk.tokens)
        return cache

    @torch.no_grad()
    def run(self, tokens, cache, base):
        positions = torch.arange(base, base + len(tokens))
        output = self.model(
            torch.tensor([tokens]), past_key_values=cache, position_ids=positions[None], cache_position=positions
        )
        return output.logits[0, -1].double().numpy()

    def chunk(self, tokens, before=()):
        base = sum(len(chunk.tokens) for chunk in before)
        cache = self.lay_out(before)
        self.run(tokens, cache, base)
        keys = [layer.keys[:, :, base:].clone() for layer in cache.layers]
        values = [layer.values[:, :, base:].clone() for layer in cache.layers]
        return Chunk(list(tokens), keys, values, base)

    # ---- Contexts ----

    def context(self, chunks, composition):
        if composition == "exact":
            computed = []
            for chunk in chunks:
                computed.append(self.chunk(chunk.tokens, computed))
            chunks = computed
        return Context([token for chunk in chunks for token in chunk.tokens], self.lay_out(chunks))

    def extend(self, context, tokens):
        context.logits = self.run(tokens, context.cache, len(context.tokens))
        context.tokens += tokens

    def generate(self, context, count, sampling=None, never=(), least=0):
        """Draws `count` tokens, or fewer: it stops before one that is too close to call. `context` moves on. None of the
        first `least` tokens is one of `never`."""
        drawn = []
        for number in range(count):
            logits = context.logits.copy()
            if number < least:
                logits[list(never)] = -np.inf
            token = draw(logits, sampling or {}, len(context.tokens))
            if token is None:
                break
            drawn.append(token)
            self.extend(context, [token])
        return drawn

    # ---- Text ----

    def encode(self, text):
        return self.text.encode(text)

    def decode(self, tokens):
        return self.text.decode(tokens)

    def stream(self, tokens):
        """The text that each token completes, and what is left at the end."""
        pieces, said = [], ""
        for count in range(1, len(tokens) + 1):
            text = self.text.decode(tokens[:count])
            whole = text.rstrip("\ufffd")  # bytes of an unfinished character
            pieces.append(whole[len(said) :])
            said = whole
        return pieces + [self.text.decode(tokens)[len(said) :]]


def chat_tokenizer(entry):
    return PreTrainedTokenizerFast(
        tokenizer_file=str(FIXTURES / entry["folder"] / "tokenizer.json"), **entry["config"]
    )


def apply_chat_template(entry, chat, generation=False):
    """What the template of an entry of chat_models makes of [role, text] pairs."""
    messages = [{"role": role, "content": text} for role, text in chat]
    return list(
        chat_tokenizer(entry).apply_chat_template(
            messages, add_generation_prompt=generation, tokenize=True, return_dict=False
        )
    )


def apply_to_request(entry, request, generation=False):
    """The text that the entry's template makes of a request of nl_chat_format_render_json, and its tokens."""
    date = datetime.datetime.fromisoformat(request["date"])

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return date

    chat_template_utils.datetime = Clock
    tokenizer = chat_tokenizer(entry)
    text = tokenizer.apply_chat_template(
        request["messages"],
        tools=request.get("tools"),
        add_generation_prompt=generation,
        tokenize=False,
        **request.get("variables", {}),
    )
    return text, tokenizer.encode(text, add_special_tokens=False)


def mix(x):
    """SplitMix64's output function."""
    mask = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def single(value):
    return float(np.float32(value))


def draw(logits, sampling, position):
    """The token that options of kind NL_OPTIONS_SAMPLING describe, by sorting; None where it is too close to call."""
    order = np.argsort(-logits, kind="stable")
    if sampling.get("temperature", 0) == 0:
        return int(order[0]) if logits[order[0]] - logits[order[1]] > LEAST_LEAD else None
    weights = np.exp((logits - logits.max()) / single(sampling["temperature"]))
    kept = list(order)
    top_k = sampling.get("top_k", 0)
    if top_k:
        if logits[order[top_k - 1]] - logits[order[top_k]] < LEAST_LEAD:
            return None
        kept = kept[:top_k]
    if sampling.get("top_p", 1) < 1:
        shares = np.cumsum(weights[kept]) / weights[kept].sum()
        if np.abs(shares - single(sampling["top_p"])).min() < LEAST_SHARE:
            return None
        kept = kept[: int(np.argmax(shares >= single(sampling["top_p"]))) + 1]
    min_p = single(sampling.get("min_p", 0))
    if min_p and np.abs(weights - min_p).min() < LEAST_SHARE * min_p:
        return None
    kept = sorted(token for token in kept if weights[token] >= min_p)
    bits = mix((mix(sampling.get("seed", 0)) + position) & ((1 << 64) - 1))
    uniform = (bits >> 11) * 2.0**-53
    shares = np.cumsum(weights[kept]) / weights[kept].sum()
    # Tokens of no weight lie between others without changing what is drawn.
    place = int(np.argmax(shares > uniform))
    below = shares[place - 1] if place > 0 else 0.0
    if (place > 0 and uniform - below < LEAST_SHARE) or shares[place] - uniform < LEAST_SHARE:
        return None
    return int(kept[place])
