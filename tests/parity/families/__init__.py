"""The tiny random models of the parity fixtures, family by family."""

from families import ernie, fp8, gemma, llama, mistral, packed, phi, qwen, smollm  # noqa: F401
