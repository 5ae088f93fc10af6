# Written by bindings/generate.py from include/nanolith/nanolith.h. Do not edit.
"""Options as keyword arguments; None, and an option that is left out, keep the library's default."""

from __future__ import annotations

from typing import Sequence, TypedDict

from .enums import Composition, Dtype, Weights


class EngineOptions(TypedDict, total=False):
    """Options of an engine. Since 0.2.
    Bounds stand in brackets, here and below; nl_option_bounds_int and nl_option_describe tell them too.
    """

    #: "auto" (default: CUDA where there is a GPU and its backend, else the CPU), "cpu", "cuda" or "cuda:1".
    #: [1 to 64 bytes]
    device: str | bytes | None
    #: Format of weights and activations. [NL_DTYPE_AUTO (default) to NL_DTYPE_BF16]
    dtype: Dtype | None
    #: Format of keys and values in pages. NL_DTYPE_AUTO: as the activations. [NL_DTYPE_AUTO (default) to
    #: NL_DTYPE_F8_E4M3]
    kv_dtype: Dtype | None
    #: Tokens a page, a power of two. [16 to 256; default 64]
    page_size: int | None
    #: Pages in the pool; 0 sizes the pool from the model and the memory that is free. [0 (default) to 2147483647]
    num_pages: int | None
    #: Longest context of a cache in tokens, at most the model's own; 0 takes the model's. Models with LongRoPE (Phi 3
    #: and 4) rotate contexts beyond their original one in another way: 0 takes the original context, a longer one the
    #: angles for long contexts, whatever a cache holds. [0 (default) to 2147483647]
    max_context: int | None
    #: Most tokens computed in one step: longer prefills are cut into slices. [1 to 65536; default 2048]
    max_batch_tokens: int | None
    #: Most conversations that get a token in one step. [1 to 4096; default 256]
    max_output_rows: int | None
    #: Milliseconds that a step may take which prefills beside running conversations; its slices of the prefill are cut
    #: to fit. 0 takes 25, or more where smaller slices would cost prefills over a tenth of their speed.
    #: [0 (default) to 1000000]
    step_ms: float | None
    #: Most requests that wait to be computed; one more is NL_ERROR_BUSY. [1 to 1048576; default 4096]
    queue_limit: int | None
    #: CPU threads; 0 takes the cores that the process may use. [0 (default) to 1024]
    threads: int | None
    #: 1: everything is made ready while the engine is created; 0: when it is needed first. [0 or 1 (default)]
    warm_up: bool | None
    #: 1: a token's logits do not depend on what else is computed in the same step, so a seeded or greedy answer is the
    #: same to the bit alone and beside any others, however prefills are sliced. 0: the fastest way for the number of
    #: rows is taken, and sums are rounded in another order. With 1, products are made in blocks of as many rows and
    #: attention neither splits a context nor reads a shared chunk once for several conversations. Answers are those of
    #: one device, library version and set of engine options, except the limits of a step and of the pool.
    #: [0 (default) or 1]
    batch_invariant: bool | None
    #: 1: on the CPU, weights that have the engine's dtype in their files are used where they lie: the files stay mapped
    #: while the engine lives, and one that is cut short or written to meanwhile ends the process (SIGBUS) or changes
    #: answers. 0: all weights are read into memory, and files may change as they like once the engine is there. A GPU
    #: has its own copy either way. [0 or 1 (default)]
    map_weights: bool | None
    #: 1: weights that are NaN or infinite are logged; 0: they are BAD_MODEL. [0 (default) or 1]
    allow_not_finite: bool | None
    #: 1: each phase of each step is timed, and when the engine is gone the log has a table (NL_LOG_INFO): milliseconds
    #: a step, GB/s, TFLOP/s, and the share of what the device's memory and its products can do at most, for steps that
    #: only decode and for the others. A GPU then runs one step at a time, which makes it slower; while an engine on
    #: the CPU is created, the speed of memory is measured (0.2 s). [0 (default) or 1]
    profile: bool | None
    #: 1: a conversation whose beginning is that of another one, now or before, takes over the whole pages of it that
    #: are still there instead of computing them, without being asked: the same chunks, then the same tokens.
    #: NL_CACHE_TOKENS_REUSED counts them. Pages that nobody uses count as free and are kept
    #: for this until others need them, at most as many as were ever in use at once. 0: everything that is not in a
    #: chunk is computed. Sums may be rounded in another order than where a conversation computes all by itself, unless
    #: NL_OPTION_BATCH_INVARIANT is 1. [0 or 1 (default)]
    share_prefixes: bool | None
    #: A folder where chunks are kept in files: those that are computed are written there by a thread of the library,
    #: and those that are asked for are looked for there before they are computed, by this engine, later ones, and other
    #: processes at the same time. It is made where there is none. A file fits engines as nl_chunk_save says; the first
    #: chunk waits until the weight files are read once more, which the folder remembers. Freeing an engine's last
    #: handle waits until its chunks are written. A file that is damaged is logged, removed and computed again, and
    #: where the folder can't be used, or the disk is full, that is logged and chunks are computed. Whoever may write to
    #: the folder decides what is read as the chunks' keys and values. [at most 4096 bytes; default empty: none]
    store_folder: str | bytes | None
    #: Most bytes of the chunk files in that folder; those used longest ago are removed. 0: no limit.
    #: [0 (default) to INT64_MAX]
    store_bytes: int | None
    #: Bytes of the host's memory, page-locked for a GPU, that are reserved while the engine is created: chunks that are
    #: evicted from the device's pages go there, and come back when they are asked for, which is faster than computing
    #: them. [0 (default) to INT64_MAX]
    host_bytes: int | None
    #: A Redis or Valkey server where chunks are kept for the engines of several machines, which so compute a document
    #: once: chunks that are computed are written there by a thread of the library, and those that neither the device
    #: nor the tiers above have are looked for there.
    #: The address is one of
    #:   redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]
    #:   rediss://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE][?ca=FILE&cert=FILE&key=FILE], encrypted by TLS 1.2 or newer
    #:   unix:PATH, a socket of this machine
    #: Characters of USER, PASSWORD and FILE that could be taken for parts of the address (such as : @ ? & %) are
    #: written as %XX, a byte as two hexadecimal digits.
    #: With rediss:// the server's certificate must name HOST and be signed by a certificate authority: one that the
    #: system trusts or, if ca is given, one whose certificate is in that file. This check can't be switched off. If the
    #: server asks its clients for a certificate, cert is a file with the engine's certificate, followed by the
    #: intermediate ones up to its authority, and key is a file with that certificate's private key, not encrypted. The
    #: three files have the PEM format. They are read when the engine is created, which fails if one of them can't be
    #: used, and again for each connection.
    #: The library loads libnanolith_redis.so, from the folder that it lies in itself, to talk to the server. If that
    #: file is missing, nl_engine_create fails with NOT_FOUND. If the address begins with rediss:// and the file was
    #: built without OpenSSL, nl_engine_create fails with UNSUPPORTED.
    #: A server that fails costs time, never a wrong answer. If the engine can't reach it, does not trust its
    #: certificate, gets no answer in time, or gets damaged bytes, or if the server has no memory left, the engine
    #: writes one line to the log, computes the chunk itself, and tries the server again a second later.
    #: Whoever can write to the server can replace the keys and values of chunks by others, and thereby change what
    #: engines answer. [at most 4096 bytes; default empty: no server]
    store_server: str | bytes | None
    #: Milliseconds that reading a chunk from that server, or writing it there, may take, beside resolving the host's
    #: name; then the chunk is computed, or not kept. [1 to 600000; default 1000]
    store_deadline_ms: int | None
    #: How weight matrices are kept in memory: with 16 bits or more a weight, or quantised to 8 or 4 bits while the
    #: model is loaded. Equal weights are always quantised to equal codes. Quantised weights take less memory. Decoding
    #: is faster with them than with 16-bit weights on a CPU, and for a few conversations on a Hopper GPU (compute
    #: capability 9.0). A step of more than about 100 tokens, such as a prefill's, takes up to a fifth longer with them
    #: on a Hopper GPU. On other GPUs no step is faster with them, because each product first converts its matrix to the
    #: engine's dtype.
    #: [NL_WEIGHTS_AUTO (default) to NL_WEIGHTS_FP8]
    weights: Weights | None


