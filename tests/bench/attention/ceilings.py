"""The ceilings that figures are held against, measured in the same run: plain reads of memory and a matrix product."""
import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # without Triton there are no plain reads, and the tables say so
    triton = None

GRIDS = ((264, 4096, 8), (528, 2048, 4), (1056, 1024, 4), (528, 4096, 8), (264, 8192, 16))  # programs, block, warps

if triton is not None:

    @triton.jit
    def _read(source, sink, size, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
        first = tl.program_id(0) * BLOCK
        total = tl.zeros((BLOCK,), tl.int32)
        for start in tl.range(first, size, PROGRAMS * BLOCK, num_stages=4):
            total ^= tl.load(source + start + tl.arange(0, BLOCK))
        tl.store(sink + first + tl.arange(0, BLOCK), total)


class Ceilings:
    """Measures each ceiling once and remembers it."""

    def __init__(self, clock):
        self._clock = clock
        self._reads = {}
        self._source = None
        self._product = None

    def read_us(self, num_bytes, warm=False):
        """Microseconds of a plain read of so many bytes, the best of several grids; None where it can't be measured."""
        if triton is None or not self._clock.on_gpu:
            return None
        words = max(num_bytes // 4 // 8192, 1) * 8192
        if (words, warm) not in self._reads:
            if self._source is None or self._source.numel() < words:
                self._source = None
                self._source = torch.randint(0, 1 << 30, (max(words, 1 << 26),), dtype=torch.int32, device="cuda")
            best = min(self._read_time(words, grid, warm) for grid in GRIDS)
            self._reads[(words, warm)] = best * num_bytes / (words * 4)
        return self._reads[(words, warm)]

    def _read_time(self, words, grid, warm):
        programs, block, warps = grid
        sink = torch.empty(programs * block, dtype=torch.int32, device="cuda")

        def call():
            _read[(programs,)](self._source, sink, words, block, programs, num_warps=warps)

        return self._clock.median(call, 10 if warm else 15, not warm, calls=50 if warm else 1)

    def product_tflops(self):
        """TFLOP/s of a bf16 matrix product of 8192 x 8192 x 8192; None where it can't be measured."""
        if not self._clock.on_gpu:
            return None
        if self._product is None:
            a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            self._product = 2 * 8192**3 / self._clock.median(lambda: torch.mm(a, b), 10, False) / 1e6
        return self._product
