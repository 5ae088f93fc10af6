#!/usr/bin/env python3
"""llama.cpp on the workloads of bench_whole_model, on the same model folder.

    run_llama_cpp.py FOLDER|FILE.gguf [--case load|batch1|shared|prefill]... [--gpu-layers N] [--threads N] [--json FILE]

A GGUF file is read as it is. A folder's weights (bfloat16, of a Llama or a Qwen3) are written once as llama.cpp.gguf beside them, in the same
16 bits; only speed is measured, so tokenizer and order of heads are left out. Conversations share a chunk through
llama.cpp's own means: one cache for all sequences (kv_unified), into which the chunk's cells are copied by reference.
There is no case random, since the library has no scheduler. README.md in this folder says what has to be installed.
"""

import ctypes
import json
import os
import platform
import statistics
import sys
import time

import workload

import gguf
import llama_cpp
import numpy

NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name):
    name = name.removesuffix(".weight")
    if name in WHOLE:
        return WHOLE[name] + ".weight"
    _, _, layer, part = name.split(".", 3)
    return f"blk.{layer}.{NAMES[part]}.weight"


def tensors_of(path):
    """Names, shapes and the raw 16 bits of a safetensors file."""
    with open(path, "rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_size))
    data = numpy.memmap(path, dtype=numpy.uint8, mode="r", offset=8 + header_size)
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        if tensor["dtype"] != "BF16":
            sys.exit(f"{path}: {name} is {tensor['dtype']}: expected BF16")
        begin, end = tensor["data_offsets"]
        yield name, tensor["shape"], data[begin:end]


def write_gguf(folder, path):
    config = json.loads((folder / "config.json").read_text())
    family = config["model_type"]
    if family not in ("llama", "qwen3"):
        sys.exit(f"{folder}: model_type is {family}: expected llama or qwen3")
    writer = gguf.GGUFWriter(str(path), family)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    for file in sorted(folder.glob("*.safetensors")):
        for name, shape, raw in tensors_of(file):
            if len(shape) == 1:  # llama.cpp wants vectors in float32
                wide = (raw.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
                writer.add_tensor(gguf_name(name), wide)
                continue
            rows = raw.reshape(shape[0], 2 * shape[1])
            writer.add_tensor(gguf_name(name), rows, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
        return f"{names[0]}, {len(names)} cores"
    except (OSError, IndexError):
        return platform.machine()


@llama_cpp.llama_log_callback
def log_errors(level, text, _):
    if level >= 4:
        sys.stderr.write(text.decode())


class Context:
    """A cache of `size` tokens for `sequences`, and the steps that are computed with it."""

    def __init__(self, peer, size, sequences):
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = size
        options.n_batch = options.n_ubatch = 512
        options.n_seq_max = sequences
        options.n_threads = options.n_threads_batch = peer.threads
        options.kv_unified = True
        self.context = llama_cpp.llama_init_from_model(peer.model, options)
        if not self.context:
            sys.exit("llama.cpp made no context")
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.batch = llama_cpp.llama_batch_init(512, 0, 1)
        self.sampler = llama_cpp.llama_sampler_init_greedy()

    def close(self):
        llama_cpp.llama_sampler_free(self.sampler)
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.context)

    def clear(self):
        llama_cpp.llama_memory_clear(self.memory, False)

    def share(self, sequences):
        """What sequence 0 has becomes the beginning of the others too."""
        for sequence in range(1, sequences):
            llama_cpp.llama_memory_seq_cp(self.memory, 0, sequence, -1, -1)

    def step(self, rows):
        """rows: (token, position, sequence, whether a token is drawn after it). Gives the tokens drawn."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, draws) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = draws
        if llama_cpp.llama_decode(self.context, batch) != 0:
            sys.exit("llama.cpp failed in a step")
        return [
            llama_cpp.llama_sampler_sample(self.sampler, self.context, i) for i, row in enumerate(rows) if row[3]
        ]

    def prefill(self, tokens, first, sequence):
        """Gives the token that is drawn after the last one."""
        drawn = None
        for begin in range(0, len(tokens), 512):
            piece = tokens[begin : begin + 512]
            last = begin + len(piece) == len(tokens)
            rows = [
                (token, first + begin + i, sequence, last and i + 1 == len(piece)) for i, token in enumerate(piece)
            ]
            drawn = self.step(rows)
        return drawn[0]

    def decode(self, tokens, first, steps):
        """Seconds of so many steps of all sequences, of which each has drawn a token."""
        begin = time.perf_counter()
        for step in range(steps):
            tokens = self.step([(token, first + step, i, True) for i, token in enumerate(tokens)])
        return time.perf_counter() - begin


class Peer:
    def __init__(self, options, work):
        self.work = work
        self.threads = options.threads or os.cpu_count()
        path = options.folder
        if path.is_dir():
            path = path / "llama.cpp.gguf"
            if not path.exists():
                write_gguf(options.folder, path)
        self.path = str(path).encode()
        self.gpu_layers = options.gpu_layers
        llama_cpp.llama_log_set(log_errors, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        begin = time.perf_counter()
        self.model = self.load_model()
        self.load_seconds = time.perf_counter() - begin
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        device = processor() if options.gpu_layers == 0 else options.device
        version = llama_cpp.__version__ + " (llama-cpp-python)"
        self.report = workload.Report("llama.cpp", version, options.folder.resolve().name, device)

    def load_model(self):
        options = llama_cpp.llama_model_default_params()
        options.n_gpu_layers = self.gpu_layers
        model = llama_cpp.llama_model_load_from_file(self.path, options)
        if not model:
            sys.exit(f"llama.cpp could not load {self.path.decode()}")
        return model

    def tokens(self, count):
        return workload.random_tokens(count, self.vocab)

    def load(self):
        self.report.add("load/first", self.load_seconds, "s")

    def batch1(self):
        for size in self.work.contexts:
            context = Context(self, size + self.work.tokens + 8, 1)
            turns = []
            for _ in range(self.work.turns):
                context.clear()
                token = context.prefill(self.tokens(size), 0, 0)
                turns.append(context.decode([token], size, self.work.tokens))
            context.close()
            seconds = statistics.median(turns) / self.work.tokens
            self.report.add(f"batch1/{size}", seconds * 1e3, "ms a token")

    def shared(self):
        work = self.work
        for count in work.conversations:
            context = Context(self, work.chunk + count * (work.prompt + work.shared_tokens) + 8, count)
            context.prefill(self.tokens(work.chunk), 0, 0)
            context.share(count)
            first = [context.prefill(self.tokens(work.prompt), work.chunk, i) for i in range(count)]
            seconds = context.decode(first, work.chunk + work.prompt, work.shared_tokens)
            context.close()
            self.report.add(f"shared/{count}", count * work.shared_tokens / seconds, "tokens/s")

    def prefill(self):
        length = self.work.prefill
        context = Context(self, length + 8, 1)
        turns = []
        for _ in range(1 + self.work.turns):
            context.clear()
            begin = time.perf_counter()
            context.prefill(self.tokens(length), 0, 0)
            turns.append(time.perf_counter() - begin)
        context.close()
        self.report.add(f"prefill/{length}", length / statistics.median(turns[1:]), "tokens/s")


def main():
    parser = workload.arguments(__doc__)
    parser.add_argument("--gpu-layers", type=int, default=0, help="layers on the GPU; 999: all, and the larger sizes")
    parser.add_argument("--device", default="GPU", help="how the GPU is called in the report")
    parser.add_argument("--threads", type=int, default=0, help="of the CPU; 0: all cores")
    options = parser.parse_args()
    peer = Peer(options, workload.GPU if options.gpu_layers > 0 else workload.CPU)
    for case in options.case or workload.CASES:
        if case != "random":
            getattr(peer, case)()
    peer.report.write(options.json)


if __name__ == "__main__":
    main()
