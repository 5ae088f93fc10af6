"""How a call is timed.

The call is captured in a CUDA graph. What is reported is the median time of its replays between two device events. A
short spin goes before the first event, so that the queue is full and no gap of the host is in the figure. Before each
cold replay an unrelated buffer, larger than the L2 cache, is read: the cache is then full of clean lines, and nothing
is written back while the call runs. Warm figures put many calls into one graph and divide.

On "cpu", where this only checks the benchmark itself, a call simply runs once.
"""
import gc
import statistics
import time

import torch

SPIN_CYCLES = 150_000
FLUSH_BYTES = 256 << 20


class Captured:
    """A call and the graph that replays it. `out` is what the call returned: a replay writes it anew."""

    def __init__(self, call, graph, out, calls):
        self.call, self.graph, self.out, self.calls = call, graph, out, calls


class Clock:
    """Captures and times calls on one device. `stream` is where every call is warmed up and captured."""

    def __init__(self, device):
        self.on_gpu = device == "cuda"
        self.stream = torch.cuda.Stream() if self.on_gpu else None
        self._flush = torch.ones(FLUSH_BYTES // 4, dtype=torch.float32, device=device) if self.on_gpu else None

    def capture(self, call, calls=1, warm_up=3):
        """A graph of `calls` calls, replayed once, so that `out` holds its result."""
        if not self.on_gpu:
            return Captured(call, None, call(), calls)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(warm_up):
                call()
            self.stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            gc.disable()  # memory freed in the middle of a capture would break it
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for _ in range(calls):
                    out = call()
            except BaseException:
                try:
                    graph.capture_end()
                except RuntimeError:
                    pass  # the first error is the one to tell
                raise
            finally:
                gc.enable()
            graph.capture_end()
        torch.cuda.synchronize()
        graph.replay()
        torch.cuda.synchronize()
        return Captured(call, graph, out, calls)

    def flush(self):
        """Fills the L2 cache with clean lines of an unrelated buffer."""
        self._flush.sum()

    def samples(self, captured, count, cold):
        """Microseconds of a call in each of `count` replays."""
        times = []
        for _ in range(count):
            if not self.on_gpu:
                begin = time.perf_counter()
                captured.call()
                times.append((time.perf_counter() - begin) * 1e6)
                continue
            if cold:
                self.flush()
            begin = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(SPIN_CYCLES)
            begin.record()
            captured.graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / captured.calls)
        return times

    def median(self, call, count, cold, calls=1):
        """Median microseconds of a call."""
        return statistics.median(self.samples(self.capture(call, calls), count, cold))
