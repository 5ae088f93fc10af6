"""Nanolith's kernels as an attention implementation of Transformers, with keys and values in Nanolith's pages.

    import nanolith_attention                               # registers the implementation "nanolith"
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="nanolith")
    cache = nanolith_attention.PagedCache(model.config, batch_size=1, max_length=4096, device=model.device,
                                          dtype=model.dtype)
    model.generate(tokens, past_key_values=cache)

It calls the C functions of nanolith_ops.h through ctypes, on CPU and CUDA tensors alike. The library is
libnanolith.so.0, or the file that the environment variable NANOLITH_LIBRARY names.
"""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_float, c_int32, c_int64, c_size_t, c_void_p

import torch
from transformers import AttentionInterface, AttentionMaskInterface, Cache
from transformers.cache_utils import CacheLayerMixin

_library = ctypes.CDLL(os.environ.get("NANOLITH_LIBRARY", "libnanolith.so.0"))
_library.nl_last_error.restype = c_char_p
_DTYPES = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3, torch.float8_e4m3fn: 4}  # NL_DTYPE_*


class _Sized(ctypes.Structure):
    """A struct of nanolith_ops.h that tells its size. Members that are not named are zero."""

    def __init__(self, **members):
        super().__init__(struct_size=ctypes.sizeof(type(self)), **members)


class _Rows(ctypes.Structure):
    """nl_rows and nl_const_rows."""

    _fields_ = [("data", c_void_p), ("row_stride", c_int64), ("head_stride", c_int64)]


class _Tensor(ctypes.Structure):
    """nl_tensor and nl_const_tensor."""

    _fields_ = [("data", c_void_p), ("strides", POINTER(c_int64))]


class _Capacity(_Sized):
    """nl_attention_capacity"""

    _fields_ = [("struct_size", c_size_t), ("max_rows", c_int64), ("max_sequences", c_int64), ("max_segments", c_int64),
                ("max_page_table", c_int64)]


class _Step(_Sized):
    """nl_attention_step"""

    _fields_ = [("struct_size", c_size_t), ("num_pages", c_int64), ("page_table", c_void_p), ("num_entries", c_size_t),
                ("segment_first_entries", c_void_p), ("segment_lengths", c_void_p), ("segment_bases", c_void_p),
                ("num_segments", c_size_t), ("sequence_rows", c_void_p), ("sequence_segments", c_void_p),
                ("num_sequences", c_size_t), ("positions", c_void_p), ("num_rows", c_size_t)]


class _AppendStep(_Sized):
    """nl_append_step"""

    _fields_ = [("struct_size", c_size_t), ("num_pages", c_int64), ("slots", c_void_p), ("key_positions", c_void_p),
                ("num_rows", c_size_t)]


class _WithCacheArguments(_Sized):
    """nl_with_cache_arguments"""

    _fields_ = [("struct_size", c_size_t), ("batch", c_int64), ("num_tokens", c_int64), ("counts", POINTER(c_int64)),
                ("q", _Tensor), ("k", _Tensor), ("v", _Tensor), ("out", _Tensor), ("update", c_int32),
                ("max_length", c_int64)]


def _function(name, *argument_types):
    """The library's function `name`; what it returns other than NL_OK becomes an exception."""
    function = getattr(_library, name)
    function.argtypes = argument_types
    function.restype = c_int32

    def call(*arguments):
        if function(*arguments) != 0:
            raise RuntimeError(f"{name}: {_library.nl_last_error().decode()}")

    return call


_ops_create = _function("nl_ops_create", c_char_p, c_size_t, POINTER(c_void_p))
_ops_set_stream = _function("nl_ops_set_stream", c_void_p, c_void_p)
_options_create = _function("nl_attention_options_create", POINTER(c_void_p))
_options_set_heads = _function("nl_attention_options_set_heads", c_void_p, c_int32, c_int32)
_options_set_head_dim = _function("nl_attention_options_set_head_dim", c_void_p, c_int32)
_options_set_page_size = _function("nl_attention_options_set_page_size", c_void_p, c_int32)
_options_set_dtype = _function("nl_attention_options_set_dtype", c_void_p, c_int32)
_options_set_kv_dtype = _function("nl_attention_options_set_kv_dtype", c_void_p, c_int32)
_options_set_causal = _function("nl_attention_options_set_causal", c_void_p, c_int32)
_options_set_scale = _function("nl_attention_options_set_scale", c_void_p, c_float)
_plan_create = _function("nl_attention_plan_create", c_void_p, c_void_p, POINTER(_Capacity), POINTER(c_void_p))
_plan_set = _function("nl_attention_plan_set", c_void_p, POINTER(_Step))
_plan_set_slots = _function("nl_attention_plan_set_slots", c_void_p, POINTER(_AppendStep))
_kv_append = _function("nl_kv_append", c_void_p, POINTER(_Rows), POINTER(_Rows), c_void_p)
_attention_run = _function("nl_attention_run", c_void_p, POINTER(_Rows), c_void_p, POINTER(_Rows), c_void_p)
_with_cache = _function("nl_attention_with_cache", c_void_p, c_void_p, POINTER(_WithCacheArguments), c_void_p)
for _name in ("nl_ops_free", "nl_attention_options_free", "nl_attention_plan_free"):
    getattr(_library, _name).argtypes = [c_void_p]
    getattr(_library, _name).restype = None


