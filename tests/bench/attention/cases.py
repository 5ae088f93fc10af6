"""For each kind of row: the inputs, everybody's calls on them, and what a result must be.

A case has
  calls      {label: build}, build() -> the call that is timed
  check      result of a call -> (largest absolute error, relative L2 error) against float64, on a part of the rows
  num_bytes  what has to be read at least: each key and value once, and in prefill queries and outputs too
  flops      of the two products, for the pairs of query and key that count
"""
import dataclasses
import typing

import numpy
import torch

import nanolith_ops
from flashinfer_modules import XQA_PAGE_SIZE
from reference import attend, error

CHECKED_SEQUENCES = 4
CHECKED_ROWS = 48
FLASHINFER_PAGE_SIZES = (16, 256)


@dataclasses.dataclass
class Case:
    calls: dict
    check: typing.Callable
    num_bytes: int
    flops: float


@dataclasses.dataclass
class Bench:
    """What all cases need: the device, our kernels, FlashInfer, and our page size. Either may be missing (None)."""

    device: str
    ops: nanolith_ops.Ops | None
    flashinfer: object | None
    page_size: int


def _random(shape, device, dtype):
    if dtype == torch.float8_e4m3fn:
        return torch.randn(shape, device=device, dtype=torch.float16).to(dtype)
    return torch.randn(shape, device=device, dtype=dtype)


