"""libnanolith's tokenizer through ctypes, for the scripts here."""

import ctypes

BUFFER_TOO_SMALL = 8
# NL_ENCODE_ADD_SPECIAL, NL_ENCODE_SPECIAL_AS_TEXT, NL_ENCODE_PARALLEL
MODES = {"plain": 0, "special": 4, "text": 8, "parallel": 16}


class Tokenizer:
    def __init__(self, path, folder):
        self.library = ctypes.CDLL(path)
        self.library.nl_last_error.restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        name = str(folder).encode()
        self.check(self.library.nl_tokenizer_load(name, ctypes.c_size_t(len(name)), ctypes.byref(self.handle)))

    def __del__(self):
        self.library.nl_tokenizer_free(self.handle)

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.library.nl_last_error().decode())

    def encode(self, data, mode):
        count = ctypes.c_size_t()
        room = len(data) + 64
        while True:
            tokens = (ctypes.c_int32 * room)()
            status = self.library.nl_tokenizer_encode(
                self.handle,
                data,
                ctypes.c_size_t(len(data)),
                MODES[mode],
                tokens,
                ctypes.c_size_t(room),
                ctypes.byref(count),
            )
            if status != BUFFER_TOO_SMALL:
                break
            room = count.value
        self.check(status)
        return tokens[: count.value]

    def decode(self, ids):
        tokens = (ctypes.c_int32 * max(len(ids), 1))(*ids)
        length = ctypes.c_size_t()
        room = 64 + 16 * len(ids)
        while True:
            buffer = ctypes.create_string_buffer(room)
            status = self.library.nl_tokenizer_decode(
                self.handle, tokens, ctypes.c_size_t(len(ids)), buffer, ctypes.c_size_t(room), ctypes.byref(length)
            )
            if status != BUFFER_TOO_SMALL:
                break
            room = length.value
        self.check(status)
        return buffer.raw[: length.value].decode()