class CacheOptions(TypedDict, total=False):
    """Options of a cache. Since 0.2."""

    #: How chunks are composed. [NL_COMPOSE_EXACT (default), NL_COMPOSE_INDEPENDENT or NL_COMPOSE_BLENDED]
    composition: Composition | None
    #: For NL_COMPOSE_BLENDED: the largest part of the chunks' tokens that a cache recomputes; 0.1 is a tenth of them.
    #: Groups of four tokens are recomputed (a chunk's last group may have fewer), so that a limit of fewer than four
    #: tokens mostly recomputes none. 0 stands for 0.1. Since 0.2.
    #: [0 (default) to 1]
    blend_share: float | None


class SamplingOptions(TypedDict, total=False):
    """Options of drawing. Since 0.2.
    A token is drawn in three steps. First, the logits of single tokens are changed: biases are added and banned tokens
    are left out; the repetition, frequency and presence penalties change the logits of tokens that the context contains;
    DRY lowers those of tokens that would continue a repetition. Where there is a list of allowed tokens, all others are
    left out. Second, with temperature 0, the default, the token with the highest logit is taken, of equal ones that with
    the lowest id. Otherwise filters narrow the choice one after the other, each among the tokens that the filters before
    it kept. Their order is temperature, top-k, typical-p, top-p, min-p, XTC, or what NL_OPTION_FILTER says; Mirostat is
    always the last one. Filters keep or drop tokens of equal logits together, and always keep at least one. (llama.cpp's
    default order has temperature last, so that there it does not change which tokens are kept.) Third, the token is
    drawn from those that are left, by their probabilities.
    The draw depends only on the logits, these options, the seed, the position in the context and, where penalties, DRY
    or Mirostat are on, the tokens before it; not on what else the engine computes. Where penalties, DRY or Mirostat are
    on, a conversation's next step is planned only when its latest token is known; on a GPU the other conversations that
    share its steps wait for that too.
    """

    #: What logits are divided by. 0: greedy. [0 (default) to 3e38]
    temperature: float | None
    #: Keeps the k highest logits, and ties with the k-th. 0 keeps all. [0 (default) to 2147483647]
    top_k: int | None
    #: Keeps the most probable tokens until their share of what is left reaches p. 1 keeps all.
    #: [1e-30 to 1 (default)]
    top_p: float | None
    #: Keeps the tokens whose probability is at least this times that of the most probable one. 0 keeps all.
    #: [0 (default) to 1]
    min_p: float | None
    #: The seed of the random numbers that tokens are drawn with: all of its 64 bits count.
    #: [INT64_MIN to INT64_MAX; default 0]
    seed: int | None
    #: The logit of each token in the penalties' window (NL_OPTION_PENALTY_WINDOW) is divided by this where it is
    #: positive, else multiplied by it. 1: off. [0.001 to 1000; default 1]
    repetition_penalty: float | None
    #: Is subtracted from a token's logit once for each time that the token stands in the penalties' window.
    #: [-100 to 100; default 0]
    frequency_penalty: float | None
    #: Is subtracted once from the logit of each token in the penalties' window. [-100 to 100; default 0]
    presence_penalty: float | None
    #: The number of latest tokens of the context, prompt included, that the repetition, frequency and presence
    #: penalties look at. Drawing a token takes time in proportion to it. [1 to 2147483647; default 64]
    penalty_window: int | None
    #: A token, a colon, and what is added to the token's logit, from -1000000 to 1000000: "198:-2.5" or "13:100". Each
    #: token once.
    #: [each 3 to 64 bytes; default none]
    biased_tokens: Sequence[str | bytes] | None
    #: Tokens that are never drawn. [each 0 to 2147483647; default none]
    banned_tokens: Sequence[int] | None
    #: The only tokens that may be drawn. An end token is drawn only if it is one of them. None: all may be drawn.
    #: [each 0 to 2147483647; default none]
    allowed_tokens: Sequence[int] | None
    #: DRY ("don't repeat yourself"), as llama.cpp defines it. Where the context's latest n tokens occurred earlier in
    #: it, the token that followed them there would continue a repetition: multiplier * base ^ (n - allowed length) is
    #: subtracted from its logit, for the largest such n, if that is at least the allowed length. 0: off.
    #: [0 (default) to 1000000]
    dry_multiplier: float | None
    #: The factor by which DRY's penalty grows with each further repeated token. [1 to 100; default 1.75]
    dry_base: float | None
    #: The least number of repeated tokens that DRY penalises. [1 to 2147483647; default 2]
    dry_allowed_length: int | None
    #: The number of latest tokens of the context that DRY looks at. Drawing a token takes time in proportion to it.
    #: llama.cpp's default is the whole context. [1 to 2147483647; default 1024]
    dry_window: int | None
    #: Texts that end a repetition: DRY counts no tokens from before the last of them. If none is given they are a
    #: newline, ":", "\"" and "*"; one empty text alone means no breakers. Models without a tokenizer have none.
    #: [each 0 to 40 bytes; default none]
    dry_breakers: Sequence[str | bytes] | None
    #: XTC ("exclude top choices"), as llama.cpp defines it: with this probability a draw drops, of the tokens that are
    #: at least as probable as the threshold, all but the least probable one. 0: off. [0 (default) to 1]
    xtc_probability: float | None
    #: XTC's threshold, a probability. Above 0.5 nothing is dropped. [1e-30 to 1; default 0.1]
    xtc_threshold: float | None
    #: Keeps the tokens whose surprise, -log(probability), is nearest to the mean surprise, until their share reaches
    #: this number. 1 keeps all.
    #: [1e-30 to 1 (default)]
    typical_p: float | None
    #: Mirostat 2 (Basu et al., Mirostat, 2021): keeps the tokens whose surprise, -log2(probability), is at most a
    #: bound, or else the most probable one. This option is the surprise in bits that it aims at. The bound begins at
    #: twice that; after each draw it falls by eta * (surprise of the token - this target). It begins anew when sampling
    #: options are set, and when the cache is truncated or loaded; a fork continues with its cache's bound. 0: off.
    #: [0 (default) to 1000]
    mirostat_tau: float | None
    #: How fast Mirostat's bound follows the surprise of the tokens drawn. [1e-30 to 1; default 0.1]
    mirostat_eta: float | None
    #: The order in which filters are applied: NL_FILTER_*, each once at most. A filter that is left out must be off.
    #: None: temperature, top-k, typical-p, top-p, min-p, XTC. [each 1 to 6; default none]
    filters: Sequence[int] | None


