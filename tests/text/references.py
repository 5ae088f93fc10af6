"""What the reference packages make of a tokenizer's folder."""

import json
import re

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer


class JsonReference:
    """The tokenizers package."""

    def __init__(self, folder):
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        path = folder / "tokenizer_config.json"
        config = json.loads(path.read_text()) if path.exists() else {}
        self.around = None  # what add_bos_token and add_eos_token put, where they are there
        if "add_bos_token" in config or "add_eos_token" in config:
            self.around = [
                [self.tokenizer.token_to_id(config[name + "_token"])] if config.get(f"add_{name}_token") else []
                for name in ("bos", "eos")
            ]

    def encode(self, text, mode):
        self.tokenizer.encode_special_tokens = mode == "text"
        if mode == "special" and self.around is not None:
            return self.around[0] + self.tokenizer.encode(text, add_special_tokens=False).ids + self.around[1]
        return self.tokenizer.encode(text, add_special_tokens=mode == "special").ids

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=True)


class SentencePieceReference:
    """The sentencepiece package on what stands between added tokens."""

    def __init__(self, folder):
        model = (folder / "tokenizer.model").read_bytes()
        path = folder / "tokenizer_config.json"
        self.config = json.loads(path.read_text()) if path.exists() else {}
        self.added = {t["content"]: (int(i), t) for i, t in self.config.get("added_tokens_decoder", {}).items()}
        proto = sentencepiece_model_pb2.ModelProto.FromString(model)
        self.is_unigram = proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM
        proto.normalizer_spec.add_dummy_prefix = False
        without = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
        self.first = (
            without
            if self.config.get("add_prefix_space") is False
            else sentencepiece.SentencePieceProcessor(model_proto=model)
        )
        self.inner = self.first if self.config.get("legacy") or not self.added else without

    def parts(self, text, mode):
        """(text, None) and (spelling, id), the longest spelling at each place."""
        known = sorted(
            (c for c in self.added if mode != "text" or not self.added[c][1]["special"]), key=len, reverse=True
        )
        done = at = 0
        while at < len(text):
            found = next((c for c in known if text.startswith(c, at)), None)
            if found is None:
                at += 1
                continue
            if done < at:
                yield text[done:at], done, None
            yield found, at, self.added[found][0]
            done = at = at + len(found)
        if done < len(text):
            yield text[done:], done, None

    def encode(self, text, mode):
        ids = []
        for part, begin, token in self.parts(text, mode):
            ids += [token] if token is not None else (self.first if begin == 0 else self.inner).encode(part)
        if mode == "special":
            ids = [1] * bool(self.config.get("add_bos_token")) + ids + [2] * bool(self.config.get("add_eos_token"))
        return ids

    def same_score(self, ids, others):
        """Whether a unigram model likes both alike: which one comes out then depends on the library's version."""
        if not self.is_unigram or max(others, default=0) >= self.first.vocab_size():
            return False
        return abs(sum(map(self.first.get_score, ids)) - sum(map(self.first.get_score, others))) < 1e-3

    def decode(self, ids):
        return None  # compared by the tests with libsentencepiece itself


class TekkenReference:
    """The mistral_common package on what stands between special tokens, which it does not look for itself."""

    def __init__(self, folder):
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        self.tokenizer = Tekkenizer.from_file(folder / "tekken.json")
        specials = [self.tokenizer.id_to_piece(i) for i in range(self.tokenizer.num_special_tokens)]
        self.ids = {special: i for i, special in enumerate(specials)}
        names = "|".join(re.escape(s) for s in sorted(specials, key=len, reverse=True))
        self.specials = re.compile(f"({names})")

    def encode(self, text, mode):
        if mode == "text":
            return self.tokenizer.encode(text, bos=False, eos=False)
        ids = [self.tokenizer.bos_id] * (mode == "special")
        for part in self.specials.split(text):
            ids += [self.ids[part]] if part in self.ids else self.tokenizer.encode(part, bos=False, eos=False)
        return ids

    def decode(self, ids):
        return self.tokenizer.decode(ids)


def reference(folder):
    if (folder / "tekken.json").exists():
        return TekkenReference(folder)
    return JsonReference(folder) if (folder / "tokenizer.json").exists() else SentencePieceReference(folder)
