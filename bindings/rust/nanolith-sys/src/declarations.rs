// Written by bindings/generate.py from include/nanolith/nanolith.h. Do not edit.

use crate::macros::{functions, handles};
use std::os::raw::{c_char, c_void};

/// What became of a call: one of `NL_OK` and `NL_ERROR_*`.
pub type nl_status = i32;

handles! {
    nl_engine_options;
    nl_engine;
    nl_tokenizer;
    nl_text_stream;
    nl_chat_format;
    nl_chunk;
    nl_cache_options;
    nl_cache;
    nl_sampling_options;
}

/// Receives log lines. May be called from any thread, also from the library's own, but never from two
/// at once for one engine. `message` is UTF-8, not terminated, and valid during the call only.
/// The callback must not call the library.
pub type nl_log_callback = Option<
    unsafe extern "C" fn(
        user_data: *mut c_void,
        severity: i32,
        message: *const c_char,
        length: usize,
    ),
>;

pub const NL_OK: i32 = 0;
/// an argument is out of its range, or arguments don't fit together
pub const NL_ERROR_INVALID_ARGUMENT: i32 = 1;
/// a file, a token or a device that was named does not exist
pub const NL_ERROR_NOT_FOUND: i32 = 2;
/// a model file is damaged or contradicts itself
pub const NL_ERROR_BAD_MODEL: i32 = 3;
/// well-formed, but this version can't do it
pub const NL_ERROR_UNSUPPORTED: i32 = 4;
/// host or device memory is exhausted
pub const NL_ERROR_OUT_OF_MEMORY: i32 = 5;
/// the page pool has too few free pages
pub const NL_ERROR_OUT_OF_PAGES: i32 = 6;
/// the context would grow beyond its maximum length
pub const NL_ERROR_CONTEXT_FULL: i32 = 7;
/// the caller's buffer is too small; the needed size was written
pub const NL_ERROR_BUFFER_TOO_SMALL: i32 = 8;
/// the device or its driver failed
pub const NL_ERROR_DEVICE: i32 = 9;
/// a defect of the library; please report it
pub const NL_ERROR_INTERNAL: i32 = 10;

/// bf16 for 16-bit model files where the device is fast at it, else float32
pub const NL_DTYPE_AUTO: i32 = 0;
pub const NL_DTYPE_F32: i32 = 1;
/// CUDA only
pub const NL_DTYPE_F16: i32 = 2;
pub const NL_DTYPE_BF16: i32 = 3;

pub const NL_LOG_DEBUG: i32 = 0;
pub const NL_LOG_INFO: i32 = 1;
pub const NL_LOG_WARNING: i32 = 2;
pub const NL_LOG_ERROR: i32 = 3;

/// logits a token
pub const NL_ENGINE_VOCAB_SIZE: i32 = 1;
pub const NL_ENGINE_NUM_LAYERS: i32 = 2;
pub const NL_ENGINE_HIDDEN_SIZE: i32 = 3;
/// query heads
pub const NL_ENGINE_NUM_HEADS: i32 = 4;
pub const NL_ENGINE_NUM_KV_HEADS: i32 = 5;
pub const NL_ENGINE_HEAD_DIM: i32 = 6;
/// tokens a cache may hold
pub const NL_ENGINE_MAX_CONTEXT: i32 = 7;
/// NL_DTYPE_\*, never AUTO
pub const NL_ENGINE_DTYPE: i32 = 8;
/// tokens a page
pub const NL_ENGINE_PAGE_SIZE: i32 = 9;
/// bytes a page, over all layers
pub const NL_ENGINE_PAGE_BYTES: i32 = 10;
pub const NL_ENGINE_PAGES_TOTAL: i32 = 11;
/// on the free list now
pub const NL_ENGINE_PAGES_FREE: i32 = 12;
/// held only by chunks that nobody uses; freed when pages run short
pub const NL_ENGINE_PAGES_EVICTABLE: i32 = 13;
/// weights of the model, a tied head counted once
pub const NL_ENGINE_PARAMETERS: i32 = 14;