def to_pages(k, v, page_size):
    """k and v [sequences, KV heads, tokens, d] as shuffled pages, and their tables [sequences, pages of one]."""
    sequences, kv_heads, tokens, dim = k.shape
    count = sequences * (tokens // page_size)
    tables = torch.randperm(count, device=k.device)
    as_bytes = torch.uint8 if k.dtype.itemsize == 1 else k.dtype  # not every indexing is there for fp8
    pages = torch.empty(count, 2, kv_heads, page_size, dim, device=k.device, dtype=as_bytes)
    for which, tensor in enumerate((k, v)):
        split = tensor.view(as_bytes).view(sequences, kv_heads, -1, page_size, dim).transpose(1, 2)
        pages[tables, which] = split.reshape(count, kv_heads, page_size, dim)
    return pages.view(k.dtype), tables.view(sequences, -1)


def _poisoned(shape, like):
    return torch.full(shape, float("nan"), device=like.device, dtype=like.dtype)


def decode(bench, row):
    q = _random((row.batch, row.heads, row.dim), bench.device, torch.float16)
    k, v = (_random((row.batch, row.kv_heads, row.tokens, row.dim), bench.device, row.kv_dtype) for _ in range(2))
    calls = {}

    def ours(causal):
        def build():
            pages, tables = to_pages(k, v, bench.page_size)
            per_sequence = tables.shape[1]
            plan = nanolith_ops.Plan(
                bench.ops, row.heads, row.kv_heads, row.dim, bench.page_size, q.dtype, k.dtype, len(pages),
                tables.reshape(-1).cpu().numpy(),
                [[(sequence * per_sequence, row.tokens, 0)] for sequence in range(row.batch)],
                [[row.tokens - 1]] * row.batch, causal)
            out = _poisoned(q.shape, q)
            return lambda: plan.run(q, pages, out)

        return build

    if bench.ops is not None:
        calls["ours"] = ours(True)
        calls["ours, no mask"] = ours(False)
    if row.kv_dtype == q.dtype:
        calls |= _sdpa(q[:, :, None], k, v, False)
    if bench.flashinfer is not None:
        calls |= _flashinfer_decode(bench.flashinfer, q, k, v)

    chosen = torch.linspace(0, row.batch - 1, min(row.batch, CHECKED_SEQUENCES)).long().tolist()
    expected = torch.stack([attend(q[b : b + 1], k[b], v[b])[0] for b in chosen])

    def check(result):
        return error(result.reshape(q.shape)[chosen], expected)

    return Case(calls, check, 2 * k.numel() * k.element_size(), 4 * q.numel() * row.tokens)


def _sdpa(q, k, v, causal, **names):
    from peers import sdpa

    return sdpa(q, k, v, causal, **names)


def _flashinfer_decode(flashinfer, q, k, v):
    """Every kernel of FlashInfer that decodes these, at each page size that it is offered in."""
    tokens = k.shape[2]
    kernels = ("cc", "fa2", "fa3") if k.dtype == q.dtype and q.shape[2] == 128 else ("cc", "fa2")
    calls = {}
    for page_size in FLASHINFER_PAGE_SIZES:
        if tokens % page_size == 0:
            calls |= flashinfer.flat_decode(q, *to_pages(k, v, page_size), tokens, kernels)
    return calls | flashinfer.xqa_decode(q, *to_pages(k, v, XQA_PAGE_SIZE), tokens)


def cascade(bench, row):
    q = _random((row.batch, row.heads, row.dim), bench.device, torch.float16)
    shared = [_random((1, row.kv_heads, row.shared, row.dim), bench.device, q.dtype) for _ in range(2)]
    private = [_random((row.batch, row.kv_heads, row.private, row.dim), bench.device, q.dtype) for _ in range(2)]

    def pool(page_size):
        """Pages of all, the shared ones' numbers, and the private ones' [sequences, pages of one]."""
        first, table = to_pages(*shared, page_size)
        second, tables = to_pages(*private, page_size)
        return torch.cat([first, second]), table[0], tables + len(first)

    def ours(cascading):
        def build():
            pages, common, tables = pool(bench.page_size)
            common, tables = common.cpu().numpy(), tables.cpu().numpy()
            per_sequence = tables.shape[1]
            if cascading:
                table = numpy.concatenate([common, tables.reshape(-1)])
                segments = [[(0, row.shared, 0), (len(common) + b * per_sequence, row.private, row.shared)]
                            for b in range(row.batch)]
            else:  # the same pages, named by each sequence as its own: nothing to find in common
                table = numpy.concatenate([numpy.concatenate([common, mine]) for mine in tables])
                each = len(common) + per_sequence
                segments = [[(b * each, row.shared + row.private, 0)] for b in range(row.batch)]
            plan = nanolith_ops.Plan(
                bench.ops, row.heads, row.kv_heads, row.dim, bench.page_size, q.dtype, q.dtype, len(pages), table,
                segments, [[row.shared + row.private - 1]] * row.batch)
            out = _poisoned(q.shape, q)
            return lambda: plan.run(q, pages, out)

        return build

    calls = {}
    if bench.ops is not None:
        calls["ours"] = ours(True)
        calls["ours flat"] = ours(False)
    if bench.flashinfer is not None:
        page_size = FLASHINFER_PAGE_SIZES[0]
        pages, common, tables = pool(page_size)
        flat = torch.cat([common.expand(row.batch, -1), tables], dim=1)
        length = row.shared + row.private
        calls |= {f"{label} flat": build for label, build in bench.flashinfer.flat_decode(
            q, pages, flat, length, ("cc", "fa2", "fa3"), (False,)).items()}
        calls |= bench.flashinfer.cascade_decode(q, pages, common, tables, page_size)

    chosen = torch.linspace(0, row.batch - 1, min(row.batch, CHECKED_SEQUENCES)).long().tolist()
    expected = torch.stack([
        attend(q[b : b + 1], *(torch.cat([s[0], p[b]], dim=1) for s, p in zip(shared, private)))[0] for b in chosen])

    def check(result):
        return error(result.reshape(q.shape)[chosen], expected)

    num_bytes = 2 * (shared[0].numel() + private[0].numel()) * 2
    return Case(calls, check, num_bytes, 4 * q.numel() * (row.shared + row.private))


def prefill(bench, row, causal=True):
    """Causal attention of a sequence on itself. Not causal: the same work without a mask, on the first half of the
    keys, so that the number of scores is the same."""
    tokens = row.tokens if causal else row.tokens // 2
    q = _random((row.batch, row.heads, row.tokens, row.dim), bench.device, torch.bfloat16)
    k, v = (_random((row.batch, row.kv_heads, tokens, row.dim), bench.device, q.dtype) for _ in range(2))
    packed_q, packed_k, packed_v = (t.transpose(1, 2).reshape(-1, t.shape[1], row.dim) for t in (q, k, v))

    def ours():
        pages, tables = to_pages(k, v, bench.page_size)
        per_sequence = tables.shape[1]
        plan = nanolith_ops.Plan(
            bench.ops, row.heads, row.kv_heads, row.dim, bench.page_size, q.dtype, q.dtype, len(pages),
            tables.reshape(-1).cpu().numpy(), [[(b * per_sequence, tokens, 0)] for b in range(row.batch)],
            [numpy.arange(row.tokens)] * row.batch, causal)
        out = _poisoned(packed_q.shape, q)
        return lambda: plan.run(packed_q, pages, out)

    calls = {}
    if bench.ops is not None:
        calls["ours"] = ours
    calls |= _sdpa(q, k, v, causal, names=("SDPA flash", "SDPA cuDNN"))
    if bench.flashinfer is not None:
        calls |= bench.flashinfer.prefill(packed_q, packed_k, packed_v, row.batch, causal)

    chosen = torch.linspace(0, row.tokens - 1, CHECKED_ROWS, device=bench.device).long().unique()
    last = row.batch - 1
    expected = attend(q[last].transpose(0, 1)[chosen], k[last], v[last], chosen + 1 if causal else None)

    def check(result):
        if result.dim() == 4:
            return error(result[last].transpose(0, 1)[chosen], expected)
        return error(result[last * row.tokens :][chosen], expected)

    num_bytes = 2 * (2 * q.numel() + 2 * k.numel())
    return Case(calls, check, num_bytes, 4 * q.numel() * row.tokens / 2)