class GenerationOptions(TypedDict, total=False):
    """Options of a generation. Since 0.2."""

    #: Most tokens to draw; 0: until the context is full. [0 (default) to 2147483647]
    max_tokens: int | None
    #: The least number of tokens to draw. Until so many are drawn, end tokens and stop tokens can't be drawn, and stop
    #: texts do not end it. A constrained text that can only end does so all the same. [0 (default) to 2147483647]
    min_tokens: int | None
    #: Tokens that end it, beside the model's end tokens. [each 0 to 2147483647; default none]
    stop_tokens: Sequence[int] | None
    #: 1: the model's own end tokens (nl_engine_is_end_token) end it. [0 or 1 (default)]
    end_tokens: bool | None
    #: Texts that end it; the text that it gives ends before them. [each 1 to 1024 bytes; default none]
    stop_texts: Sequence[str | bytes] | None
    #: Milliseconds from its start after which it ends; 0: none. [0 (default) to 2147483647]
    deadline_ms: int | None
    #: Higher ones are served first. [-100 to 100; default 0]
    priority: int | None
    #: Tokens that wait for nl_generation_next before the generation pauses. [1 to 1048576; default 1024]
    buffer_tokens: int | None
    #: 1: tokens are turned into text. 0: they are not, and stop texts are not allowed. [0 or 1 (default)]
    text: bool | None
    #: 1: the log-probability of each token drawn is kept, for nl_generation_logprobs. [0 (default) or 1]
    logprobs: bool | None
    #: How many most probable tokens are kept with their log-probabilities for each token drawn, for
    #: nl_generation_top_logprobs. More than 0 needs NL_OPTION_LOGPROBS to be 1. [0 (default) to 20]
    top_logprobs: int | None
    #: The text is one of these texts. [each 1 to 65536 bytes; default none]
    choices: Sequence[str | bytes] | None
    #: The whole text matches this regular expression, in ECMAScript's syntax. [0 to 1048576 bytes; default "", none]
    regex: str | bytes | None
    #: The text is JSON that satisfies this JSON schema. [0 to 1048576 bytes; default "", none]
    json_schema: str | bytes | None
    #: 1: the text is a JSON object. [0 (default) or 1]
    json_object: bool | None
    #: The whole text is derived from the rule `root` of this grammar, in llama.cpp's EBNF.
    #: [0 to 1048576 bytes; default "", none]
    grammar: str | bytes | None
    #: How many of the cache's last tokens are the beginning of the constrained text; the generation continues that
    #: text. The tokens given to nl_generation_start are appended to the cache first, and can be part of the beginning.
    #: It may be what an earlier generation drew before it ended early, in the same cache or in a fork of it, or words
    #: that the caller wants the text to begin with. NL_ERROR_INVALID_ARGUMENT if the constraint does not allow this
    #: beginning, or allows no token after it. [0 (default) to 2147483647]
    constrained_tokens: int | None
    #: 1: where the constraint leaves only one way to continue the text, such as the rest of a property's name, the
    #: model does not draw these characters. The tokenizer encodes them, and one step appends their tokens to the
    #: cache: at most 256, even if NL_OPTION_BUFFER_TOKENS is less. The model might have spelled the same characters
    #: with other tokens. Unless the text ends with these characters, the last of their tokens is not appended but
    #: drawn by the model, because a longer token may begin with the same characters. The logits callback is called
    #: for tokens that the model draws, not for those that are appended. NL_ERROR_INVALID_ARGUMENT if
    #: NL_OPTION_LOGPROBS is 1. [0 (default) or 1]
    jump_ahead: bool | None


