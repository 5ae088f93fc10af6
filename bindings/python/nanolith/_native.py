# Written by bindings/generate.py from include/nanolith/nanolith.h. Do not edit.
"""The functions of nanolith.h, as ctypes calls them."""

from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
)

from ._library import function

# Receives log lines. May be called from any thread, also from the library's own, but never from two
# at once for one engine. `message` is UTF-8, not terminated, and valid during the call only.
# The callback must not call the library. Since 0.1.
nl_log_callback = CFUNCTYPE(None, c_void_p, c_int32, c_void_p, c_size_t)
# Hears how far nl_engine_create has come: `done` grows from 0 to 1 while weights are loaded and the device is made
# ready. Called on the creating thread. Another value than 0 cancels: nl_engine_create returns CANCELLED. The callback
# must not call the library. Since 0.2.
nl_progress_callback = CFUNCTYPE(c_int32, c_void_p, c_double)
# Sees the logits from which a generation is about to draw a token, and may change them: `logits` has `num_logits`
# elements, the model's vocabulary, minus infinity for a token that must not be drawn. `tokens` are those of the whole
# cache, in order. What the generation's sampling options and its constraint do comes after it, on what it leaves, and
# so do log-probabilities. Both arrays are valid during the call only. Another value than 0 ends the generation:
# NL_END_CANCELLED. Logits that it leaves NaN or plus infinity, or all of them minus infinity, end it with
# INVALID_ARGUMENT.
# Called by the engine's own thread, for one row at a time, while all conversations of the engine wait; on a GPU the
# logits travel to the host and back. The callback must not call the library. Since 0.2.
nl_logits_callback = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t)

# The version of the library at run time, as "0.2.0". The string lives as long as the library. Since 0.1.
nl_version = function("nl_version", c_char_p)

# The version of the library at run time as NL_VERSION_NUMBER counts. Since 0.2.
nl_version_number = function("nl_version_number", c_int32)

# The name of a status, for example "NL_ERROR_OUT_OF_PAGES". Lives as long as the library. Since 0.1.
nl_status_name = function("nl_status_name", c_char_p, c_int32)

# One sentence about the calling thread's latest failed call: the argument, its value and what was
# expected. Never NULL. Valid until the same thread's next failed call or its end. At most 1,023 bytes; a longer
# sentence is cut. Since 0.1.
nl_last_error = function("nl_last_error", c_char_p)

# A number of the calling thread's latest failed call. NOT_FOUND where that error does not have it; INVALID_ARGUMENT
# where `value` is NULL. This function leaves the latest error as it is, also where it fails itself. Since 0.2.
nl_last_error_detail = function("nl_last_error_detail", c_int32, c_int32, POINTER(c_int64))

# Loads a model and reserves the page pool. `path` is a Hugging Face folder (config.json; model.safetensors, or its
# index and shards; tokenizer.json, tokenizer.model or tekken.json where there is one) or a GGUF file; where a model is
# split into several GGUF files, the first of them (NAME-00001-of-00003.gguf). `options` (of kind NL_OPTIONS_ENGINE;
# see "Options") may be NULL and may be freed as soon as the call returns. Blocks while the weights load. Files that
# change while they are loaded are IO; afterwards they may change, unless the CPU uses weights where they lie
# (NL_OPTION_MAP_WEIGHTS). Every weight is looked at: NaN and infinities are counted, logged and BAD_MODEL
# (NL_OPTION_ALLOW_NOT_FINITE). A tokenizer that is not supported is left out (and logged): the engine works on tokens.
# Since 0.1; nl_options and GGUF files since 0.2. Errors: INVALID_ARGUMENT, NOT_FOUND (a file or the device),
# BAD_MODEL, UNSUPPORTED, OUT_OF_MEMORY, DEVICE, CANCELLED (by the progress callback), IO.
nl_engine_create = function("nl_engine_create", c_int32, c_char_p, c_size_t, c_void_p, POINTER(c_void_p))

# Drops the handle; the engine lives on while chunks, caches, generations or tokenizers made from it do. Since 0.1.
nl_engine_free = function("nl_engine_free", None, c_void_p)

# Cancels all calls and generations that are under way on the engine, prefills of chunks among them: they end with
# CANCELLED (generations with NL_END_CANCELLED) when the step that runs now is over. What is asked for afterwards is
# not concerned. Of a tenant's handle: all of that tenant. Returns at once. Since 0.2.
nl_engine_cancel = function("nl_engine_cancel", c_int32, c_void_p)

# A further handle of the engine, for one of several tenants that must learn nothing of each other; `salt` is a name
# for the tenant, of 1 to 4096 bytes. It is used like the engine's own handle, and freed with nl_engine_free. Handles
# with the same salt are the same tenant.
# What a tenant computes is found again by that tenant alone: its chunks, in all tiers, and the beginnings of its
# conversations. The same tokens are computed and kept once for each tenant, and that takes as long as if no other
# tenant had them. Which of a tenant's chunks is evicted first does not depend on what others ask for; how soon pages
# run short, and how long work takes beside that of others, does.
# Chunks of the engine's own handle belong to no tenant, and every tenant may use them in caches and as predecessors of
# chunks. Chunks of another tenant are INVALID_ARGUMENT there.
# NL_ENGINE_CHUNKS and all facts with higher keys count what is the tenant's; those of the engine's own handle count
# everything. When the last handle, chunk and cache of a tenant is gone, its counts begin anew.
# Only the salt's SHA-256 is kept. Its first 16 hexadecimal digits begin the names of the tenant's files and of its
# keys on the store's server. Files of nl_chunk_save and nl_cache_save contain it, and are loaded by handles with the
# same salt alone.
# Since 0.2. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
nl_engine_tenant = function("nl_engine_tenant", c_int32, c_void_p, c_char_p, c_size_t, POINTER(c_void_p))