class _Handle:
    """A handle of the library, freed with this object."""

    def __init__(self, create, free, *arguments):
        self._free = getattr(_library, free)
        self.value = c_void_p()
        create(*arguments, byref(self.value))

    def __del__(self):
        if getattr(self, "value", None):
            self._free(self.value)


_devices = {}


def _ops(device):
    """The kernels of a device, which work on PyTorch's current stream."""
    name = str(device) if device.type == "cpu" else f"cuda:{device.index or 0}"
    if name not in _devices:
        _devices[name] = _Handle(_ops_create, "nl_ops_free", name.encode(), len(name))
    ops = _devices[name].value
    if device.type == "cuda":
        _ops_set_stream(ops, torch.cuda.current_stream(device).cuda_stream)
    return ops


def _options(num_heads, num_kv_heads, head_dim, dtype, kv_dtype=None, page_size=64, scale=0.0, causal=True):
    options = _Handle(_options_create, "nl_attention_options_free")
    _options_set_heads(options.value, num_heads, num_kv_heads)
    _options_set_head_dim(options.value, head_dim)
    _options_set_page_size(options.value, page_size)
    _options_set_dtype(options.value, _DTYPES[dtype])
    _options_set_kv_dtype(options.value, _DTYPES[kv_dtype or dtype])
    _options_set_scale(options.value, scale)
    _options_set_causal(options.value, int(causal))
    return options


def _rows(tensor):
    """[batch, heads, tokens, head_dim] as [batch * tokens, heads, head_dim]: a view of what projections give."""
    rows = tensor.transpose(1, 2).flatten(0, 1)
    return rows if rows.stride(2) == 1 else rows.contiguous()


def _view(rows):
    return _Rows(data=rows.data_ptr(), row_stride=rows.stride(0), head_stride=rows.stride(1))


class _PagedLayer(CacheLayerMixin):
    """One layer's pages. Transformers calls update() in every layer of every step."""

    def __init__(self, cache, index, pages):
        super().__init__()
        self.cache, self.index, self.pages = cache, index, pages
        self.is_initialized = True

    def lazy_initialization(self, key_states, value_states=None):
        pass

    def update(self, key_states, value_states, *args, **kwargs):
        if self.index == 0 and not (key_states.is_cuda and torch.cuda.is_current_stream_capturing()):
            self.cache.begin_step(key_states.shape[2])
        self.cache._append(self.pages, key_states, value_states)
        key_states.nanolith_layer = self  # how the attention function finds its pages
        return key_states, value_states

    def get_seq_length(self):
        return self.cache.length

    def get_mask_sizes(self, query_length):
        return self.cache.length + query_length, 0

    def get_max_length(self):
        return self.cache.capacity

    get_max_cache_shape = get_max_length

    def reset(self):
        self.cache.length = 0


