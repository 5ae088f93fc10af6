"""Makes a GGUF file of random blocks in the shape of Qwen 3 0.6B, for measurements: what a model says does not matter.

    pip install gguf && python3 random_gguf.py TYPE FILE [TYPE_OF_TABLES]

TYPE is a name like Q4_K; the embeddings, to which the head is tied, have TYPE_OF_TABLES (TYPE where there is none).
"""

import sys

import gguf
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 1024, 3072, 28, 16, 8, 128, 151936
# Where the float16 scales and minimums of a block are.
SCALES = {"BF16": [], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0]}  # fmt: skip


def random_rows(random, kind, rows, cols):
    """The bytes of a matrix; its numbers are about 2^-5."""
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (rows * cols // elements, size), dtype=np.uint8)
    if kind == GGMLQuantizationType.BF16:  # 2^-6 to 2^-5, of either sign
        blocks[:, 1] = blocks[:, 1] & 0x80 | 0x3C
    probe = blocks[:64].copy()
    for offset in SCALES[kind.name]:
        probe[:, offset : offset + 2] = np.array([1], np.float16).view(np.uint8)
    values = gguf.quants.dequantize(probe, kind)
    for offset in SCALES[kind.name]:
        scale = np.array([2**-5 / values.std()], np.float16)
        blocks[:, offset : offset + 2] = scale.view(np.uint8)
    return blocks.reshape(rows, -1)


def main():
    kind = GGMLQuantizationType[sys.argv[1]]
    of_tables = GGMLQuantizationType[sys.argv[3]] if len(sys.argv) > 3 else kind
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(sys.argv[2], "qwen3")
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(40960)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_tensor("token_embd.weight", random_rows(random, of_tables, VOCAB, HIDDEN), raw_dtype=of_tables)
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, np.float32))
    for layer in range(LAYERS):
        for name, size in [("attn_norm", HIDDEN), ("ffn_norm", HIDDEN), ("attn_q_norm", HEAD_DIM),
                           ("attn_k_norm", HEAD_DIM)]:  # fmt: skip
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(size, np.float32))
        for name, rows, cols in [("attn_q", HEADS * HEAD_DIM, HIDDEN), ("attn_k", KV_HEADS * HEAD_DIM, HIDDEN),
                                 ("attn_v", KV_HEADS * HEAD_DIM, HIDDEN), ("attn_output", HIDDEN, HEADS * HEAD_DIM),
                                 ("ffn_gate", INNER, HIDDEN), ("ffn_up", INNER, HIDDEN),
                                 ("ffn_down", HIDDEN, INNER)]:  # fmt: skip
            writer.add_tensor(f"blk.{layer}.{name}.weight", random_rows(random, kind, rows, cols), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