# Since 0.1.
nl_engine_query = function("nl_engine_query", c_int32, c_void_p, c_int32, POINTER(c_int64))

# A JSON object with all facts about an engine, as integers under their names in lower case ("vocab_size"), and with
# "tiers", an array of the places where the engine keeps chunks, the fastest first. A tier that the engine does not
# have is left out:
#     {"vocab_size": 512, ..., "saved_ms": 120,
#      "tiers": [{"tier": "device", "chunks": 3, "bytes": 98304, "hits": 5, "moves": 1,
#                 "levels": [{"level": 0, "chunks": 1, "bytes": 32768}, {"level": 1, ...}, {"level": 2, ...}]},
#                {"tier": "host", "chunks": ..., "bytes": ..., "hits": ..., "moves": ..., "levels": [...]},
#                {"tier": "files", "chunks": ..., "bytes": ..., "hits": ..., "moves": ...},
#                {"tier": "server", "hits": ..., "moves": ...}]}
# "hits": how many times a chunk was asked for and found in this tier. "moves": how many chunks were copied into this
# tier. Later versions may add members. The text may be longer at the next call, since numbers grow: 8192 bytes are
# enough for this version. Since 0.2.
nl_engine_describe = function("nl_engine_describe", c_int32, c_void_p, c_char_p, c_size_t, POINTER(c_size_t))

# What an engine has counted since it was made, in the text format of Prometheus (version 0.0.4):
# - pages in all, free and evictable;
# - chunks, bytes, hits and moves of each tier, and chunks computed and evicted;
# - requests that have had no step yet, and requests that have;
# - histograms of the time that a step takes, and of the rows in a step;
# - histograms of a generation's time to its first token, and of the time between two of its tokens;
# - how many generations ended, by reason.
# All names begin with "nanolith_"; later versions may add some. The text may be longer at the next call, since numbers
# grow: 16384 bytes are enough for this version. Since 0.2. Errors: INVALID_ARGUMENT for the handle of a tenant, since
# an engine's steps compute for all tenants together.
nl_engine_metrics = function("nl_engine_metrics", c_int32, c_void_p, c_char_p, c_size_t, POINTER(c_size_t))

# The device in words, for example "cpu (2 threads)" or "cuda:0 NVIDIA H200". Since 0.1.
nl_engine_device = function("nl_engine_device", c_int32, c_void_p, c_char_p, c_size_t, POINTER(c_size_t))

# Whether `token` ends an answer by the model's generation_config.json or config.json: *is_end is 1 or 0. Since 0.1.
nl_engine_is_end_token = function("nl_engine_is_end_token", c_int32, c_void_p, c_int32, POINTER(c_int32))

# The tokenizer of the engine's model folder. NOT_FOUND where the folder has none, UNSUPPORTED where it is of a kind
# that is not known here. Free the handle. Since 0.1.
nl_engine_tokenizer = function("nl_engine_tokenizer", c_int32, c_void_p, POINTER(c_void_p))

# A tokenizer alone, without loading weights, from a model folder or a GGUF file. In a folder it is read from
# tokenizer.json or, where there is none, from tokenizer.model (SentencePiece), else from tekken.json (Mistral). Where
# there are several, tokenizer.json is read, since chat models have their markers only in it. What
# tokenizer_config.json, special_tokens_map.json and added_tokens.json add is read too. Where a model is split into
# several GGUF files, name the first. A component that is not known is refused by its name: no text is tokenized
# approximately. Since 0.1; GGUF files since 0.2. Errors: NOT_FOUND, BAD_MODEL, UNSUPPORTED, OUT_OF_MEMORY.
nl_tokenizer_load = function("nl_tokenizer_load", c_int32, c_char_p, c_size_t, POINTER(c_void_p))

# Since 0.1.
nl_tokenizer_free = function("nl_tokenizer_free", None, c_void_p)

# Text to tokens, at most 64 MiB in one call. Invalid UTF-8 is read as U+FFFD, one for each maximal
# ill-formed part. Symbols that the tokenizer's files define (for example "<|user|>") are recognised inside
# the text. Takes up to 16 bytes of memory for a byte of text (of its U+FFFD, where it is invalid). A text of a
# tokenizer.model with a run of over 64 KiB that can't be cut without changing its tokens is INVALID_ARGUMENT. Since
# 0.1.
nl_tokenizer_encode = function(
    "nl_tokenizer_encode",
    c_int32,
    c_void_p,
    c_char_p,
    c_size_t,
    c_uint32,
    POINTER(c_int32),
    c_size_t,
    POINTER(c_size_t),
)

# Tokens to text; control tokens give no text. Always valid UTF-8: ill-formed bytes become U+FFFD. Since 0.1.
nl_tokenizer_decode = function(
    "nl_tokenizer_decode",
    c_int32,
    c_void_p,
    POINTER(c_int32),
    c_size_t,
    c_char_p,
    c_size_t,
    POINTER(c_size_t),
)

