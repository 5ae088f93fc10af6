#!/usr/bin/env python3
"""Attention of Nanolith beside PyTorch's and FlashInfer's: decode, shared-prefix decode, causal prefill, masking.

    python3 tests/bench/attention/bench.py --library DIR

DIR holds libnanolith.so and libnanolith_cuda.so. Needs a CUDA GPU and PyTorch; FlashInfer (pip install
flashinfer-python) and Triton (for plain reads) are used where they are installed. All figures of a row come from one
process, one after another, on the same inputs; every result is compared with float64.

    --only decode|cascade|prefill|masking   this table alone (may be given several times)
    --quick                  two rows of each table, fewer samples
    --out FILE               the tables in Markdown (default attention.md); FILE.json keeps the raw figures
    --page-size N            our page size (default 64)
    --flashinfer-cache DIR   FlashInfer's modules compiled beforehand, see flashinfer_modules.py. Without it all are
                             compiled first, as many at once as there are cores: minutes
    --no-flashinfer, --no-ours   without one of them
    --limit SECONDS          a table's rows that would begin later are skipped (default 150)
    --cell-limit SECONDS     a step of one cell that takes longer counts as hung (default 60)
    --device cpu             tiny rows on the CPU, which check this benchmark itself; figures mean nothing

A call that breaks the GPU's context or hangs is noted, and the benchmark starts over after it. Exit status: 0 when
all tables were written, whatever they say; 1 when our library can't be used.
"""
import argparse
import gc
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time
import traceback
import warnings

import torch

import cases
import nanolith_ops
import report
import rows
from ceilings import Ceilings
from timing import Clock

ATTENTION_TFLOPS = 600  # what attention can reach of the matrix rate, for the floor of rows that arithmetic bounds
WARM_CALLS = 50
BLOCKS = 3  # everybody is timed in so many turns, so that a drift of the clocks meets all alike
# Replays of prefill that begin each turn and don't count: what takes all power leaves the next one a lower clock for some
# hundredths of a second, and that is to be one's own.
LEAD_IN = 3
RESTARTS = 12
WRONG = 0.1  # a relative error from which on a result is not a result, and its time not a time


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=".")
    parser.add_argument("--only", action="append", choices=("decode", "cascade", "prefill", "masking"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("attention.md"))
    parser.add_argument("--page-size", type=int, default=64)
    parser.add_argument("--flashinfer-cache", type=pathlib.Path)
    parser.add_argument("--no-flashinfer", action="store_true")
    parser.add_argument("--no-ours", action="store_true")
    parser.add_argument("--limit", type=float, default=150)
    parser.add_argument("--cell-limit", type=float, default=60)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def short(problem):
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text}"[:160]


def driver():
    """The version of the GPU's driver, or "unknown"."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


class State:
    """What has been measured, in a file, so that a broken context costs one cell and not the run."""

    def __init__(self, options):
        self.path = options.out.with_name(options.out.name + ".json")
        self.data = {"facts": {}, "results": [], "masking": [], "broken": {}, "seconds": {}, "restarts": 0,
                     "seed": options.seed if options.seed is not None else int(time.time())}
        if options.resume:
            self.data = json.loads(self.path.read_text())

    def save(self):
        self.path.write_text(json.dumps(self.data, indent=1))

    def restart(self, step, reason):
        """Notes what broke and starts the benchmark over; does not return."""
        print(f"  {step}: {reason}; starting over after it", flush=True)
        self.data["broken"][step] = reason
        self.data["restarts"] += 1
        self.save()
        if self.data["restarts"] > RESTARTS:
            print("too many restarts", flush=True)
            os._exit(1)
        arguments = [argument for argument in sys.argv if argument != "--resume"]
        os.execv(sys.executable, [sys.executable, *arguments, "--resume"])


class Watch:
    """Restarts the benchmark when a step takes too long: a kernel that never ends can't be stopped otherwise."""

    def __init__(self, state, limit):
        self._state, self._limit = state, limit
        self._step, self._end = None, None
        self._lock = threading.Lock()
        threading.Thread(target=self._run, daemon=True).start()

    def begin(self, step):
        with self._lock:
            self._step, self._end = step, time.monotonic() + self._limit

    def end(self):
        with self._lock:
            self._step = self._end = None

    def _run(self):
        while True:
            time.sleep(1)
            with self._lock:
                if self._end is not None and time.monotonic() > self._end:
                    self._state.restart(self._step, f"took longer than {self._limit:g} s")


