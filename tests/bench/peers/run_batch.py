#!/usr/bin/env python3
"""One batch of random prompts through LLM.generate, by Nanolith's Python binding or by vLLM: the same lines for both.

    run_batch.py FOLDER [--program nanolith|vllm] [--requests N] [--least N] [--most N] [--device DEVICE] [--seed N]
                 [--json FILE]

Each prompt has --least to --most tokens, all of them random, and as many are drawn after it, greedily and past end
tokens. The seed is printed; with the same seed both programs get the same prompts. Loading and a short batch before
are not in the figures. Nanolith needs its wheel (bindings/python), vLLM what README.md in this folder says.
"""

from __future__ import annotations

import dataclasses
import importlib
import random
import time
from typing import Any

import workload


def load(options: Any) -> tuple[Any, Any, str]:
    """The program's module, its LLM and its version."""
    module: Any = importlib.import_module(options.program)
    longest = 2 * options.most + 8
    if options.program == "nanolith":
        return module, module.LLM(options.folder, device=options.device, max_context=longest), module.version()
    settings = {"skip_tokenizer_init": True, "dtype": "bfloat16", "max_model_len": longest, "max_num_seqs": 256}
    return module, module.LLM(model=str(options.folder), **settings), module.__version__


def device_of(program: str, llm: Any) -> str:
    if program == "nanolith":
        return str(llm.engine.device)
    torch: Any = importlib.import_module("torch")
    return str(torch.cuda.get_device_name())


def seconds(module: Any, llm: Any, prompts: list[list[int]], counts: list[int]) -> float:
    """Of drawing counts[i] tokens after prompts[i], all of them at once."""
    params = [
        module.SamplingParams(temperature=0, ignore_eos=True, max_tokens=count, detokenize=False) for count in counts
    ]
    begin = time.perf_counter()
    answers = llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], params)
    took = time.perf_counter() - begin
    drawn = [len(answer.outputs[0].token_ids) for answer in answers]
    if drawn != counts:
        raise RuntimeError(f"{sum(drawn)} tokens were drawn: expected {sum(counts)}")
    return took


def main() -> None:
    parser = workload.arguments(__doc__, cases=())
    parser.add_argument("--program", choices=("nanolith", "vllm"), default="nanolith")
    parser.add_argument("--requests", type=int, default=workload.GPU.requests)
    parser.add_argument("--least", type=int, default=workload.GPU.least)
    parser.add_argument("--most", type=int, default=workload.GPU.most)
    parser.add_argument("--device", default="auto", help="Nanolith's")
    options = parser.parse_args()
    work = dataclasses.replace(
        workload.GPU, requests=options.requests, least=options.least, most=options.most
    )
    lengths = workload.request_lengths(options.seed, work)
    random.seed(options.seed)
    vocab_size = workload.vocab_size(options.folder)
    prompts = [workload.random_tokens(length, vocab_size) for length, _ in lengths]
    counts = [count for _, count in lengths]
    module, llm, version = load(options)
    report = workload.Report(
        options.program, version, options.folder.resolve().name, device_of(options.program, llm)
    )
    print(f"seed {options.seed}: {len(prompts)} prompts, {sum(map(len, prompts))} tokens in, {sum(counts)} to draw")
    seconds(module, llm, [workload.random_tokens(64, vocab_size)] * 2, [8, 8])  # warms up
    took = seconds(module, llm, prompts, counts)
    report.add(f"batch/{len(prompts)}", sum(counts) / took, "tokens/s")
    report.write(options.json)


if __name__ == "__main__":
    main()