# Since 0.1.
nl_tokenizer_query = function("nl_tokenizer_query", c_int32, c_void_p, c_int32, POINTER(c_int64))

# The token written exactly so in the vocabulary (for example "<|user|>"), or NOT_FOUND. Since 0.1.
nl_tokenizer_find = function("nl_tokenizer_find", c_int32, c_void_p, c_char_p, c_size_t, POINTER(c_int32))

# The vocabulary's spelling of a token; of byte tokens "<0x41>", of control tokens their name. Since 0.1.
nl_tokenizer_piece = function("nl_tokenizer_piece", c_int32, c_void_p, c_int32, c_char_p, c_size_t, POINTER(c_size_t))

# Turns tokens into text one by one and never splits a UTF-8 character: bytes of an unfinished one wait
# for the next token. What push and finish give, put together, is what nl_tokenizer_decode gives.
# A stream is not for two threads at once. It keeps its tokenizer alive. Since 0.1.
nl_text_stream_create = function("nl_text_stream_create", c_int32, c_void_p, POINTER(c_void_p))

# Since 0.1.
nl_text_stream_free = function("nl_text_stream_free", None, c_void_p)

# The text that `token` completes, if any. After BUFFER_TOO_SMALL the same token may be pushed again. Since 0.1.
nl_text_stream_push = function("nl_text_stream_push", c_int32, c_void_p, c_int32, c_char_p, c_size_t, POINTER(c_size_t))

# What still waits, as U+FFFD where it is ill-formed; the stream is then as new. Since 0.1.
nl_text_stream_finish = function("nl_text_stream_finish", c_int32, c_void_p, c_char_p, c_size_t, POINTER(c_size_t))

# How a chat model wants its messages: with which tokens around them, and in which order. `name` is one of
# "chatml" (Qwen and many others), "llama-2", "llama-3", "llama-3.1" (3.2 and 3.3 too), "mistral-v1",
# "mistral-v3", "mistral-v7", "ernie", "gemma", "phi-3", "phi-4-mini", "phi-4" and "plain" (for models without
# roles: the tokens that NL_ENCODE_ADD_SPECIAL puts first, then the messages' texts joined as they are).
# With name_length 0 (`name` may be NULL then) it is the format of the model folder that the tokenizer is from: its
# chat template, which is run (since 0.2). Where one of the formats above gives the same tokens for a list of chats
# (with and without a system prompt, of one turn and of several, with thoughts, odd white space and empty messages) it
# stands for the template, since it splits a chat into finer parts. The handle keeps the tokenizer alive. Since 0.1.
# Errors: INVALID_ARGUMENT (no such name), NOT_FOUND (the folder has no chat template), UNSUPPORTED (its template has
# something that is not supported here, which the message names: format the text yourself and encode it; or the
# tokenizer lacks a token of the format).
nl_chat_format_create = function("nl_chat_format_create", c_int32, c_void_p, c_char_p, c_size_t, POINTER(c_void_p))

# Since 0.1.
nl_chat_format_free = function("nl_chat_format_free", None, c_void_p)

# The format's name; "template" where the folder's template is run, which is none of the known ones. Since 0.1.
nl_chat_format_name = function("nl_chat_format_name", c_int32, c_void_p, c_char_p, c_size_t, POINTER(c_size_t))

# The tokens of a chat of `num_messages` messages, at least one: message i is of roles[i] (NL_ROLE_*) and says
# contents[i], which has content_lengths[i] bytes (NULL with 0). They are the tokens that Transformers gets from the
# model folder's own template, but for what contents may not do. The beginning-of-sequence token is among them where
# the format wants it.
# Contents are text and nothing else: special tokens written in them are not read, so nobody can end a message
# or take a role by writing its marks, whatever a template does with the text. Where a format's marks are not tokens
# of the vocabulary ("[INST]" in "llama-2" and some "mistral-v1"; in other templates what is written as "<|name|>",
# "[NAME]" or "<<NAME>>"), contents that have them are INVALID_ARGUMENT. Labels that are words, such as "User:" and
# "Assistant:" of "ernie", may stand in contents: only a model that has its marks as tokens tells them apart. Tokens
# that are not special and come in pairs ("<think>" and "</think>") are read in contents, as Transformers does.
# ends[i] (`ends` may be NULL, else it has room for num_messages) receives where message i's part of the tokens
# ends; it begins where the part before it ends, the first one at 0, and the generation prompt follows the last
# one. So a chat splits into chunks along its messages. A system prompt and documents are prefilled once and
# found again by every chat that has them, whatever follows:
#     roles = {NL_ROLE_SYSTEM, NL_ROLE_USER (a document), NL_ROLE_USER (another), NL_ROLE_USER (the question)}
#     nl_chat_format_render(format, roles, contents, lengths, 4, NL_CHAT_ADD_GENERATION_PROMPT, ends, tokens, ...)
#     nl_chunk_prefill(engine, tokens, ends[0], NL_LEVEL_SYSTEM, NULL, 0, &chunks[0])      the system prompt
#     nl_chunk_prefill(engine, tokens + ends[0], ends[1] - ends[0], NL_LEVEL_CONTEXT, NULL, 0, &chunks[1])  a document
#     nl_chunk_prefill(engine, tokens + ends[1], ends[2] - ends[1], NL_LEVEL_CONTEXT, NULL, 0, &chunks[2])  another
#     nl_cache_create(engine, NULL, chunks, 3, &cache)
#     nl_generation_start(cache, tokens + ends[2], count - ends[2], NULL, &generation)     after what is new
# (examples/chat_messages.c does this.) nl_chunk_prefill gives chunks that are in the store again at no cost.
# Parts may be empty (skip those).
# Formats in which user and assistant take turns ("llama-2", "mistral-*", "gemma") take messages of one role in
# a row for one, with an empty line between; system messages stand first there, and but for "mistral-v7" inside
# the first user's message ("mistral-v3": the last one's, so that the system prompt has no part of its own).
# Where two parts meet inside a text, a token that both have a share in belongs to the latter.
# Where the folder's template is run, parts end where its loop over the messages has done with one. Messages that
# have no turn in such a loop (a system prompt, in many) have what is written before the next one's turn. A template
# may look ahead, so that the parts of a chat change with what follows; those of the formats above do not.
# "llama-3.1" writes the date 26 Jul 2024, whatever the day, and so does the template of Llama 3.1. Templates that ask
# for the day (those of Llama 3.2 and 3.3 do) get that of the system's clock; nl_chat_format_render_json takes another.
# A Qwen3 model answers without thinking first where the encoded text "<think>\n\n</think>\n\n" follows the
# generation prompt.
# By name, "mistral-v3" and "mistral-v7" write the spaces of the vocabulary at hand: one before a message's first word
# with SentencePiece, none with Tekken. "phi-3" and "phi-4-mini" end with the end-of-sequence token where no generation
# prompt is asked for. Since 0.1.
# Errors: INVALID_ARGUMENT (also for messages that the format has no place for: it says which), UNSUPPORTED (the
# folder's template needs what is not supported, or takes more steps or memory than a template may),
# BUFFER_TOO_SMALL.
nl_chat_format_render = function(
    "nl_chat_format_render",
    c_int32,
    c_void_p,
    POINTER(c_int32),
    POINTER(c_char_p),
    POINTER(c_size_t),
    c_size_t,
    c_uint32,
    POINTER(c_size_t),
    POINTER(c_int32),
    c_size_t,
    POINTER(c_size_t),
)

