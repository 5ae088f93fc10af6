"""The kernel-level C ABI (include/nanolith/nanolith_ops.h) from Python, as far as the benchmark needs it."""
import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_void_p

import numpy
import torch

DTYPES = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3, torch.float8_e4m3fn: 4}
_INT32S = POINTER(c_int32)


def _int32s(values):
    return numpy.ascontiguousarray(values, dtype=numpy.int32)


def _address(array):
    return array.ctypes.data_as(_INT32S)


class Ops:
    """The kernels of a device; the stream is where their work goes."""

    def __init__(self, folder, device, stream=None):
        os.environ.setdefault("NANOLITH_BACKEND_PATH", os.path.abspath(folder))
        library = ctypes.CDLL(os.path.join(os.path.abspath(folder), "libnanolith.so"))
        library.nl_last_error.restype = c_char_p
        library.nl_version.restype = c_char_p
        for name, arguments in {
            "nl_ops_create": [c_char_p, c_size_t, POINTER(c_void_p)],
            "nl_ops_set_stream": [c_void_p, c_void_p],
            "nl_ops_device": [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)],
            "nl_attention_options_create": [POINTER(c_void_p)],
            "nl_attention_options_set_heads": [c_void_p, c_int32, c_int32],
            "nl_attention_options_set_head_dim": [c_void_p, c_int32],
            "nl_attention_options_set_page_size": [c_void_p, c_int32],
            "nl_attention_options_set_dtype": [c_void_p, c_int32],
            "nl_attention_options_set_kv_dtype": [c_void_p, c_int32],
            "nl_attention_options_set_causal": [c_void_p, c_int32],
            "nl_attention_plan_create": [c_void_p, c_void_p] + 4 * [c_int64] + [POINTER(c_void_p)],
            "nl_attention_plan_set": [c_void_p, c_int64, _INT32S, c_size_t, _INT32S, _INT32S, _INT32S, c_size_t]
            + [_INT32S, _INT32S, c_size_t, _INT32S, c_size_t],
            "nl_attention_run": [c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_int64, c_void_p],
        }.items():
            function = getattr(library, name)
            function.argtypes = arguments
            function.restype = c_int32
        for name in ("nl_ops_free", "nl_attention_options_free", "nl_attention_plan_free"):
            getattr(library, name).argtypes = [c_void_p]
            getattr(library, name).restype = None
        self.library = library
        self.handle = c_void_p()
        self.check(library.nl_ops_create(device.encode(), len(device), byref(self.handle)))
        if stream is not None:
            self.check(library.nl_ops_set_stream(self.handle, stream.cuda_stream))

    def check(self, status):
        if status != 0:
            raise RuntimeError(f"status {status}: {self.library.nl_last_error().decode()}")

    def device(self):
        """The version of the library and its device, in words."""
        buffer, length = ctypes.create_string_buffer(256), c_size_t()
        self.check(self.library.nl_ops_device(self.handle, buffer, 256, byref(length)))
        return f"{self.library.nl_version().decode()} on {buffer.raw[: length.value].decode()}"

    def __del__(self):
        if getattr(self, "handle", None):
            self.library.nl_ops_free(self.handle)


class Plan:
    """One step's attention. `segments` holds, per sequence, a list of (first entry, length, base)."""

    def __init__(self, ops, q_heads, kv_heads, head_dim, page_size, dtype, kv_dtype, num_pages, page_table, segments,
                 positions, causal=True):
        """positions holds, per sequence, the positions of its query rows."""
        self._ops = ops
        self.handle = c_void_p()
        library = ops.library
        options = c_void_p()
        ops.check(library.nl_attention_options_create(byref(options)))
        try:
            ops.check(library.nl_attention_options_set_heads(options, q_heads, kv_heads))
            ops.check(library.nl_attention_options_set_head_dim(options, head_dim))
            ops.check(library.nl_attention_options_set_page_size(options, page_size))
            ops.check(library.nl_attention_options_set_dtype(options, DTYPES[dtype]))
            ops.check(library.nl_attention_options_set_kv_dtype(options, DTYPES[kv_dtype]))
            ops.check(library.nl_attention_options_set_causal(options, int(causal)))
            rows = sum(len(row) for row in positions)
            flat = [segment for sequence in segments for segment in sequence]
            ops.check(library.nl_attention_plan_create(ops.handle, options, rows, len(positions), len(flat),
                                                       len(page_table), byref(self.handle)))
        finally:
            library.nl_attention_options_free(options)
        table, sequence_rows = _int32s(page_table), _int32s([len(row) for row in positions])
        firsts, lengths, bases = (_int32s([segment[i] for segment in flat]) for i in range(3))
        sequence_segments = _int32s([len(sequence) for sequence in segments])
        stands = _int32s(numpy.concatenate([numpy.asarray(row) for row in positions]))
        ops.check(library.nl_attention_plan_set(
            self.handle, num_pages, _address(table), len(table), _address(firsts), _address(lengths), _address(bases),
            len(flat), _address(sequence_rows), _address(sequence_segments), len(positions), _address(stands), rows))

    def run(self, q, pages, out):
        """q and out [rows, heads, head_dim]; pages [pages, 2, KV heads, page size, head_dim]. Returns out."""
        self._ops.check(self._ops.library.nl_attention_run(
            self.handle, q.data_ptr(), q.stride(0), q.stride(1), pages.data_ptr(), out.data_ptr(), out.stride(0),
            out.stride(1), None))
        return out

    def __del__(self):
        if getattr(self, "handle", None):
            self._ops.library.nl_attention_plan_free(self.handle)