class Runner:
    def __init__(self, options, state):
        self.options, self.state = options, state
        self.clock = Clock(options.device)
        self.ceilings = Ceilings(self.clock)
        self.watch = Watch(state, options.cell_limit)
        self.bench = cases.Bench(options.device, None, None, options.page_size)

    def prepare(self):
        """Opens our library and FlashInfer, and notes what they are."""
        facts = self.state.data["facts"]
        facts["seed"] = self.state.data["seed"]
        facts["PyTorch"] = torch.__version__
        if self.clock.on_gpu:
            facts["GPU"] = torch.cuda.get_device_name()
            facts["CUDA"] = f"{torch.version.cuda}, driver {driver()}"
        if not self.options.no_ours:
            try:
                self.bench.ops = nanolith_ops.Ops(self.options.library, self.options.device, self.clock.stream)
            except Exception as problem:
                sys.exit(f"can't use the library in {self.options.library}: {problem} (--no-ours goes without it)")
            facts["ours"] = f"{self.bench.ops.device()}, pages of {self.options.page_size} tokens"
        if self.clock.on_gpu and not self.options.no_flashinfer:
            try:
                facts["FlashInfer"] = self._open_flashinfer()
            except Exception as problem:
                facts["FlashInfer"] = short(problem)
        for what, value in facts.items():
            print(f"{what}: {value}", flush=True)
        self.state.save()

    def _open_flashinfer(self):
        import flashinfer

        import flashinfer_modules
        from peers import FlashInfer

        if self.options.flashinfer_cache:
            from flashinfer.jit import env

            env.FLASHINFER_AOT_DIR = self.options.flashinfer_cache.resolve()
        begin = time.monotonic()
        try:
            failed = flashinfer_modules.build_all(os.cpu_count())
        except Exception as problem:  # another version may make its modules differently, and compile them when used
            failed = {"all": short(problem)}
        for name, problem in failed.items():
            print(f"  not compiled: {name}: {problem}", flush=True)
        self.bench.flashinfer = FlashInfer(flashinfer)
        return f"{flashinfer.__version__} (modules ready after {time.monotonic() - begin:.0f} s, {len(failed)} missing)"

    def guarded(self, step, action):
        """(result, None) or (None, error). A broken context restarts the benchmark, which then leaves the step out."""
        if step in self.state.data["broken"]:
            return None, self.state.data["broken"][step]
        self.watch.begin(step)
        try:
            return action(), None
        except Exception as problem:
            text = short(problem)
            if not self.healthy():
                self.state.restart(step, text)
            return None, text
        finally:
            self.watch.end()

    def healthy(self):
        """Whether the GPU's context can still be used."""
        try:
            if self.clock.on_gpu:
                torch.cuda.synchronize()
            return True
        except Exception:
            return False

    def cells(self, key, case, samples, cold, calls, lead_in=0):
        """{label: cell} of a case: everybody's result checked, then timed in turns."""
        ready, found = {}, {}
        for label, build in case.calls.items():

            def prepare(build=build):
                captured = self.clock.capture(build(), calls)
                return captured, case.check(captured.out)

            done, problem = self.guarded(f"{key} {label}", prepare)
            if not problem and not done[1][1] < WRONG:
                problem = f"wrong result, relative error {done[1][1]:.2g}"
            if problem:
                found[label] = {"error": problem}
                print(f"  {key} {label}: {problem}", flush=True)
            else:
                ready[label] = done[0]
                found[label] = {"max": done[1][0], "l2": done[1][1]}
        times = {label: [] for label in ready}
        for _ in range(BLOCKS):
            for label in list(ready):
                count = lead_in + samples // BLOCKS
                block, problem = self.guarded(
                    f"{key} {label}", lambda label=label, count=count: self.clock.samples(ready[label], count, cold))
                if problem:
                    found[label] = {"error": problem}
                    del ready[label]
                else:
                    times[label] += block[lead_in:]
        for label in ready:
            found[label]["us"] = statistics.median(times[label])
        return found

    def speed_row(self, table, row):
        """Measures a row of a speed table."""
        case = getattr(cases, table)(self.bench, row)
        warm = getattr(row, "warm", False)
        samples = 6 if table == "prefill" else 9 if warm else 30
        if self.options.quick:
            samples = max(samples // 3, BLOCKS)
        found = self.cells(f"{table} {row.name}", case, samples, table != "prefill" and not warm,
                           WARM_CALLS if warm else 1, LEAD_IN if table == "prefill" else 0)
        read_us = None if table == "prefill" else self.ceilings.read_us(case.num_bytes, warm)
        floor_us = read_us
        if table == "cascade" and read_us is not None:
            floor_us = max(read_us, case.flops / ATTENTION_TFLOPS / 1e6)
        result = {"table": table, "name": row.name, "bar": row.bar, "cells": found, "read_us": read_us,
                  "floor_us": floor_us, "flops": case.flops, "kv_bytes": case.num_bytes}
        if table == "prefill":
            result["product_tflops"] = self.ceilings.product_tflops()
        self.state.data["results"].append(result)
        print(report.line(result), flush=True)

    def masking_row(self, _, row):
        """Causal prefill against the same work unmasked."""
        samples = 6
        masked = self.cells(f"masking {row.name} causal", cases.prefill(self.bench, row), samples, False, 1, LEAD_IN)
        plain = self.cells(f"masking {row.name} plain", cases.prefill(self.bench, row, causal=False), samples, False, 1,
                           LEAD_IN)
        pairs = [(label, masked[label].get("us"), plain[label].get("us")) for label in masked if label in plain]
        self.state.data["masking"].append({"name": row.name, "pairs": pairs})
        print(f"{row.name:36} " + "  ".join(
            f"{who} {causal / unmasked:.3f}" if causal and unmasked else f"{who} -" for who, causal, unmasked in pairs),
            flush=True)

    def table(self, name, all_rows, measure):
        """Runs the rows of a table that are not there yet, while there is time."""
        print(f"== {name}", flush=True)
        chosen = all_rows[:2] if self.options.quick else all_rows
        key = "masking" if name == "masking" else "results"
        seconds = self.state.data["seconds"]
        for row in chosen:
            row = rows.tiny(row) if self.options.device == "cpu" else row
            if any(done["name"] == row.name and done.get("table", name) == name for done in self.state.data[key]):
                continue
            if seconds.get(name, 0) > self.options.limit:
                print(f"{row.name:36} skipped: the table's {self.options.limit:g} s are over", flush=True)
                continue
            step = f"{name} {row.name}"
            if step in self.state.data["broken"]:
                continue
            begin = time.monotonic()
            torch.manual_seed(self.state.data["seed"])
            try:
                measure(name, row)
            except Exception as problem:
                print(f"{row.name:36} {short(problem)}", flush=True)
                traceback.print_exc(limit=-2)
                if not self.healthy():
                    self.state.restart(step, short(problem))
            gc.collect()
            if self.clock.on_gpu:
                torch.cuda.empty_cache()
            seconds[name] = seconds.get(name, 0) + time.monotonic() - begin
            self.state.save()
            self.write()
        print(f"{name}: {seconds.get(name, 0):.0f} s", flush=True)

    def write(self):
        data = self.state.data
        self.options.out.write_text(report.markdown(data["facts"], data["results"], data["masking"]))


def main():
    warnings.filterwarnings("ignore")
    options = parse()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA GPU; --device cpu checks the benchmark itself")
    state = State(options)
    runner = Runner(options, state)
    runner.prepare()
    for name, all_rows, measure in (
        ("decode", rows.DECODE, runner.speed_row), ("cascade", rows.CASCADE, runner.speed_row),
        ("prefill", rows.PREFILL, runner.speed_row), ("masking", rows.MASKING, runner.masking_row),
    ):
        if not options.only or name in options.only:
            runner.table(name, all_rows, measure)
    runner.write()
    wrong = report.all_shortfalls(state.data["results"], state.data["masking"])
    print(f"== short of the mark: {len(wrong)}", *wrong, f"tables in {options.out}", sep="\n", flush=True)


if __name__ == "__main__":
    main()