# The tokens of a chat that is a JSON object of at most 64 MiB, with all that a template may take:
#     {"messages": [{"role": "user", "content": "Where is it?"}, {"role": "assistant", "tool_calls": [...]}, ...],
#      "tools": [{"type": "function", "function": {"name": "find", ...}}],
#      "documents": [{"title": "Lamps", "text": "..."}],
#      "date": "2024-07-26",
#      "variables": {"enable_thinking": false}}
# The messages are handed to the template as they are: which roles and members there are is between the template and
# its caller. Roles are of letters, digits, '-' and '_'; every other text in the object is read as contents are (see
# nl_chat_format_render). `date` is the day that the template is told, or "2024-07-26T15:06:07"; without it, that of
# the system's clock. `variables` are further names that the template knows, as the keyword arguments of Transformers'
# apply_chat_template. All but `messages` may be left out.
# A format that is named, and no folder's template, has no place for tools, documents and variables, nor for messages
# with more than a role (system, user, assistant) and a text. Since 0.2.
# Errors: as nl_chat_format_render; INVALID_ARGUMENT for JSON that is not well-formed names the byte.
nl_chat_format_render_json = function(
    "nl_chat_format_render_json",
    c_int32,
    c_void_p,
    c_char_p,
    c_size_t,
    c_uint32,
    POINTER(c_size_t),
    c_size_t,
    POINTER(c_int32),
    c_size_t,
    POINTER(c_size_t),
)

# A conversation's context, which begins with `num_chunks` chunks in the given order (NULL and 0: none; see "Chunks").
# The same chunk may stand in it twice. `options` (of kind NL_OPTIONS_CACHE) may be NULL. Blocks only where exact
# composition must compute. Since 0.1; nl_options since 0.2.
nl_cache_create = function(
    "nl_cache_create",
    c_int32,
    c_void_p,
    c_void_p,
    POINTER(c_void_p),
    c_size_t,
    POINTER(c_void_p),
)

# Ends the conversation: private pages go back, each chunk loses one user. A generation upon it goes on, and keeps
# what it needs. Netlink's libnl-3 has a function of this name as well; so that a process may use both, programs that
# are linked to this library reach it by another symbol. Since 0.1.
nl_cache_free = function("nl_nanolith_cache_free", None, c_void_p)

# Appends tokens and computes them. With num_tokens 0 it does nothing. Since 0.1.
# Errors: INVALID_ARGUMENT, OUT_OF_PAGES, CONTEXT_FULL, OUT_OF_MEMORY, DEVICE, BUSY, CANCELLED.
nl_cache_extend = function("nl_cache_extend", c_int32, c_void_p, POINTER(c_int32), c_size_t)

# Extends the cache as nl_cache_extend does, and gives the log-probability (natural logarithm) of each of these tokens
# after all tokens before it: *count is num_tokens. The first token of an empty cache has no log-probability: its place
# gets NaN. The log-probabilities are those of the model's own distribution, which sampling options do not change. To
# rank several continuations of one context, fork the cache for each. One step scores at most NL_OPTION_MAX_OUTPUT_ROWS
# tokens. All tokens are computed, also where pages of other conversations could be shared (NL_OPTION_SHARE_PREFIXES).
# With BUFFER_TOO_SMALL nothing is added to the cache. Since 0.2.
# Errors: those of nl_cache_extend, BUFFER_TOO_SMALL.
nl_cache_score = function(
    "nl_cache_score",
    c_int32,
    c_void_p,
    POINTER(c_int32),
    c_size_t,
    POINTER(c_float),
    c_size_t,
    POINTER(c_size_t),
)

