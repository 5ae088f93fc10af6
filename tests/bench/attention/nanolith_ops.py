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


class _Sized(ctypes.Structure):
    """A struct of nanolith_ops.h that tells its size; members that are not named are zero."""

    def __init__(self, **members):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **members)


class _AttentionCapacity(_Sized):
    _fields_ = [("struct_size", c_size_t), ("max_rows", c_int64), ("max_sequences", c_int64), ("max_segments", c_int64),
                ("max_page_table", c_int64)]


class _AttentionStep(_Sized):
    _fields_ = [("struct_size", c_size_t), ("num_pages", c_int64), ("page_table", _INT32S), ("num_entries", c_size_t),
                ("segment_first_entries", _INT32S), ("segment_lengths", _INT32S), ("segment_bases", _INT32S),
                ("num_segments", c_size_t), ("sequence_rows", _INT32S), ("sequence_segments", _INT32S),
                ("num_sequences", c_size_t), ("positions", _INT32S), ("num_rows", c_size_t)]


class _Rows(ctypes.Structure):
    """nl_rows and nl_const_rows."""

    _fields_ = [("data", c_void_p), ("row_stride", c_int64), ("head_stride", c_int64)]

    @classmethod
    def of(cls, tensor):
        return cls(data=tensor.data_ptr(), row_stride=tensor.stride(0), head_stride=tensor.stride(1))


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
            "nl_attention_plan_create": [c_void_p, c_void_p, POINTER(_AttentionCapacity), POINTER(c_void_p)],
            "nl_attention_plan_set": [c_void_p, POINTER(_AttentionStep)],
            "nl_attention_run": [c_void_p, POINTER(_Rows), c_void_p, POINTER(_Rows), c_void_p],
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
            capacity = _AttentionCapacity(max_rows=rows, max_sequences=len(positions), max_segments=len(flat),
                                          max_page_table=len(page_table))
            ops.check(library.nl_attention_plan_create(ops.handle, options, byref(capacity), byref(self.handle)))
        finally:
            library.nl_attention_options_free(options)
        table, sequence_rows = _int32s(page_table), _int32s([len(row) for row in positions])
        firsts, lengths, bases = (_int32s([segment[i] for segment in flat]) for i in range(3))
        sequence_segments = _int32s([len(sequence) for sequence in segments])
        stands = _int32s(numpy.concatenate([numpy.asarray(row) for row in positions]))
        step = _AttentionStep(
            num_pages=num_pages, page_table=_address(table), num_entries=len(table),
            segment_first_entries=_address(firsts), segment_lengths=_address(lengths), segment_bases=_address(bases),
            num_segments=len(flat), sequence_rows=_address(sequence_rows),
            sequence_segments=_address(sequence_segments), num_sequences=len(positions), positions=_address(stands),
            num_rows=rows)
        ops.check(library.nl_attention_plan_set(self.handle, byref(step)))

    def run(self, q, pages, out):
        """q and out [rows, heads, head_dim]; pages [pages, 2, KV heads, page size, head_dim]. Returns out."""
        self._ops.check(self._ops.library.nl_attention_run(
            self.handle, byref(_Rows.of(q)), pages.data_ptr(), byref(_Rows.of(out)), None))
        return out

    def __del__(self):
        if getattr(self, "handle", None):
            self._ops.library.nl_attention_plan_free(self.handle)
