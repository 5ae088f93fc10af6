#!/usr/bin/env python3
"""vLLM on the workloads of bench_whole_model, on the same model folder.

    run_vllm.py FOLDER [--case load|batch1|shared|random|prefill]... [--json FILE] [--seed N]

Each figure is made of two runs of vLLM's own batch interface, one that draws a token and one that draws more, so that
the prompts' prefill is in neither: what is left are decode steps. Prefix caching is on, so conversations that begin
with the same tokens share their pages. README.md in this folder says what has to be installed.
"""

import os
import statistics
import time

import workload

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # the engine in this process
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


class Peer:
    def __init__(self, folder, work):
        import torch
        import vllm

        self.vllm = vllm
        self.work = work
        self.vocab = workload.vocab_size(folder)
        begin = time.perf_counter()
        self.engine = vllm.LLM(
            model=str(folder),
            skip_tokenizer_init=True,
            dtype="bfloat16",
            max_model_len=max(work.contexts) + 2 * work.most,
            gpu_memory_utilization=0.85,
            enable_prefix_caching=True,
            max_num_seqs=max(work.conversations),
        )
        self.load_seconds = time.perf_counter() - begin
        self.report = workload.Report("vLLM", vllm.__version__, folder.resolve().name, torch.cuda.get_device_name())
        self.seconds([self.tokens(64)] * 2, [8, 8])  # warms up

    def tokens(self, count):
        return workload.random_tokens(count, self.vocab)

    def seconds(self, prompts, counts):
        """Of drawing counts[i] tokens after prompts[i], all of them at once."""
        sampling = [
            self.vllm.SamplingParams(temperature=0, ignore_eos=True, max_tokens=count, detokenize=False)
            for count in counts
        ]
        begin = time.perf_counter()
        answers = self.engine.generate([{"prompt_token_ids": each} for each in prompts], sampling, use_tqdm=False)
        took = time.perf_counter() - begin
        drawn = sum(len(answer.outputs[0].token_ids) for answer in answers)
        if drawn != sum(counts):
            raise RuntimeError(f"vLLM drew {drawn} tokens: expected {sum(counts)}")
        return took

    def seconds_of_steps(self, prompts, steps):
        """Of so many decode steps after the prompts, which have been computed before: the median of several turns."""
        count = len(prompts)
        self.seconds(prompts, [1] * count)
        turns = []
        for _ in range(self.work.turns):
            first = self.seconds(prompts, [1] * count)
            turns.append(self.seconds(prompts, [1 + steps] * count) - first)
        return statistics.median(turns)

    def load(self, _):
        self.report.add("load/first", self.load_seconds, "s")

    def batch1(self, _):
        for context in self.work.contexts:
            seconds = self.seconds_of_steps([self.tokens(context)], self.work.tokens)
            self.report.add(f"batch1/{context}", seconds / self.work.tokens * 1e3, "ms a token")

    def shared(self, _):
        chunk = self.tokens(self.work.chunk)
        steps = self.work.shared_tokens
        for count in self.work.conversations:
            prompts = [chunk + self.tokens(self.work.prompt) for _ in range(count)]
            self.report.add(f"shared/{count}", count * steps / self.seconds_of_steps(prompts, steps), "tokens/s")

    def random(self, seed):
        lengths = workload.request_lengths(seed, self.work)
        prompts = [self.tokens(length) for length, _ in lengths]
        counts = [count for _, count in lengths]
        self.report.add(f"random/{len(lengths)}", sum(counts) / self.seconds(prompts, counts), "tokens/s")

    def prefill(self, _):
        length = self.work.prefill
        turns = [self.seconds([self.tokens(length)], [1]) for _ in range(1 + self.work.turns)]
        self.report.add(f"prefill/{length}", length / statistics.median(turns[1:]), "tokens/s")


def main():
    options = workload.arguments(__doc__).parse_args()
    peer = Peer(options.folder, workload.GPU)
    for case in options.case or workload.CASES:
        getattr(peer, case)(options.seed)
    peer.report.write(options.json)


if __name__ == "__main__":
    main()