# Extends the cache as nl_cache_extend does, and gives the log-probability (natural logarithm) of each of these
# candidates as the token after the last one: *count is num_candidates, and logprobs[i] is of candidates[i]. They are
# of the model's own distribution, before all sampling options. With num_tokens 0 nothing is added, and the cache must
# not be empty. With BUFFER_TOO_SMALL nothing is added either.
# So a reranker that answers yes or no is asked, in one call for each document behind its question:
#     int32_t candidates[] = {yes, no};
#     float logprobs[2];
#     nl_cache_score_next(cache, tokens, num_tokens, candidates, 2, logprobs, 2, &count);
#     double relevance = 1 / (1 + exp(logprobs[1] - logprobs[0]));     the share of yes among yes and no
# Since 0.2. Errors: those of nl_cache_extend, BUFFER_TOO_SMALL, BAD_MODEL (logits that are NaN).
nl_cache_score_next = function(
    "nl_cache_score_next",
    c_int32,
    c_void_p,
    POINTER(c_int32),
    c_size_t,
    POINTER(c_int32),
    c_size_t,
    POINTER(c_float),
    c_size_t,
    POINTER(c_size_t),
)

# Extends the cache as nl_cache_extend does, and gives hidden states: what the model's final norm makes of the last
# layer's output, as `last_hidden_state` is in Transformers. A vector has NL_ENGINE_HIDDEN_SIZE float32 numbers, and
# *count is the number of all numbers: those of one vector, or of num_tokens vectors with NL_POOLING_NONE. `pooling` is
# one of NL_POOLING_*, `flags` NL_EMBED_* added together or 0.
# What the cache holds already, chunks among it, is in view of these tokens and is not computed again. With
# NL_POOLING_LAST that is so for what other conversations have computed too (NL_OPTION_SHARE_PREFIXES), and with
# num_tokens 0 the vector is that of the cache's last token, for which the cache must not be empty; with the others all
# of these tokens are computed. No logits are, and nothing is drawn. The model's template of a text to embed, as a
# prompt before it or an end token behind it, is the caller's matter. With BUFFER_TOO_SMALL nothing is added to the
# cache. Many texts at once are many caches and threads: their rows are computed in the same steps.
# Since 0.2. Errors: those of nl_cache_extend, BUFFER_TOO_SMALL, BAD_MODEL (a state that is NaN or infinite).
nl_cache_embed = function(
    "nl_cache_embed",
    c_int32,
    c_void_p,
    POINTER(c_int32),
    c_size_t,
    c_int32,
    c_uint32,
    POINTER(c_float),
    c_size_t,
    POINTER(c_size_t),
)

# A second cache with the same context and sampling options. Full pages are shared, and a page that both
# would write is copied when one of them does. Both draw the same tokens until an option or a token differs. Since 0.1.
nl_cache_fork = function("nl_cache_fork", c_int32, c_void_p, POINTER(c_void_p))

# Keeps the first `num_tokens` tokens, at most what the cache holds, and forgets the rest. Since 0.1.
nl_cache_truncate = function("nl_cache_truncate", c_int32, c_void_p, c_size_t)

# All tokens of the context, chunks first. While the cache is generating: those that are final now. Since 0.1.
nl_cache_tokens = function("nl_cache_tokens", c_int32, c_void_p, POINTER(c_int32), c_size_t, POINTER(c_size_t))

# Sets how this cache draws from now on. `options` are of kind NL_OPTIONS_SAMPLING and are copied. Since 0.2.
nl_cache_set_sampling = function("nl_cache_set_sampling", c_int32, c_void_p, c_void_p)

# Cancels what is under way on this cache: an nl_cache_extend, nl_cache_logits or nl_decode_step returns CANCELLED (the
# latter for all of its caches), and a generation ends with NL_END_CANCELLED, when the step that runs now is over.
# Where nothing is under way it does nothing. Returns at once. Since 0.2.
nl_cache_cancel = function("nl_cache_cancel", c_int32, c_void_p)

# Since 0.1.
nl_cache_query = function("nl_cache_query", c_int32, c_void_p, c_int32, POINTER(c_int64))

# A JSON object with all facts about a cache, as integers under their names in lower case ("private_pages").
# 1024 bytes are enough for this version; later ones may add members. Since 0.2.
nl_cache_describe = function("nl_cache_describe", c_int32, c_void_p, c_char_p, c_size_t, POINTER(c_size_t))

