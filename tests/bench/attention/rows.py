"""The rows of the tables: shapes, and the time or rate that we hold ourselves to (us at most, TFLOP/s at least)."""
import dataclasses

import torch


@dataclasses.dataclass(frozen=True)
class Decode:
    """One new token for each of `batch` sequences that hold `tokens` tokens each."""

    name: str
    batch: int
    heads: int
    kv_heads: int
    dim: int
    tokens: int
    bar: float
    kv_dtype: torch.dtype = torch.float16
    warm: bool = False


@dataclasses.dataclass(frozen=True)
class Cascade:
    """One new token for each of `batch` sequences after `shared` common tokens and `private` tokens of their own."""

    batch: int
    shared: int
    private: int
    bar: float
    heads: int = 32
    kv_heads: int = 8
    dim: int = 128

    @property
    def name(self):
        return f"B{self.batch}, {self.shared}+{self.private}"


@dataclasses.dataclass(frozen=True)
class Prefill:
    """The first `tokens` tokens of each of `batch` sequences."""

    batch: int
    tokens: int
    bar: float
    heads: int = 32
    kv_heads: int = 8
    dim: int = 128

    @property
    def name(self):
        return f"B{self.batch} S{self.tokens} D{self.dim}"


_SMALL = (16, 8, 8, 64)  # batch, query heads, KV heads, head dim
_F8 = torch.float8_e4m3fn

DECODE = [
    Decode("B16 8:8 D64 S2048", *_SMALL, 2048, 21),
    Decode("B16 8:8 D64 S2048, fp8 KV", *_SMALL, 2048, 14, _F8),
    Decode("B16 8:8 D64 S2048, fp8 KV, warm L2", *_SMALL, 2048, 10, _F8, True),
    Decode("B16 8:8 D64 S512", *_SMALL, 512, 10),
    Decode("B16 8:8 D64 S1024", *_SMALL, 1024, 13.5),
    Decode("B16 8:8 D64 S4096", *_SMALL, 4096, 36),
] + [
    Decode(f"B{batch} 32:8 D128 S{tokens}", batch, 32, 8, 128, tokens, bar)
    for batch, tokens, bar in ((1, 4096, 11), (1, 16384, 21), (8, 4096, 36), (16, 4096, 65), (64, 4096, 243),
                               (128, 1024, 126))
]

CASCADE = [
    Cascade(1, 32768, 256, 38),
    Cascade(16, 8192, 256, 28),
    Cascade(16, 32768, 256, 55),
    Cascade(64, 8192, 256, 45),
    Cascade(64, 32768, 256, 100),
    Cascade(64, 32768, 2048, 200),
    Cascade(256, 2048, 256, 100),
    Cascade(256, 32768, 256, 350),
]

PREFILL = [Prefill(4, 2048, 540), Prefill(1, 8192, 670), Prefill(1, 32768, 650)]

MASKING = PREFILL
MASKING_BAR = 1.05  # causal by unmasked time, for every row


def tiny(row):
    """The row cut to what a CPU does in no time, to check the benchmark itself."""
    if isinstance(row, Cascade):
        return dataclasses.replace(row, batch=min(row.batch, 3), shared=512, private=256)
    if isinstance(row, Decode):
        return dataclasses.replace(row, batch=min(row.batch, 2), tokens=512)
    return dataclasses.replace(row, batch=min(row.batch, 2), tokens=256)
