"""libnanolith's engine through ctypes, for the scripts that compare it with Transformers."""

import ctypes

import numpy as np

BUFFER_TOO_SMALL = 8
ENGINE, CACHE = 1, 2  # NL_OPTIONS_*
EXACT, INDEPENDENT = 0, 1  # NL_COMPOSE_*
ADD_SPECIAL = 4  # NL_ENCODE_ADD_SPECIAL
VOCAB_SIZE = 1  # NL_ENGINE_VOCAB_SIZE
KEYS = {"dtype": 2, "page_size": 4, "num_pages": 5, "max_context": 6, "max_batch_tokens": 7, "threads": 11, "warm_up": 12}
DTYPES = {"float32": 1, "float16": 2, "bfloat16": 3}


class Refused(Exception):
    """A call that failed, with the library's sentence."""


class Engine:
    """One model on one device. Handles are freed with it."""

    def __init__(self, library, folder, device="cpu", **options):
        self.library = ctypes.CDLL(str(library))
        self.library.nl_last_error.restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        self.text = ctypes.c_void_p()
        settings = self._new("nl_options_create", ENGINE)
        self._call("nl_options_set_text", settings, 1, device.encode(), ctypes.c_size_t(len(device)))
        for name, value in options.items():
            value = DTYPES[value] if name == "dtype" else value
            self._call("nl_options_set_int", settings, KEYS[name], ctypes.c_int64(value))
        name = str(folder).encode()
        try:
            self._call("nl_engine_create", name, ctypes.c_size_t(len(name)), settings, ctypes.byref(self.handle))
        finally:
            self.library.nl_options_free(settings)

    def close(self):
        self.library.nl_tokenizer_free(self.text)
        self.library.nl_engine_free(self.handle)
        self.handle = self.text = ctypes.c_void_p()

    def _call(self, function, *arguments):
        status = getattr(self.library, function)(*arguments)
        if status != 0:
            raise Refused(self.library.nl_last_error().decode())

    def _new(self, function, *arguments):
        handle = ctypes.c_void_p()
        self._call(function, *arguments, ctypes.byref(handle))
        return handle

    def vocab_size(self):
        value = ctypes.c_int64()
        self._call("nl_engine_query", self.handle, VOCAB_SIZE, ctypes.byref(value))
        return value.value

    def encode(self, text):
        """The tokens of a text with those that the model folder wants around it."""
        if not self.text:
            self.text = self._new("nl_engine_tokenizer", self.handle)
        data = text.encode()
        tokens = (ctypes.c_int32 * (len(data) + 64))()
        count = ctypes.c_size_t()
        size = ctypes.c_size_t
        self._call("nl_tokenizer_encode", self.text, data, size(len(data)), ADD_SPECIAL, tokens, size(len(tokens)),
                   ctypes.byref(count))  # fmt: skip
        return tokens[: count.value]

    def prefill(self, tokens, level=1):
        """A chunk's handle."""
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        size = ctypes.c_size_t
        return self._new("nl_chunk_prefill", self.handle, array, size(len(tokens)), level, None, size(0))

    def free_chunk(self, chunk):
        self.library.nl_chunk_free(chunk)

    def cache(self, tokens=(), chunks=(), composition=EXACT):
        """A cache's handle, which begins with the chunks and then has the tokens."""
        settings = self._new("nl_options_create", CACHE)
        self._call("nl_options_set_int", settings, 100, ctypes.c_int64(composition))
        array = (ctypes.c_void_p * max(len(chunks), 1))(*[chunk.value for chunk in chunks])
        cache = self._new("nl_cache_create", self.handle, settings, array, ctypes.c_size_t(len(chunks)))
        self.library.nl_options_free(settings)
        if len(tokens) > 0:
            given = (ctypes.c_int32 * len(tokens))(*tokens)
            self._call("nl_cache_extend", cache, given, ctypes.c_size_t(len(tokens)))
        return cache

    def free_cache(self, cache):
        self.library.nl_nanolith_cache_free(cache)

    def logits(self, cache):
        """float32 [vocab_size]: for the token after the cache's last one."""
        logits = np.empty(self.vocab_size(), np.float32)
        count = ctypes.c_size_t()
        pointer = logits.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        self._call("nl_cache_logits", cache, pointer, ctypes.c_size_t(len(logits)), ctypes.byref(count))
        return logits

    def draw(self, caches, count):
        """`count` greedy tokens of each cache, in steps of all of them."""
        array = (ctypes.c_void_p * len(caches))(*[cache.value for cache in caches])
        tokens = (ctypes.c_int32 * len(caches))()
        drawn = [[] for _ in caches]
        for _ in range(count):
            self._call("nl_decode_step", array, ctypes.c_size_t(len(caches)), tokens)
            for mine, token in zip(drawn, tokens):
                mine.append(token)
        return drawn