# Appends `num_tokens` tokens to the cache (NULL and 0: none; the cache must not be empty then) and starts to generate
# the tokens that follow, in the same steps as the engine's other work. Returns at once; nl_generation_next gives what
# was drawn. How tokens are drawn is the cache's matter (nl_cache_set_sampling), when to end and the rest that of
# `options`, of kind NL_OPTIONS_GENERATION; NULL takes every default.
# The tokens drawn become part of the cache, the one that ended it included. What a stop text cuts off from the text
# stays in the cache as tokens: nl_cache_tokens and nl_cache_truncate serve those who do not want it.
# Until the generation has ended its cache gives BUSY to nl_cache_extend, nl_cache_fork, nl_cache_truncate,
# nl_cache_logits, nl_cache_set_sampling, nl_decode_step and a second generation; nl_cache_query and nl_cache_tokens
# tell what is final so far. Freeing the cache's handle does not end the generation. Since 0.2.
# Errors: INVALID_ARGUMENT, CONTEXT_FULL, OUT_OF_MEMORY, UNSUPPORTED (stop texts or a constraint where the model
# has no tokenizer; a constraint that can't be granted in full), BUSY (the cache is generating,
# or as many requests wait as NL_OPTION_QUEUE_LIMIT allows).
nl_generation_start = function(
    "nl_generation_start",
    c_int32,
    c_void_p,
    POINTER(c_int32),
    c_size_t,
    c_void_p,
    POINTER(c_void_p),
)

# The next piece of a generation. Waits until there is a token, some text or the end, but for `timeout_ms`
# milliseconds at most (0: not at all; negative: for ever); then TIMEOUT.
# - tokens: up to token_capacity of those drawn, as they are ready; *num_tokens is how many. With `tokens` NULL and
#   token_capacity 0 tokens are not wanted: they are dropped, and `num_tokens` may be NULL.
# - text: what the tokens say, up to text_capacity bytes (4 or more), always whole UTF-8 characters; *text_length is
#   how long it is. Text that may yet become a stop text is held back. With `text` NULL and text_capacity 0 text is not
#   wanted: it is dropped, and `text_length` may be NULL.
# - *end is NL_END_NONE while more may come, else why it ended; only when all that came before has been given. A call
#   after that gives the end again.
# What does not fit waits for the next call (there is no BUFFER_TOO_SMALL here); a reader who lets more than
# NL_OPTION_BUFFER_TOKENS tokens wait makes his generation pause, and no other. Tokens and text go their own ways: a
# token may be given before or after its text. Calls on one generation take turns.
# Where the generation ended by an error, the call that would give the end returns that error's status, with its
# sentence and its details, and *end is NL_END_ERROR. Since 0.2.
# Errors: INVALID_ARGUMENT, TIMEOUT, and what ended the generation.
nl_generation_next = function(
    "nl_generation_next",
    c_int32,
    c_void_p,
    c_int64,
    POINTER(c_int32),
    c_size_t,
    POINTER(c_size_t),
    c_char_p,
    c_size_t,
    POINTER(c_size_t),
    POINTER(c_int32),
)

# Log-probabilities (natural logarithm) of the tokens that the latest call of nl_generation_next on this generation
# gave, in order: *count is their number. They are those of the model's own distribution, which penalties, temperature
# and all other sampling options do not change. INVALID_ARGUMENT unless the generation was started with
# NL_OPTION_LOGPROBS. Since 0.2.
# Errors: INVALID_ARGUMENT, BUFFER_TOO_SMALL, OUT_OF_MEMORY.
nl_generation_logprobs = function(
    "nl_generation_logprobs",
    c_int32,
    c_void_p,
    POINTER(c_float),
    c_size_t,
    POINTER(c_size_t),
)

# The most probable tokens, with their log-probabilities, in the place of each token that the latest call of
# nl_generation_next on this generation gave: for each of those tokens in order NL_OPTION_TOP_LOGPROBS elements, the
# most probable first. *count is the number of all elements. INVALID_ARGUMENT unless the generation was started with
# NL_OPTION_LOGPROBS. Since 0.2.
# Errors: INVALID_ARGUMENT, BUFFER_TOO_SMALL, OUT_OF_MEMORY.
nl_generation_top_logprobs = function(
    "nl_generation_top_logprobs",
    c_int32,
    c_void_p,
    POINTER(c_int32),
    POINTER(c_float),
    c_size_t,
    POINTER(c_size_t),
)

# Ends the generation when the step that runs now is over; what it has drawn can still be fetched, and the end is then
# NL_END_CANCELLED. Does nothing where it has ended. Returns at once, also while another thread waits in
# nl_generation_next. Since 0.2.
nl_generation_cancel = function("nl_generation_cancel", c_int32, c_void_p)

# Cancels the generation where it still runs, and drops the handle. Returns at once, but for a call of its logits
# callback that is under way. Since 0.2.
nl_generation_free = function("nl_generation_free", None, c_void_p)

# Since 0.2.
nl_generation_query = function("nl_generation_query", c_int32, c_void_p, c_int32, POINTER(c_int64))

# A file descriptor to poll, select or epoll: readable while nl_generation_next would return without waiting. It
# belongs to the generation (the same at every call; closed with it): do not read from it, write to it or close it.
# Since 0.2.
# Errors: IO (the process has no descriptors left).
nl_generation_descriptor = function("nl_generation_descriptor", c_int32, c_void_p, POINTER(c_int32))

# Prefills `num_tokens` tokens (at least 1) into pages of their own. `level` is one of NL_LEVEL_*; when pages run
# short, chunks that no handle and no cache uses are evicted from NL_LEVEL_QUERY first, from NL_LEVEL_SYSTEM last, and
# within a level as nl_chunk_set_priority says.
# The tokens are computed with the `num_before` chunks of `before` in view, in that order (each as it is
# stored); NULL and 0 compute them alone. A chunk with the same tokens after the same chunks that is
# still in the store is returned again at no cost (and keeps the lower of the two levels). Blocks until
# it is computed. Since 0.1.
# Errors: INVALID_ARGUMENT, OUT_OF_PAGES, CONTEXT_FULL, OUT_OF_MEMORY, DEVICE, BUSY (too many requests wait),
# CANCELLED.
nl_chunk_prefill = function(
    "nl_chunk_prefill",
    c_int32,
    c_void_p,
    POINTER(c_int32),
    c_size_t,
    c_int32,
    POINTER(c_void_p),
    c_size_t,
    POINTER(c_void_p),
)