class PagedCache(Cache):
    """Keys and values of `batch_size` sequences of one common length, at most `max_length` tokens each, in pages.

    All pages are reserved at once: one tensor [num_pages, 2, num_kv_heads, page_size, head_dim] a layer. kv_dtype may
    be torch.float8_e4m3fn where the model computes in 16 bits.
    """

    def __init__(self, config, batch_size, max_length, device, dtype, kv_dtype=None, page_size=64):
        self.num_sequences, self.capacity, self.page_size = batch_size, max_length, page_size
        self.device = torch.device(device)
        self.num_heads, self.num_kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        if getattr(config, "sliding_window", None):
            raise ValueError("models with a sliding window need a plan with a window: not part of this example")
        self.options = _options(self.num_heads, self.num_kv_heads, self.head_dim, dtype, kv_dtype, page_size)
        self.pages_per_sequence = -(-max_length // page_size)
        self.num_pages = batch_size * self.pages_per_sequence
        shape = (self.num_pages, 2, self.num_kv_heads, page_size, self.head_dim)
        self.length = 0
        self.plans = {}
        self.plan = None
        super().__init__(layers=[
            _PagedLayer(self, i, torch.empty(shape, dtype=kv_dtype or dtype, device=self.device))
            for i in range(config.num_hidden_layers)
        ])

    @property
    def bytes(self):
        return sum(layer.pages.numel() * layer.pages.element_size() for layer in self.layers)

    def begin_step(self, num_tokens):
        """Makes room for the next `num_tokens` tokens of every sequence, and says what they attend to.

        The first layer's update() calls this, save where a CUDA graph is recorded: call it before recording the
        graph of a one-token step, and before every replay.
        """
        start, end = self.length, self.length + num_tokens
        if end > self.capacity:
            raise ValueError(f"the cache holds {start} tokens and would get {num_tokens} more: expected at most "
                             f"max_length = {self.capacity}")
        ops, plan = _ops(self.device), self._plan_for(num_tokens)
        batch = self.num_sequences
        first_page = torch.arange(batch, dtype=torch.int32)[:, None] * self.pages_per_sequence
        used = -(-end // self.page_size)
        positions = torch.arange(start, end, dtype=torch.int32).expand(batch, -1).contiguous()
        slots = positions + first_page * self.page_size  # a sequence's pages follow one another
        table = (torch.arange(used, dtype=torch.int32) + first_page).contiguous()
        entries = (torch.arange(batch, dtype=torch.int32) * used).contiguous()
        lengths, bases = torch.full((batch,), end, dtype=torch.int32), torch.zeros(batch, dtype=torch.int32)
        rows, segments = torch.full((batch,), num_tokens, dtype=torch.int32), torch.ones(batch, dtype=torch.int32)
        _plan_set_slots(plan, _AppendStep(num_pages=self.num_pages, slots=slots.data_ptr(), num_rows=slots.numel()))
        _plan_set(plan, _Step(
            num_pages=self.num_pages, page_table=table.data_ptr(), num_entries=table.numel(),
            segment_first_entries=entries.data_ptr(), segment_lengths=lengths.data_ptr(),
            segment_bases=bases.data_ptr(), num_segments=batch, sequence_rows=rows.data_ptr(),
            sequence_segments=segments.data_ptr(), num_sequences=batch, positions=positions.data_ptr(),
            num_rows=positions.numel()))
        self.plan = plan
        self.length = end

    def _plan_for(self, num_tokens):
        """One plan for decode steps, whose addresses a CUDA graph may keep, and others as large as prompts are."""
        size = 1 if num_tokens == 1 else 1 << (num_tokens - 1).bit_length()
        if size not in self.plans:
            capacity = _Capacity(max_rows=self.num_sequences * size, max_sequences=self.num_sequences,
                                 max_segments=self.num_sequences, max_page_table=self.num_pages)
            self.plans[size] = _Handle(_plan_create, "nl_attention_plan_free", _ops(self.device), self.options.value,
                                       capacity)
        return self.plans[size].value

    def _append(self, pages, keys, values):
        keys, values = _rows(keys), _rows(values)
        _ops(self.device)
        _kv_append(self.plan, _view(keys), _view(values), pages.data_ptr())

    def _attend(self, pages, query, out):
        query = _rows(query)
        _ops(self.device)
        _attention_run(self.plan, _view(query), pages.data_ptr(), _view(out), None)

    def reset(self):
        self.length = 0


def _attend_without_cache(query, key, value, out, scaling, causal):
    """The tokens among themselves: what a model without a cache asks for."""
    batch, num_heads, num_tokens, head_dim = query.shape
    options = _options(num_heads, key.shape[1], head_dim, query.dtype, scale=scaling, causal=causal)
    tensors = [t if t.stride(3) == 1 else t.contiguous() for t in (query, key, value)]
    q, k, v, to = (_Tensor(data=t.data_ptr(), strides=(c_int64 * 3)(*t.stride()[:3]))
                   for t in (*tensors, out.transpose(1, 2)))
    call = _WithCacheArguments(batch=batch, num_tokens=num_tokens, q=q, k=k, v=v, out=to)
    _with_cache(_ops(query.device), options.value, call, None)


def attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, is_causal=None, **kwargs):
    """Transformers' attention interface: tensors [batch, heads, tokens, head_dim] in, [batch, tokens, heads, ...] out."""
    if attention_mask is not None or dropout or kwargs.get("sliding_window") or kwargs.get("softcap"):
        raise ValueError("this example takes no mask, dropout, sliding window or soft-cap")
    if torch.is_grad_enabled() and query.requires_grad:
        raise ValueError("Nanolith computes no gradients: call the model under torch.no_grad()")
    batch, num_heads, num_tokens, head_dim = query.shape
    scaling = head_dim**-0.5 if scaling is None else scaling
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    out = torch.empty(batch, num_tokens, num_heads, head_dim, dtype=query.dtype, device=query.device)
    layer = getattr(key, "nanolith_layer", None)
    if layer is not None:
        if not causal or abs(scaling * head_dim**0.5 - 1) > 1e-6:
            raise ValueError("PagedCache is for causal attention, scaled by 1 / sqrt(head_dim)")
        layer.cache._attend(layer.pages, query, out.flatten(0, 1))
    elif key.shape[2] == num_tokens:
        _attend_without_cache(query, key, value, out, scaling, causal)
    else:
        raise ValueError("keys of another cache: expected past_key_values to be a nanolith_attention.PagedCache")
    return out, None


def _no_mask(*args, attention_mask=None, **kwargs):
    """Causality needs no mask. Padding does: refused rather than ignored."""
    if attention_mask is not None and not bool(attention_mask.all()):
        raise ValueError("attention_mask has padding: expected sequences of one length")
    return None


AttentionInterface.register("nanolith", attention)
AttentionMaskInterface.register("nanolith", _no_mask)
