"""Nanolith: a large language model inside the program, with chunks that are computed once and reused anywhere.

    from nanolith import Engine

    engine = Engine("/models/qwen3-0.6b")
    tokenizer = engine.tokenizer()
    document = engine.prefill(tokenizer.encode("A document."))      # computed once
    cache = engine.cache([document])                                # for each conversation
    for piece in cache.generate(tokenizer.encode("A question?")):   # drawn in batches with all others
        print(piece.text, end="")

Values are closed by `with`, by close(), or when nobody refers to them any more, in any order; what a living one needs
stays alive. Methods may be called from any thread, and let other threads of Python run while the library computes.
What goes wrong is a NanolithError, with the library's status, its sentence and the numbers in it.
"""

from . import enums
from ._callbacks import Log, Logits, Progress
from .about import (
    FloatBounds,
    IntBounds,
    describe_facts,
    describe_model,
    describe_options,
    float_bounds,
    int_bounds,
    version,
    version_number,
)
from .cache import Cache, decode_step
from .chat import ChatFormat, Message, RenderedChat
from .chunk import Chunk
from .engine import Engine
from .enums import *
from .errors import ClosedError, NanolithError
from .generation import Generation, Piece, Statistics
from .llm import LLM, CompletionOutput, Logprob, RequestOutput, SamplingParams, StructuredOutputsParams
from .options import CacheOptions, EngineOptions, GenerationOptions, SamplingOptions
from .tokenizer import TextStream, Tokenizer

__version__ = version()

__all__ = [
    "Cache",
    "CacheOptions",
    "ChatFormat",
    "Chunk",
    "ClosedError",
    "CompletionOutput",
    "Engine",
    "EngineOptions",
    "FloatBounds",
    "Generation",
    "GenerationOptions",
    "IntBounds",
    "LLM",
    "Log",
    "Logits",
    "Logprob",
    "Message",
    "NanolithError",
    "Piece",
    "Progress",
    "RenderedChat",
    "RequestOutput",
    "SamplingOptions",
    "SamplingParams",
    "Statistics",
    "StructuredOutputsParams",
    "TextStream",
    "Tokenizer",
    "decode_step",
    "describe_facts",
    "describe_model",
    "describe_options",
    "float_bounds",
    "int_bounds",
    "version",
    "version_number",
]
__all__ += enums.__all__
