#!/usr/bin/env python3
"""Runs one row of bench.py's tables for a profiler: one cold call of each of --call, between the profiler's start and stop.

    ncu --clock-control none --profile-from-start off --metrics dram__bytes_read.sum,gpu__time_duration.sum \\
        python3 tests/bench/attention/profile_row.py --library DIR decode "B1 32:8 D128 S4096"

Names of rows and calls are those of the tables; the call "ours" by default. Peers of FlashInfer need its modules
compiled, see bench.py.
"""
import argparse
import pathlib

import torch

import cases
import nanolith_ops
import rows
from timing import Clock

TABLES = {"decode": rows.DECODE, "cascade": rows.CASCADE, "prefill": rows.PREFILL}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("row", nargs="+")
    parser.add_argument("--library", required=True)
    parser.add_argument("--call", action="append")
    parser.add_argument("--page-size", type=int, default=64)
    parser.add_argument("--flashinfer-cache", type=pathlib.Path)
    options = parser.parse_args()
    clock = Clock("cuda")
    torch.cuda.set_stream(clock.stream)
    ops = nanolith_ops.Ops(options.library, "cuda", clock.stream)
    flashinfer = None
    if options.flashinfer_cache:
        import flashinfer as library
        from flashinfer.jit import env

        from peers import FlashInfer

        env.FLASHINFER_AOT_DIR = options.flashinfer_cache.resolve()
        flashinfer = FlashInfer(library)
    bench = cases.Bench("cuda", ops, flashinfer, options.page_size)
    for row in TABLES[options.table]:
        if row.name not in options.row:
            continue
        case = getattr(cases, options.table)(bench, row)
        for label in options.call or ["ours"]:
            call = case.calls[label]()
            for _ in range(2):
                call()
            clock.flush()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
            print(f"{options.table} {row.name}: {label}", flush=True)


if __name__ == "__main__":
    main()