# A second handle for the same chunk, to be freed on its own. Since 0.1.
nl_chunk_retain = function("nl_chunk_retain", c_int32, c_void_p, POINTER(c_void_p))

# Since 0.1.
nl_chunk_free = function("nl_chunk_free", None, c_void_p)

# Since 0.1.
nl_chunk_query = function("nl_chunk_query", c_int32, c_void_p, c_int32, POINTER(c_int64))

# Sets a chunk's priority, from NL_PRIORITY_LOWEST to NL_PRIORITY_PINNED. When pages run short, chunks of the highest
# level that nothing uses are evicted first, among these the ones of the lowest priority, and among these the ones that
# are cheapest to recompute for their size and were used longest ago. A pinned chunk stays in the device's pages until
# another priority is set, through any handle of the chunk, or until the engine is gone. The same order holds in the
# host's memory. Files do not keep a priority.
# Since 0.2. Errors: INVALID_ARGUMENT.
nl_chunk_set_priority = function("nl_chunk_set_priority", c_int32, c_void_p, c_int32)

# Saves a chunk to the file at `path`, in place of one that is there, with its keys and values: nl_chunk_load has it
# again without computing it, in another process or on another machine. The file is whole or not there: it is written
# under another name in the same folder, brought to the disk, and then named. It fits engines with the same weights,
# tokenizer, dtype, KV_DTYPE and PAGE_SIZE, on whatever device. The first such call of an engine, or of nl_cache_save,
# nl_chunk_load or nl_cache_load, reads the model's weight files once more, which must be as they were when they were
# loaded. Since 0.2.
# Errors: INVALID_ARGUMENT, IO, OUT_OF_MEMORY, DEVICE, UNSUPPORTED (it comes after so many chunks that their tokens
# take over 256 MiB).
nl_chunk_save = function("nl_chunk_save", c_int32, c_void_p, c_char_p, c_size_t)

# The chunk of a file that nl_chunk_save wrote, at the level that it had. One that the store has already is returned
# and not read again. Nothing is computed: NL_CHUNK_TOKENS_COMPUTED is 0. A file may come from anybody: every byte of
# it is checked for damage, though not for malice: whoever may write it decides what is read as the chunk's keys and
# values. Since 0.2. Errors: INVALID_ARGUMENT, NOT_FOUND, BAD_FILE (which says what is wrong: it is damaged, holds a
# conversation, or was made with other weights, another tokenizer or other options), UNSUPPORTED (another version of
# the format), CONTEXT_FULL, OUT_OF_PAGES, OUT_OF_MEMORY, DEVICE, IO.
nl_chunk_load = function("nl_chunk_load", c_int32, c_void_p, c_char_p, c_size_t, POINTER(c_void_p))

# Saves a conversation to the file at `path` as nl_chunk_save saves a chunk: its chunks, the tokens of them that
# NL_COMPOSE_BLENDED has recomputed, its own tokens, all their keys and values, how it draws tokens, and the token that
# it draws next where that is known. Since 0.2.
# Errors: as nl_chunk_save, and BUSY (it is generating).
nl_cache_save = function("nl_cache_save", c_int32, c_void_p, c_char_p, c_size_t)

# The conversation of a file that nl_cache_save wrote. It goes on as if it had never been away: extending it computes
# the new tokens alone. Its chunks go into the store, where other caches find them; chunks that the store has already
# are shared with it and not read from the file. The keys and values that NL_COMPOSE_BLENDED has recomputed for some
# tokens of the chunks are read from the file; other caches with the same chunks in the same order use them too.
# Since 0.2.
# Errors: as nl_chunk_load.
nl_cache_load = function("nl_cache_load", c_int32, c_void_p, c_char_p, c_size_t, POINTER(c_void_p))

# Options of one kind with every default set, to be changed one by one:
#     nl_options_create(NL_OPTIONS_SAMPLING, &options);
#     nl_options_set_float(options, NL_OPTION_TEMPERATURE, 0.7);
#     nl_options_set_int(options, NL_OPTION_SEED, 42);
#     nl_cache_set_sampling(cache, options);
# Functions that take options copy them: the same may be used again, changed, and freed at any time. Not thread-safe
# against their own setters. Since 0.2.
nl_options_create = function("nl_options_create", c_int32, c_int32, POINTER(c_void_p))

# Since 0.2.
nl_options_free = function("nl_options_free", None, c_void_p)

# Set one option, an NL_OPTION_* of the options' kind, by the function for what it takes. A value out of the option's
# bounds is INVALID_ARGUMENT, and so are a key of another kind and an option that takes something else; the option is
# then as before. An option that is a list gets one element more, up to 1,024 of them. Since 0.2.
nl_options_set_int = function("nl_options_set_int", c_int32, c_void_p, c_int32, c_int64)

# As nl_options_set_int. Since 0.2.
nl_options_set_float = function("nl_options_set_float", c_int32, c_void_p, c_int32, c_double)