/// put the beginning-of-sequence token first; an error where there is none
pub const NL_ENCODE_ADD_BOS: i32 = 1;
/// put the end-of-sequence token last
pub const NL_ENCODE_ADD_EOS: i32 = 2;
/// Put the tokens that the model folder wants around a text (its post-processor, or its add_bos_token and
/// add_eos_token), perhaps none. Not together with the two above.
pub const NL_ENCODE_ADD_SPECIAL: i32 = 4;
/// Read the spelling of special tokens in the text (for example "\<|im_end|>") as the characters that it is
/// made of. Use it for text that comes from others, or it could end a message and begin another. Pieces that
/// a tokenizer.model has as user-defined symbols are no special tokens; nl_chat_format_render cuts them too.
pub const NL_ENCODE_SPECIAL_AS_TEXT: i32 = 8;

pub const NL_TOKENIZER_VOCAB_SIZE: i32 = 1;
pub const NL_TOKENIZER_BOS: i32 = 2;
pub const NL_TOKENIZER_EOS: i32 = 3;
pub const NL_TOKENIZER_UNK: i32 = 4;
pub const NL_TOKENIZER_PAD: i32 = 5;

pub const NL_ROLE_SYSTEM: i32 = 0;
pub const NL_ROLE_USER: i32 = 1;
pub const NL_ROLE_ASSISTANT: i32 = 2;

/// end with what stands before an answer, so that the model gives one
pub const NL_CHAT_ADD_GENERATION_PROMPT: i32 = 1;

pub const NL_CHUNK_TOKENS: i32 = 1;
pub const NL_CHUNK_LEVEL: i32 = 2;
pub const NL_CHUNK_PAGES: i32 = 3;
/// pages times page bytes
pub const NL_CHUNK_BYTES: i32 = 4;
/// by the call that gave this handle: 0 when the chunk was in the store
pub const NL_CHUNK_TOKENS_COMPUTED: i32 = 5;
/// handles and caches that hold it now, and calls under way
pub const NL_CHUNK_USERS: i32 = 6;

/// Every chunk is used as computed behind the very chunks that stand before it in this cache: the same
/// numbers as a full prefill, to rounding. Where the store has no such version yet it is computed now
/// and kept, so that caches with a common beginning share it (a prefix tree).
pub const NL_COMPOSE_EXACT: i32 = 0;
/// Every chunk is used as it was prefilled, at whatever position: nothing is computed. Tokens of a chunk
/// have not seen the chunks before it (unless they were in its `before`), which costs accuracy where
/// one document refers to another.
pub const NL_COMPOSE_INDEPENDENT: i32 = 1;

pub const NL_CACHE_TOKENS: i32 = 1;
/// pages it uses, its chunks' included
pub const NL_CACHE_PAGES: i32 = 2;
/// of these, pages outside chunks
pub const NL_CACHE_PRIVATE_PAGES: i32 = 3;
/// NL_CACHE_PAGES times page bytes
pub const NL_CACHE_BYTES: i32 = 4;
/// taken from chunks or from a fork's origin without computing them
pub const NL_CACHE_TOKENS_REUSED: i32 = 5;
/// computed for this cache so far
pub const NL_CACHE_TOKENS_COMPUTED: i32 = 6;