#: The key of each of EngineOptions, and what it takes.
ENGINE_KEYS = {
    "device": (1, "text"),
    "dtype": (2, "int"),
    "kv_dtype": (3, "int"),
    "page_size": (4, "int"),
    "num_pages": (5, "int"),
    "max_context": (6, "int"),
    "max_batch_tokens": (7, "int"),
    "max_output_rows": (8, "int"),
    "step_ms": (9, "float"),
    "queue_limit": (10, "int"),
    "threads": (11, "int"),
    "warm_up": (12, "int"),
    "batch_invariant": (13, "int"),
    "map_weights": (14, "int"),
    "allow_not_finite": (15, "int"),
    "profile": (16, "int"),
    "share_prefixes": (17, "int"),
    "store_folder": (18, "text"),
    "store_bytes": (19, "int"),
    "host_bytes": (20, "int"),
    "store_server": (21, "text"),
    "store_deadline_ms": (22, "int"),
    "weights": (23, "int"),
}

#: The key of each of CacheOptions, and what it takes.
CACHE_KEYS = {
    "composition": (100, "int"),
    "blend_share": (101, "float"),
}

#: The key of each of SamplingOptions, and what it takes.
SAMPLING_KEYS = {
    "temperature": (200, "float"),
    "top_k": (201, "int"),
    "top_p": (202, "float"),
    "min_p": (203, "float"),
    "seed": (204, "int"),
    "repetition_penalty": (205, "float"),
    "frequency_penalty": (206, "float"),
    "presence_penalty": (207, "float"),
    "penalty_window": (208, "int"),
    "biased_tokens": (209, "text_list"),
    "banned_tokens": (210, "int_list"),
    "allowed_tokens": (211, "int_list"),
    "dry_multiplier": (212, "float"),
    "dry_base": (213, "float"),
    "dry_allowed_length": (214, "int"),
    "dry_window": (215, "int"),
    "dry_breakers": (216, "text_list"),
    "xtc_probability": (217, "float"),
    "xtc_threshold": (218, "float"),
    "typical_p": (219, "float"),
    "mirostat_tau": (220, "float"),
    "mirostat_eta": (221, "float"),
    "filters": (222, "int_list"),
}

#: The key of each of GenerationOptions, and what it takes.
GENERATION_KEYS = {
    "max_tokens": (300, "int"),
    "min_tokens": (301, "int"),
    "stop_tokens": (302, "int_list"),
    "end_tokens": (303, "int"),
    "stop_texts": (304, "text_list"),
    "deadline_ms": (305, "int"),
    "priority": (306, "int"),
    "buffer_tokens": (307, "int"),
    "text": (308, "int"),
    "logprobs": (309, "int"),
    "top_logprobs": (310, "int"),
    "choices": (315, "text_list"),
    "regex": (316, "text"),
    "json_schema": (317, "text"),
    "json_object": (318, "int"),
    "grammar": (319, "text"),
    "constrained_tokens": (320, "int"),
    "jump_ahead": (321, "int"),
}