# As nl_options_set_int. Since 0.2.
nl_options_set_text = function("nl_options_set_text", c_int32, c_void_p, c_int32, c_char_p, c_size_t)

# Tell what an option is now. `index` is which element of a list, below nl_options_get_count; 0 for other options.
# Since 0.2.
nl_options_get_int = function("nl_options_get_int", c_int32, c_void_p, c_int32, c_size_t, POINTER(c_int64))

# As nl_options_get_int. Since 0.2.
nl_options_get_float = function("nl_options_get_float", c_int32, c_void_p, c_int32, c_size_t, POINTER(c_double))

# As nl_options_get_int. Since 0.2.
nl_options_get_text = function(
    "nl_options_get_text",
    c_int32,
    c_void_p,
    c_int32,
    c_size_t,
    c_char_p,
    c_size_t,
    POINTER(c_size_t),
)

# How many elements a list has; 1 for an option that is no list. Since 0.2.
nl_options_get_count = function("nl_options_get_count", c_int32, c_void_p, c_int32, POINTER(c_size_t))

# Gives an option its default again; lists become empty. Since 0.2.
nl_options_reset = function("nl_options_reset", c_int32, c_void_p, c_int32)

# Where an engine's log lines go; NULL (default) drops them. `user_data` is handed through untouched, the last time
# when the engine's last handle is freed. Options of kind NL_OPTIONS_ENGINE alone. Since 0.2.
nl_options_set_log = function("nl_options_set_log", c_int32, c_void_p, nl_log_callback, c_void_p)

# Who hears about progress; NULL (default): nobody. Options of kind NL_OPTIONS_ENGINE alone. Since 0.2.
nl_options_set_progress = function("nl_options_set_progress", c_int32, c_void_p, nl_progress_callback, c_void_p)

# Who changes logits; NULL (default): nobody. Options of kind NL_OPTIONS_GENERATION alone. `user_data` is handed
# through untouched, the last time before the generation's end can be fetched or its nl_generation_free returns, which
# waits for a call that is under way. Since 0.2.
nl_options_set_logits = function("nl_options_set_logits", c_int32, c_void_p, nl_logits_callback, c_void_p)

# For programs that choose tokens themselves or bring their own loop; all others start generations.
# Draws one token for each of `num_caches` caches in one batch, appends it to its cache and writes it to
# tokens[i]. The caches must be different, of one engine, and not empty. Either all of them advance or,
# on an error, none. From the third such call in a row on, a cache's token may have been computed since the call
# before. Since 0.1.
# Errors: INVALID_ARGUMENT, OUT_OF_PAGES, CONTEXT_FULL (NL_DETAIL_INDEX is which cache), OUT_OF_MEMORY, DEVICE, BUSY,
# CANCELLED.
nl_decode_step = function("nl_decode_step", c_int32, POINTER(c_void_p), c_size_t, POINTER(c_int32))

# The float32 logits for the token after the last one, NL_ENGINE_VOCAB_SIZE of them. The cache must not be empty.
# Since 0.1.
nl_cache_logits = function("nl_cache_logits", c_int32, c_void_p, POINTER(c_float), c_size_t, POINTER(c_size_t))

# What the Hugging Face folder or GGUF file at `path` is and what of it can be used, without loading weights. "model",
# "tokenizer" and "chat format" are among the names, each "supported" (or the format's name), or "none", "not
# supported" or "not usable" and the reason, which names the file, the field or tensor, its value and what is
# supported. A part that can't be used is no error of this call. An engine on CUDA may refuse what the CPU computes.
# `format` is one of NL_DESCRIBE_*. Since 0.1; `format` and GGUF files since 0.2. Errors: INVALID_ARGUMENT, NOT_FOUND
# (no such folder or file), BUFFER_TOO_SMALL, OUT_OF_MEMORY.
nl_model_describe = function(
    "nl_model_describe",
    c_int32,
    c_char_p,
    c_size_t,
    c_int32,
    c_char_p,
    c_size_t,
    POINTER(c_size_t),
)

# The options of a kind (NL_OPTIONS_*) as a JSON array of objects, in the order of their keys: "name" ("PAGE_SIZE"),
# "key", "type" ("int", "float", "text", "int list" or "text list"), "least", "most" (of texts: bytes), "default" (of
# lists: an empty array) and "doc", one sentence. Since 0.2.
nl_option_describe = function("nl_option_describe", c_int32, c_int32, c_char_p, c_size_t, POINTER(c_size_t))

# Bounds and default of an option that takes integers or a list of them (whose default is 0 and means nothing).
# Since 0.2.
nl_option_bounds_int = function(
    "nl_option_bounds_int",
    c_int32,
    c_int32,
    POINTER(c_int64),
    POINTER(c_int64),
    POINTER(c_int64),
)

# Bounds and default of an option that takes floats. Since 0.2.
nl_option_bounds_float = function(
    "nl_option_bounds_float",
    c_int32,
    c_int32,
    POINTER(c_double),
    POINTER(c_double),
    POINTER(c_double),
)

# The facts of a kind (NL_FACTS_*) as a JSON array of objects, in the order of their keys: "name" ("PAGE_SIZE"), "key",
# "unit" ("tokens", "bytes" and so on) and "doc", one sentence. Since 0.2.
nl_fact_describe = function("nl_fact_describe", c_int32, c_int32, c_char_p, c_size_t, POINTER(c_size_t))
