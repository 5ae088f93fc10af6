"""FlashInfer compiles a module of kernels when it is first used, which takes up to minutes each. Here are the modules
that the benchmark uses, and ways to have them all compiled beforehand, at once.

As a program it compiles them on a machine with nvcc and without a GPU, and leaves NAME/NAME.so files in a folder that
bench.py takes as --flashinfer-cache:

    FLASHINFER_CUDA_ARCH_LIST=9.0a python3 flashinfer_modules.py --out DIR [--jobs N] [--prune]

--prune leaves out the mask kinds that the benchmark doesn't use: a half of the time and of the bytes.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess

import torch

XQA_PAGE_SIZE = 64


def specs():
    """[(spec, {layout: mask kinds used} or None for all)]. Mask kinds: 0 none, 1 causal."""
    from flashinfer.jit.attention import modules
    from flashinfer.jit.cascade import gen_cascade_module
    from flashinfer.jit.xqa import gen_xqa_module

    f16, bf16, f8, i32 = torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int32
    plain = (0, False, False)  # no rotation, no window, no soft-cap

    def cuda_cores(q, kv, dim):
        return modules.gen_batch_decode_module(q, kv, q, i32, dim, dim, *plain), None

    def fa2(q, kv, dim):
        # the name that newer versions have for what they use; older ones have one module for every stride
        generate = getattr(modules, "_gen_batch_prefill_primary_module", modules.gen_batch_prefill_module)
        return generate("fa2", q, kv, q, i32, dim, dim, *plain, False), {"paged": (0,)}

    def fa3(q, kv, dim, used):
        return modules.gen_batch_prefill_module("fa3", q, kv, q, i32, dim, dim, *plain, False), used

    def xqa(q, kv, dim, group):
        return gen_xqa_module(q, kv, XQA_PAGE_SIZE, dim, group, False, q), None

    return [
        cuda_cores(f16, f16, 64), cuda_cores(f16, f16, 128), cuda_cores(f16, f8, 64),
        fa2(f16, f16, 64), fa2(f16, f16, 128), fa2(f16, f8, 64),
        xqa(f16, f16, 64, 1), xqa(f16, f16, 128, 4), xqa(f16, f8, 64, 1),
        fa3(f16, f16, 128, {"paged": (0,)}), fa3(bf16, bf16, 128, {"ragged": (0, 1)}),
        (gen_cascade_module(), None),
    ]


def build_all(jobs):
    """Compiles what is not there yet, `jobs` modules at a time. Returns {name: error} of those that failed."""

    def build(spec):
        if not spec.is_compiled:
            spec.build(need_lock=True)

    failed = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future, name in {pool.submit(build, spec): spec.name for spec, _ in specs()}.items():
            try:
                future.result()
            except Exception as problem:  # whatever it was, that one peer is missing and the others are not
                failed[name] = str(problem).splitlines()[-1][:200]
    return failed


def _prune(spec, used):
    """Empties the sources of unused mask kinds. Their functions stay undefined: they are bound when first called."""
    for source in spec.sources:
        kind = re.search(r"_(paged|ragged)(?:_sm90)?_kernel_mask_(\d)", source.name)
        if used is not None and kind and int(kind[2]) not in used.get(kind[1], ()):
            pathlib.Path(source).write_text("// unused\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--jobs", default=1, type=int)
    parser.add_argument("--prune", action="store_true")
    options = parser.parse_args()
    for spec, used in specs():
        target = options.out / spec.name / f"{spec.name}.so"
        if target.exists():
            continue
        if options.prune:
            _prune(spec, used)
        spec.write_ninja()
        subprocess.run(["ninja", f"-j{options.jobs}", "-f", str(spec.ninja_path)], check=True,
                       cwd=os.fspath(spec.build_dir.parent), stdout=subprocess.DEVNULL)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(spec.jit_library_path, target)
        subprocess.run(["strip", "--strip-unneeded", str(target)], check=True)
        print(f"{target.stat().st_size:10d} {spec.name}", flush=True)


if __name__ == "__main__":
    main()