functions! {
    /// The version of the library at run time, as "0.1.0". The string lives as long as the library.
    fn nl_version() -> *const c_char;
    /// The name of a status, for example "NL_ERROR_OUT_OF_PAGES". Lives as long as the library.
    fn nl_status_name(status: nl_status) -> *const c_char;
    /// One sentence about the calling thread's latest failed call: the argument, its value and what was
    /// expected. Never NULL. Valid until the same thread's next failed call or its end.
    fn nl_last_error() -> *const c_char;
    /// Options with every default set. Not thread-safe against its own setters.
    fn nl_engine_options_create(options: *mut *mut nl_engine_options) -> nl_status;
    fn nl_engine_options_free(options: *mut nl_engine_options);
    /// "auto" (default: CUDA where there is a GPU and its backend, else the CPU), "cpu", "cuda" or "cuda:1".
    fn nl_engine_options_set_device(options: *mut nl_engine_options, device: *const c_char, length: usize) -> nl_status;
    /// One of NL_DTYPE_\*. Default NL_DTYPE_AUTO.
    fn nl_engine_options_set_dtype(options: *mut nl_engine_options, dtype: i32) -> nl_status;
    /// Tokens a page: a power of two from 16 to 256. Default 64.
    fn nl_engine_options_set_page_size(options: *mut nl_engine_options, page_size: i32) -> nl_status;
    /// Pages in the pool, at least 1; 0 (default) sizes the pool from the model and the memory that is free.
    fn nl_engine_options_set_num_pages(options: *mut nl_engine_options, num_pages: i64) -> nl_status;
    /// Longest context of a cache in tokens, at most the model's own; 0 (default) takes the model's. Models with
    /// LongRoPE (Phi 3 and 4) rotate contexts beyond their original one in another way: 0 takes the original context,
    /// a longer one the angles for long contexts, whatever a cache holds.
    fn nl_engine_options_set_max_context(options: *mut nl_engine_options, max_context: i64) -> nl_status;
    /// Most tokens computed in one step, 1 to 65536: longer prefills are cut into slices. Default 512.
    fn nl_engine_options_set_max_batch_tokens(options: *mut nl_engine_options, max_batch_tokens: i32) -> nl_status;
    /// CPU threads, 1 to 1024; 0 (default) takes the cores that the process may use.
    fn nl_engine_options_set_threads(options: *mut nl_engine_options, num_threads: i32) -> nl_status;
    /// Where log lines go; NULL (default) drops them. `user_data` is handed through untouched.
    fn nl_engine_options_set_log(options: *mut nl_engine_options, callback: nl_log_callback, user_data: *mut c_void) -> nl_status;
    /// What the Hugging Face folder at `path` is and what of it can be used, without loading weights: lines
    /// "name: value", each ended by a newline, for people to read. "model", "tokenizer" and "chat format" are
    /// among them, each "supported" (or the format's name), or "none", "not supported" or "not usable" and the reason,
    /// which names the file, the field or tensor, its value and what is supported. A part that can't be used is no
    /// error of this call. An engine on CUDA may refuse what the CPU computes.
    /// Errors: INVALID_ARGUMENT, NOT_FOUND (no folder), BUFFER_TOO_SMALL, OUT_OF_MEMORY.
    fn nl_model_describe(path: *const c_char, path_length: usize, buffer: *mut c_char, capacity: usize, length: *mut usize) -> nl_status;
    /// Loads the Hugging Face folder at `path` (config.json; model.safetensors, or its index and shards;
    /// tokenizer.json or tokenizer.model where there is one) and reserves the page pool. `options` may be NULL and may be
    /// freed as soon as the call returns. Blocks while the weights load. The weight files stay mapped
    /// while the engine lives: do not truncate them. A tokenizer that is not supported is left out (and logged): the
    /// engine works on tokens.
    /// Errors: NOT_FOUND (a file or the device), BAD_MODEL, UNSUPPORTED, OUT_OF_MEMORY, DEVICE.
    fn nl_engine_create(path: *const c_char, path_length: usize, options: *const nl_engine_options, engine: *mut *mut nl_engine) -> nl_status;
    /// Drops the handle; the engine lives on while chunks, caches or tokenizers made from it do.
    fn nl_engine_free(engine: *mut nl_engine);
    fn nl_engine_query(engine: *const nl_engine, fact: i32, value: *mut i64) -> nl_status;
    /// The device in words, for example "cpu (2 threads)" or "cuda:0 NVIDIA H200".
    fn nl_engine_device(engine: *const nl_engine, buffer: *mut c_char, capacity: usize, length: *mut usize) -> nl_status;
    /// Whether `token` ends an answer by the model's generation_config.json or config.json: \*is_end is 1 or 0.
    fn nl_engine_is_end_token(engine: *const nl_engine, token: i32, is_end: *mut i32) -> nl_status;
    /// The tokenizer of the engine's model folder. NOT_FOUND where the folder has none, UNSUPPORTED where it is of a kind
    /// that is not known here. Free the handle.
    fn nl_engine_tokenizer(engine: *const nl_engine, tokenizer: *mut *mut nl_tokenizer) -> nl_status;
    /// A tokenizer alone, from a model folder, without loading weights: from tokenizer.json or, where there is
    /// none, from tokenizer.model (SentencePiece). Where both are there tokenizer.json counts, since chat models
    /// have their markers only in it. What tokenizer_config.json, special_tokens_map.json and added_tokens.json
    /// add is read too. A component that is not known is refused by its name: no text is tokenized approximately.
    /// Errors: NOT_FOUND, BAD_MODEL, UNSUPPORTED, OUT_OF_MEMORY.
    fn nl_tokenizer_load(path: *const c_char, path_length: usize, tokenizer: *mut *mut nl_tokenizer) -> nl_status;
    fn nl_tokenizer_free(tokenizer: *mut nl_tokenizer);
    /// Text to tokens, at most 64 MiB in one call. Invalid UTF-8 is read as U+FFFD, one for each maximal
    /// ill-formed part. Symbols that the tokenizer's files define (for example "\<|user|>") are recognised inside
    /// the text.
    fn nl_tokenizer_encode(tokenizer: *const nl_tokenizer, text: *const c_char, text_length: usize, flags: u32, tokens: *mut i32, capacity: usize, count: *mut usize) -> nl_status;
    /// Tokens to text; control tokens give no text. Always valid UTF-8: ill-formed bytes become U+FFFD.
    fn nl_tokenizer_decode(tokenizer: *const nl_tokenizer, tokens: *const i32, num_tokens: usize, buffer: *mut c_char, capacity: usize, length: *mut usize) -> nl_status;
    fn nl_tokenizer_query(tokenizer: *const nl_tokenizer, fact: i32, value: *mut i64) -> nl_status;
    /// The token written exactly so in the vocabulary (for example "\<|user|>"), or NOT_FOUND.
    fn nl_tokenizer_find(tokenizer: *const nl_tokenizer, piece: *const c_char, length: usize, token: *mut i32) -> nl_status;
    /// The vocabulary's spelling of a token; of byte tokens "\<0x41>", of control tokens their name.
    fn nl_tokenizer_piece(tokenizer: *const nl_tokenizer, token: i32, buffer: *mut c_char, capacity: usize, length: *mut usize) -> nl_status;
    /// Turns tokens into text one by one and never splits a UTF-8 character: bytes of an unfinished one wait
    /// for the next token. What push and finish give, put together, is what nl_tokenizer_decode gives.
    /// A stream is not for two threads at once. It keeps its tokenizer alive.
    fn nl_text_stream_create(tokenizer: *const nl_tokenizer, stream: *mut *mut nl_text_stream) -> nl_status;
    fn nl_text_stream_free(stream: *mut nl_text_stream);
    /// The text that `token` completes, perhaps empty. After BUFFER_TOO_SMALL the same token may be pushed again.
    fn nl_text_stream_push(stream: *mut nl_text_stream, token: i32, buffer: *mut c_char, capacity: usize, length: *mut usize) -> nl_status;
    /// What still waits, as U+FFFD where it is ill-formed; the stream is then as new.
    fn nl_text_stream_finish(stream: *mut nl_text_stream, buffer: *mut c_char, capacity: usize, length: *mut usize) -> nl_status;
    /// How a chat model wants its messages: with which tokens around them, and in which order. `name` is one of
    /// "chatml" (Qwen and many others), "llama-2", "llama-3", "llama-3.1" (3.2 and 3.3 too), "mistral-v1",
    /// "mistral-v3", "mistral-v7", "ernie", "gemma", "phi-3", "phi-4-mini", "phi-4" and "plain" (for models that
    /// know no roles: the messages as they are, one after the other, behind what NL_ENCODE_ADD_SPECIAL puts first).
    /// With name_length 0 (`name` may be NULL then) it is the format of the model folder that the tokenizer is from,
    /// recognised by the marks in its chat template. The handle keeps the tokenizer alive.
    /// Errors: INVALID_ARGUMENT (no such name), NOT_FOUND (the folder has no chat template), UNSUPPORTED (its
    /// template is of no format that is known here: format the text yourself and encode it; or the tokenizer lacks a
    /// token of the format).
    fn nl_chat_format_create(tokenizer: *const nl_tokenizer, name: *const c_char, name_length: usize, format: *mut *mut nl_chat_format) -> nl_status;
    fn nl_chat_format_free(format: *mut nl_chat_format);
    /// The format's name.
    fn nl_chat_format_name(format: *const nl_chat_format, buffer: *mut c_char, capacity: usize, length: *mut usize) -> nl_status;
    /// The tokens of a chat of `num_messages` messages, at least one: message i is of roles\[i] (NL_ROLE_\*) and says
    /// contents\[i], which has content_lengths\[i] bytes (NULL with 0). They are the tokens that the model's own
    /// template gives. The beginning-of-sequence token is among them where the format wants it.
    /// Contents are text and nothing else: special tokens written in them are not read, so nobody can end a message
    /// or take a role by writing its marks. Where a format's marks are not tokens of the vocabulary ("\[INST]" in
    /// "llama-2" and some "mistral-v1"), contents that have them are INVALID_ARGUMENT. The labels "User:" and
    /// "Assistant:" of "ernie" are words, which contents may have.
    /// ends\[i] (`ends` may be NULL, else it has room for num_messages) receives where message i's part of the tokens
    /// ends; it begins where the part before it ends, the first one at 0, and the generation prompt follows the last
    /// one. So a chat splits into chunks along its messages. A system prompt and documents are prefilled once and
    /// found again by every chat that has them, whatever follows:
    ///     roles = {NL_ROLE_SYSTEM, NL_ROLE_USER (a document), NL_ROLE_USER (another), NL_ROLE_USER (the question)}
    ///     nl_chat_format_render(format, roles, contents, lengths, 4, NL_CHAT_ADD_GENERATION_PROMPT, ends, tokens, ...)
    ///     nl_chunk_prefill(engine, tokens, ends\[0], 0, NULL, 0, &chunks\[0])                    the system prompt
    ///     nl_chunk_prefill(engine, tokens + ends\[0], ends\[1] - ends\[0], 1, NULL, 0, &chunks\[1])   a document
    ///     nl_chunk_prefill(engine, tokens + ends\[1], ends\[2] - ends\[1], 1, NULL, 0, &chunks\[2])   another
    ///     nl_cache_create(engine, options, chunks, 3, &cache)
    ///     nl_cache_extend(cache, tokens + ends\[2], count - ends\[2])                            what is new
    /// (examples/chat_messages.c does this.) nl_chunk_prefill gives chunks that are in the store again at no cost.
    /// Parts may be empty (skip those).
    /// Formats in which user and assistant take turns ("llama-2", "mistral-\*", "gemma") take messages of one role in
    /// a row for one, with an empty line between; system messages stand first there, and but for "mistral-v7" inside
    /// the first user's message ("mistral-v3": the last one's, so that the system prompt has no part of its own).
    /// Where two parts meet inside a text, a token that both have a share in belongs to the latter.
    /// "llama-3.1" writes the date of its template, 26 Jul 2024, whatever the day. A Qwen3 model answers without
    /// thinking first where the encoded text "\<think>\n\n\</think>\n\n" follows the generation prompt.
    /// Errors: INVALID_ARGUMENT (also for messages that the format has no place for: it says which), BUFFER_TOO_SMALL.
    fn nl_chat_format_render(format: *const nl_chat_format, roles: *const i32, contents: *const *const c_char, content_lengths: *const usize, num_messages: usize, flags: u32, ends: *mut usize, tokens: *mut i32, capacity: usize, count: *mut usize) -> nl_status;
    /// Prefills `num_tokens` tokens (at least 1) into pages of their own. `level` is the chunk's place in the
    /// cascade: 0 system, 1 context, 2 query; when pages run short, chunks that no handle and no cache uses
    /// are evicted from level 2 first, from level 0 last.
    /// The tokens are computed with the `num_before` chunks of `before` in view, in that order (each as it is
    /// stored); NULL and 0 compute them alone. A chunk with the same tokens behind the same chunks that is
    /// still in the store is returned again at no cost (and keeps the lower of the two levels). Blocks until
    /// it is computed.
    /// Errors: INVALID_ARGUMENT, OUT_OF_PAGES, CONTEXT_FULL, OUT_OF_MEMORY, DEVICE.
    fn nl_chunk_prefill(engine: *mut nl_engine, tokens: *const i32, num_tokens: usize, level: i32, before: *const *const nl_chunk, num_before: usize, chunk: *mut *mut nl_chunk) -> nl_status;
    /// A second handle for the same chunk, to be freed on its own.
    fn nl_chunk_retain(chunk: *const nl_chunk, again: *mut *mut nl_chunk) -> nl_status;
    fn nl_chunk_free(chunk: *mut nl_chunk);
    fn nl_chunk_query(chunk: *const nl_chunk, fact: i32, value: *mut i64) -> nl_status;
    fn nl_cache_options_create(options: *mut *mut nl_cache_options) -> nl_status;
    fn nl_cache_options_free(options: *mut nl_cache_options);
    /// One of NL_COMPOSE_\*. Default NL_COMPOSE_EXACT.
    fn nl_cache_options_set_composition(options: *mut nl_cache_options, composition: i32) -> nl_status;
    /// A context that begins with `num_chunks` chunks in the given order (NULL and 0: none). The same chunk may
    /// stand in it twice. `options` may be NULL. Blocks only where exact composition must compute.
    fn nl_cache_create(engine: *mut nl_engine, options: *const nl_cache_options, chunks: *const *const nl_chunk, num_chunks: usize, cache: *mut *mut nl_cache) -> nl_status;
    /// Ends the conversation: private pages go back, each chunk loses one user. Netlink's libnl-3 has a function of this
    /// name as well; so that a process may use both, programs that are linked to this library reach it by another symbol.
    #[cfg_attr(not(feature = "dlopen"), link_name = "nl_nanolith_cache_free")]
    fn nl_cache_free(cache: *mut nl_cache);
    /// Appends tokens and computes them. With num_tokens 0 it does nothing.
    fn nl_cache_extend(cache: *mut nl_cache, tokens: *const i32, num_tokens: usize) -> nl_status;
    /// A second cache with the same context and sampling options. Full pages are shared, and a page that both
    /// would write is copied when one of them does. Both draw the same tokens until an option or a token differs.
    fn nl_cache_fork(cache: *mut nl_cache, fork: *mut *mut nl_cache) -> nl_status;
    /// Keeps the first `num_tokens` tokens, at most what the cache holds, and forgets the rest.
    fn nl_cache_truncate(cache: *mut nl_cache, num_tokens: usize) -> nl_status;
    /// All tokens of the context, chunks first.
    fn nl_cache_tokens(cache: *const nl_cache, tokens: *mut i32, capacity: usize, count: *mut usize) -> nl_status;
    /// The float32 logits for the token after the last one, NL_ENGINE_VOCAB_SIZE of them. The cache must not be empty.
    fn nl_cache_logits(cache: *mut nl_cache, logits: *mut f32, capacity: usize, count: *mut usize) -> nl_status;
    fn nl_cache_query(cache: *const nl_cache, fact: i32, value: *mut i64) -> nl_status;
    /// Greedy by default (temperature 0). Otherwise logits are divided by the temperature and these filters
    /// narrow the choice one after the other: top-k keeps the k highest logits (and ties with the k-th); top-p
    /// keeps the most probable tokens until their share of what is left reaches p; min-p keeps tokens at least
    /// min_p times as probable as the best. The token is drawn from the rest.
    /// The draw depends only on the logits, these options, the seed and the position in the context.
    fn nl_sampling_options_create(options: *mut *mut nl_sampling_options) -> nl_status;
    fn nl_sampling_options_free(options: *mut nl_sampling_options);
    /// 0 (greedy, default) or a finite positive number.
    fn nl_sampling_options_set_temperature(options: *mut nl_sampling_options, temperature: f32) -> nl_status;
    /// 0 (default) keeps all.
    fn nl_sampling_options_set_top_k(options: *mut nl_sampling_options, top_k: i32) -> nl_status;
    /// In (0, 1]; 1 (default) keeps all.
    fn nl_sampling_options_set_top_p(options: *mut nl_sampling_options, top_p: f32) -> nl_status;
    /// In \[0, 1]; 0 (default) keeps all.
    fn nl_sampling_options_set_min_p(options: *mut nl_sampling_options, min_p: f32) -> nl_status;
    /// Default 0.
    fn nl_sampling_options_set_seed(options: *mut nl_sampling_options, seed: u64) -> nl_status;
    /// Sets how this cache draws from now on. The options are copied.
    fn nl_cache_set_sampling(cache: *mut nl_cache, options: *const nl_sampling_options) -> nl_status;
    /// Draws one token for each of `num_caches` caches in one batch, appends it to its cache and writes it to
    /// tokens\[i]. The caches must be different, of one engine, and not empty. Either all of them advance or,
    /// on an error, none.
    /// Errors: INVALID_ARGUMENT, OUT_OF_PAGES, CONTEXT_FULL (which names the cache), OUT_OF_MEMORY, DEVICE.
    fn nl_decode_step(caches: *const *mut nl_cache, num_caches: usize, tokens: *mut i32) -> nl_status;
}
