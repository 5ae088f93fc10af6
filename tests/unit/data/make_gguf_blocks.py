"""Makes gguf_blocks.bin: random blocks of every type that src/backend/block_type.h decodes, and their numbers.

    pip install gguf && python3 make_gguf_blocks.py [BLOCKS [SEED [FILE]]]

Scales are of every size that float16 has, subnormal ones and the largest among them. For each type: its number and how
many blocks, uint32 each, the blocks, and their elements as float32, which the `gguf` package computes.
"""

import pathlib
import sys

import gguf
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

# Where the float16 scales of a block are.
SCALES = {"F32": [], "F16": [0], "BF16": [], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
          "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0],
          "IQ4_XS": [0]}  # fmt: skip
EXTREMES = np.array([65504, -65504, 6e-8, -6e-8, 6.1e-5, 0, 1, -1], np.float16)


def random_scales(random, count):
    """Finite halves of any exponent; the first ones extreme."""
    bits = random.integers(0, 1 << 16, count, dtype=np.uint16)
    scales = np.where(bits & 0x7C00 == 0x7C00, bits & 0x83FF, bits).astype(np.uint16).view(np.float16)
    extremes = random.permutation(EXTREMES)[: min(count // 2, len(EXTREMES))]
    scales[: len(extremes)] = extremes
    return scales


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    path = sys.argv[3] if len(sys.argv) > 3 else pathlib.Path(__file__).resolve().parent / "gguf_blocks.bin"
    random = np.random.default_rng(seed)
    with open(path, "wb") as file:
        for name, offsets in SCALES.items():
            kind = GGMLQuantizationType[name]
            _, size = GGML_QUANT_SIZES[kind]
            blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
            for offset in offsets:
                blocks[:, offset : offset + 2] = random_scales(random, count).view(np.uint8).reshape(count, 2)
            if name in ("F32", "BF16"):  # no NaN, whose bits are nobody's promise
                blocks[:, -1] &= 0xBF
            values = np.ascontiguousarray(quants.dequantize(blocks, kind), np.float32)
            file.write(np.array([int(kind), count], np.uint32).tobytes() + blocks.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
