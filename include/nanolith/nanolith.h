/*
 * Nanolith: an embeddable large-language-model engine whose first-class object is the chunk.
 *
 * A chunk is a span of tokens (a system prompt, a document) that is prefilled once into a paged
 * key-value cache and then used by any number of conversations, in any order, at any position.
 * Four calls carry everything:
 *
 *   nl_engine_create   loads a model folder on a device and reserves the page pool
 *   nl_chunk_prefill   turns tokens into an immutable chunk
 *   nl_decode_step     draws one token for each of n caches, in one batch
 *   nl_cache_free      ends one conversation
 *
 * Conventions, for every declaration below:
 * - A function that can fail returns an nl_status and writes its result through its last pointers.
 *   A failed call changes nothing; nl_last_error() tells the calling thread what went wrong.
 * - Handles are opaque and reference-counted inside. Each handle that a function gives out is freed
 *   once with its own *_free, in any order and from any thread: what a living handle needs stays alive.
 *   Freeing NULL does nothing. Using a handle after freeing it is undefined, as in all of C.
 * - Every function may be called from any thread. Calls on the same cache take turns.
 * - Strings are UTF-8 with an explicit length in bytes and need no terminator. Token ids are int32_t.
 * - Output of variable size goes to a buffer of the caller with its capacity; `*length` (or `*count`)
 *   always receives the size needed, and NL_ERROR_BUFFER_TOO_SMALL says that the capacity was less;
 *   nothing is written to the buffer then. With capacity 0 the buffer may be NULL.
 */
#ifndef NANOLITH_NANOLITH_H
#define NANOLITH_NANOLITH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define NL_API          __attribute__((visibility("default")))
#define NL_SYMBOL(name) __asm__(name)
#else
#define NL_API
#define NL_SYMBOL(name)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version, status, errors ---------------------------------------------------------------- */

#define NL_VERSION_MAJOR 0
#define NL_VERSION_MINOR 1
#define NL_VERSION_PATCH 0

/* The version of the library at run time, as "0.1.0". The string lives as long as the library. */
NL_API const char *nl_version(void);

/* What became of a call. Values never change their meaning; new ones may be added. */
typedef int32_t nl_status;
enum {
    NL_OK = 0,
    NL_ERROR_INVALID_ARGUMENT = 1, /* an argument is out of its range, or arguments don't fit together */
    NL_ERROR_NOT_FOUND = 2,        /* a file, a token or a device that was named does not exist */
    NL_ERROR_BAD_MODEL = 3,        /* a model file is damaged or contradicts itself */
    NL_ERROR_UNSUPPORTED = 4,      /* well-formed, but this version can't do it */
    NL_ERROR_OUT_OF_MEMORY = 5,    /* host or device memory is exhausted */
    NL_ERROR_OUT_OF_PAGES = 6,     /* the page pool has too few free pages */
    NL_ERROR_CONTEXT_FULL = 7,     /* the context would grow beyond its maximum length */
    NL_ERROR_BUFFER_TOO_SMALL = 8, /* the caller's buffer is too small; the needed size was written */
    NL_ERROR_DEVICE = 9,           /* the device or its driver failed */
    NL_ERROR_INTERNAL = 10,        /* a defect of the library; please report it */
    NL_ERROR_CANCELLED = 11,       /* the call was cancelled */
    NL_ERROR_TIMEOUT = 12,         /* the time given was over first; the call may be made again */
    NL_ERROR_BUSY = 13,            /* the cache is generating, or too many requests wait already */
    NL_ERROR_IO = 14               /* reading or writing failed */
};

/* The name of a status, for example "NL_ERROR_OUT_OF_PAGES". Lives as long as the library. */
NL_API const char *nl_status_name(nl_status status);

/*
 * One sentence about the calling thread's latest failed call: the argument, its value and what was
 * expected. Never NULL. Valid until the same thread's next failed call or its end.
 */
NL_API const char *nl_last_error(void);

/* ---- Handles -------------------------------------------------------------------------------- */

typedef struct nl_engine_options nl_engine_options;     /* how to load a model */
typedef struct nl_engine nl_engine;                     /* a loaded model and its page pool */
typedef struct nl_tokenizer nl_tokenizer;               /* text to tokens and back */
typedef struct nl_text_stream nl_text_stream;           /* tokens to text, as they come */
typedef struct nl_chat_format nl_chat_format;           /* messages to tokens */
typedef struct nl_chunk nl_chunk;                       /* a prefilled span of tokens; immutable */
typedef struct nl_cache_options nl_cache_options;       /* how to compose chunks */
typedef struct nl_cache nl_cache;                       /* one conversation's context */
typedef struct nl_sampling_options nl_sampling_options; /* how to draw tokens */

/* ---- Engine options ------------------------------------------------------------------------- */

/* Number formats of weights on the device, activations and the key-value cache. */
enum {
    NL_DTYPE_AUTO = 0, /* bf16 for 16-bit model files where the device is fast at it, else float32 */
    NL_DTYPE_F32 = 1,
    NL_DTYPE_F16 = 2, /* CUDA only */
    NL_DTYPE_BF16 = 3
};

enum { NL_LOG_DEBUG = 0, NL_LOG_INFO = 1, NL_LOG_WARNING = 2, NL_LOG_ERROR = 3 };

/*
 * Receives log lines. May be called from any thread, also from the library's own, but never from two
 * at once for one engine. `message` is UTF-8, not terminated, and valid during the call only.
 * The callback must not call the library.
 */
typedef void (*nl_log_callback)(void *user_data, int32_t severity, const char *message, size_t length);

/* Options with every default set. Not thread-safe against its own setters. */
NL_API nl_status nl_engine_options_create(nl_engine_options **options);
NL_API void nl_engine_options_free(nl_engine_options *options);

/* "auto" (default: CUDA where there is a GPU and its backend, else the CPU), "cpu", "cuda" or "cuda:1". */
NL_API nl_status nl_engine_options_set_device(nl_engine_options *options, const char *device, size_t length);
/* One of NL_DTYPE_*. Default NL_DTYPE_AUTO. */
NL_API nl_status nl_engine_options_set_dtype(nl_engine_options *options, int32_t dtype);
/* Tokens a page: a power of two from 16 to 256. Default 64. */
NL_API nl_status nl_engine_options_set_page_size(nl_engine_options *options, int32_t page_size);
/* Pages in the pool, at least 1; 0 (default) sizes the pool from the model and the memory that is free. */
NL_API nl_status nl_engine_options_set_num_pages(nl_engine_options *options, int64_t num_pages);
/*
 * Longest context of a cache in tokens, at most the model's own; 0 (default) takes the model's. Models with
 * LongRoPE (Phi 3 and 4) rotate contexts beyond their original one in another way: 0 takes the original context,
 * a longer one the angles for long contexts, whatever a cache holds.
 */
NL_API nl_status nl_engine_options_set_max_context(nl_engine_options *options, int64_t max_context);
/* Most tokens computed in one step, 1 to 65536: longer prefills are cut into slices. Default 512. */
NL_API nl_status nl_engine_options_set_max_batch_tokens(nl_engine_options *options, int32_t max_batch_tokens);
/* CPU threads, 1 to 1024; 0 (default) takes the cores that the process may use. */
NL_API nl_status nl_engine_options_set_threads(nl_engine_options *options, int32_t num_threads);
/* Where log lines go; NULL (default) drops them. `user_data` is handed through untouched. */
NL_API nl_status nl_engine_options_set_log(nl_engine_options *options, nl_log_callback callback, void *user_data);

/* ---- Models --------------------------------------------------------------------------------- */

/*
 * What the Hugging Face folder at `path` is and what of it can be used, without loading weights: lines
 * "name: value", each ended by a newline, for people to read. "model", "tokenizer" and "chat format" are
 * among them, each "supported" (or the format's name), or "none", "not supported" or "not usable" and the reason,
 * which names the file, the field or tensor, its value and what is supported. A part that can't be used is no
 * error of this call. An engine on CUDA may refuse what the CPU computes.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (no folder), BUFFER_TOO_SMALL, OUT_OF_MEMORY.
 */
NL_API nl_status nl_model_describe(const char *path, size_t path_length, char *buffer, size_t capacity, size_t *length);

/* ---- Engine --------------------------------------------------------------------------------- */

/*
 * Loads the Hugging Face folder at `path` (config.json; model.safetensors, or its index and shards;
 * tokenizer.json or tokenizer.model where there is one) and reserves the page pool. `options` may be NULL and may be
 * freed as soon as the call returns. Blocks while the weights load. The weight files stay mapped
 * while the engine lives: do not truncate them. A tokenizer that is not supported is left out (and logged): the
 * engine works on tokens.
 * Errors: NOT_FOUND (a file or the device), BAD_MODEL, UNSUPPORTED, OUT_OF_MEMORY, DEVICE.
 */
NL_API nl_status nl_engine_create(const char *path, size_t path_length, const nl_engine_options *options,
                                  nl_engine **engine);
/* Drops the handle; the engine lives on while chunks, caches or tokenizers made from it do. */
NL_API void nl_engine_free(nl_engine *engine);

/* Facts about an engine, for nl_engine_query. */
enum {
    NL_ENGINE_VOCAB_SIZE = 1, /* logits a token */
    NL_ENGINE_NUM_LAYERS = 2,
    NL_ENGINE_HIDDEN_SIZE = 3,
    NL_ENGINE_NUM_HEADS = 4, /* query heads */
    NL_ENGINE_NUM_KV_HEADS = 5,
    NL_ENGINE_HEAD_DIM = 6,
    NL_ENGINE_MAX_CONTEXT = 7, /* tokens a cache may hold */
    NL_ENGINE_DTYPE = 8,       /* NL_DTYPE_*, never AUTO */
    NL_ENGINE_PAGE_SIZE = 9,   /* tokens a page */
    NL_ENGINE_PAGE_BYTES = 10, /* bytes a page, over all layers */
    NL_ENGINE_PAGES_TOTAL = 11,
    NL_ENGINE_PAGES_FREE = 12,      /* on the free list now */
    NL_ENGINE_PAGES_EVICTABLE = 13, /* held only by chunks that nobody uses; freed when pages run short */
    NL_ENGINE_PARAMETERS = 14       /* weights of the model, a tied head counted once */
};
NL_API nl_status nl_engine_query(const nl_engine *engine, int32_t fact, int64_t *value);
/* The device in words, for example "cpu (2 threads)" or "cuda:0 NVIDIA H200". */
NL_API nl_status nl_engine_device(const nl_engine *engine, char *buffer, size_t capacity, size_t *length);
/* Whether `token` ends an answer by the model's generation_config.json or config.json: *is_end is 1 or 0. */
NL_API nl_status nl_engine_is_end_token(const nl_engine *engine, int32_t token, int32_t *is_end);

/* ---- Tokenizer ------------------------------------------------------------------------------ */

/*
 * The tokenizer of the engine's model folder. NOT_FOUND where the folder has none, UNSUPPORTED where it is of a kind
 * that is not known here. Free the handle.
 */
NL_API nl_status nl_engine_tokenizer(const nl_engine *engine, nl_tokenizer **tokenizer);
/*
 * A tokenizer alone, from a model folder, without loading weights: from tokenizer.json or, where there is
 * none, from tokenizer.model (SentencePiece). Where both are there tokenizer.json counts, since chat models
 * have their markers only in it. What tokenizer_config.json, special_tokens_map.json and added_tokens.json
 * add is read too. A component that is not known is refused by its name: no text is tokenized approximately.
 * Errors: NOT_FOUND, BAD_MODEL, UNSUPPORTED, OUT_OF_MEMORY.
 */
NL_API nl_status nl_tokenizer_load(const char *path, size_t path_length, nl_tokenizer **tokenizer);
NL_API void nl_tokenizer_free(nl_tokenizer *tokenizer);

/* Flags for nl_tokenizer_encode. */
enum {
    NL_ENCODE_ADD_BOS = 1, /* put the beginning-of-sequence token first; an error where there is none */
    NL_ENCODE_ADD_EOS = 2, /* put the end-of-sequence token last */
    /*
     * Put the tokens that the model folder wants around a text (its post-processor, or its add_bos_token and
     * add_eos_token), perhaps none. Not together with the two above.
     */
    NL_ENCODE_ADD_SPECIAL = 4,
    /*
     * Read the spelling of special tokens in the text (for example "<|im_end|>") as the characters that it is
     * made of. Use it for text that comes from others, or it could end a message and begin another. Pieces that
     * a tokenizer.model has as user-defined symbols are no special tokens; nl_chat_format_render cuts them too.
     */
    NL_ENCODE_SPECIAL_AS_TEXT = 8
};

/*
 * Text to tokens, at most 64 MiB in one call. Invalid UTF-8 is read as U+FFFD, one for each maximal
 * ill-formed part. Symbols that the tokenizer's files define (for example "<|user|>") are recognised inside
 * the text.
 */
NL_API nl_status nl_tokenizer_encode(const nl_tokenizer *tokenizer, const char *text, size_t text_length,
                                     uint32_t flags, int32_t *tokens, size_t capacity, size_t *count);
/* Tokens to text; control tokens give no text. Always valid UTF-8: ill-formed bytes become U+FFFD. */
NL_API nl_status nl_tokenizer_decode(const nl_tokenizer *tokenizer, const int32_t *tokens, size_t num_tokens,
                                     char *buffer, size_t capacity, size_t *length);

/* Facts about a tokenizer; a special token that the model does not have is -1. */
enum {
    NL_TOKENIZER_VOCAB_SIZE = 1,
    NL_TOKENIZER_BOS = 2,
    NL_TOKENIZER_EOS = 3,
    NL_TOKENIZER_UNK = 4,
    NL_TOKENIZER_PAD = 5
};
NL_API nl_status nl_tokenizer_query(const nl_tokenizer *tokenizer, int32_t fact, int64_t *value);
/* The token written exactly so in the vocabulary (for example "<|user|>"), or NOT_FOUND. */
NL_API nl_status nl_tokenizer_find(const nl_tokenizer *tokenizer, const char *piece, size_t length, int32_t *token);
/* The vocabulary's spelling of a token; of byte tokens "<0x41>", of control tokens their name. */
NL_API nl_status nl_tokenizer_piece(const nl_tokenizer *tokenizer, int32_t token, char *buffer, size_t capacity,
                                    size_t *length);

/*
 * Turns tokens into text one by one and never splits a UTF-8 character: bytes of an unfinished one wait
 * for the next token. What push and finish give, put together, is what nl_tokenizer_decode gives.
 * A stream is not for two threads at once. It keeps its tokenizer alive.
 */
NL_API nl_status nl_text_stream_create(const nl_tokenizer *tokenizer, nl_text_stream **stream);
NL_API void nl_text_stream_free(nl_text_stream *stream);
/* The text that `token` completes, perhaps empty. After BUFFER_TOO_SMALL the same token may be pushed again. */
NL_API nl_status nl_text_stream_push(nl_text_stream *stream, int32_t token, char *buffer, size_t capacity,
                                     size_t *length);
/* What still waits, as U+FFFD where it is ill-formed; the stream is then as new. */
NL_API nl_status nl_text_stream_finish(nl_text_stream *stream, char *buffer, size_t capacity, size_t *length);

/* ---- Chat formats --------------------------------------------------------------------------- */

/*
 * How a chat model wants its messages: with which tokens around them, and in which order. `name` is one of
 * "chatml" (Qwen and many others), "llama-2", "llama-3", "llama-3.1" (3.2 and 3.3 too), "mistral-v1",
 * "mistral-v3", "mistral-v7", "ernie", "gemma", "phi-3", "phi-4-mini", "phi-4" and "plain" (for models that
 * know no roles: the messages as they are, one after the other, behind what NL_ENCODE_ADD_SPECIAL puts first).
 * With name_length 0 (`name` may be NULL then) it is the format of the model folder that the tokenizer is from,
 * recognised by the marks in its chat template. The handle keeps the tokenizer alive.
 * Errors: INVALID_ARGUMENT (no such name), NOT_FOUND (the folder has no chat template), UNSUPPORTED (its
 * template is of no format that is known here: format the text yourself and encode it; or the tokenizer lacks a
 * token of the format).
 */
NL_API nl_status nl_chat_format_create(const nl_tokenizer *tokenizer, const char *name, size_t name_length,
                                       nl_chat_format **format);
NL_API void nl_chat_format_free(nl_chat_format *format);
/* The format's name. */
NL_API nl_status nl_chat_format_name(const nl_chat_format *format, char *buffer, size_t capacity, size_t *length);

enum { NL_ROLE_SYSTEM = 0, NL_ROLE_USER = 1, NL_ROLE_ASSISTANT = 2 };

/* Flags for nl_chat_format_render. */
enum {
    NL_CHAT_ADD_GENERATION_PROMPT = 1 /* end with what stands before an answer, so that the model gives one */
};

/*
 * The tokens of a chat of `num_messages` messages, at least one: message i is of roles[i] (NL_ROLE_*) and says
 * contents[i], which has content_lengths[i] bytes (NULL with 0). They are the tokens that the model's own
 * template gives. The beginning-of-sequence token is among them where the format wants it.
 *
 * Contents are text and nothing else: special tokens written in them are not read, so nobody can end a message
 * or take a role by writing its marks. Where a format's marks are not tokens of the vocabulary ("[INST]" in
 * "llama-2" and some "mistral-v1"), contents that have them are INVALID_ARGUMENT. The labels "User:" and
 * "Assistant:" of "ernie" are words, which contents may have.
 *
 * ends[i] (`ends` may be NULL, else it has room for num_messages) receives where message i's part of the tokens
 * ends; it begins where the part before it ends, the first one at 0, and the generation prompt follows the last
 * one. So a chat splits into chunks along its messages. A system prompt and documents are prefilled once and
 * found again by every chat that has them, whatever follows:
 *
 *     roles = {NL_ROLE_SYSTEM, NL_ROLE_USER (a document), NL_ROLE_USER (another), NL_ROLE_USER (the question)}
 *     nl_chat_format_render(format, roles, contents, lengths, 4, NL_CHAT_ADD_GENERATION_PROMPT, ends, tokens, ...)
 *     nl_chunk_prefill(engine, tokens, ends[0], 0, NULL, 0, &chunks[0])                    the system prompt
 *     nl_chunk_prefill(engine, tokens + ends[0], ends[1] - ends[0], 1, NULL, 0, &chunks[1])   a document
 *     nl_chunk_prefill(engine, tokens + ends[1], ends[2] - ends[1], 1, NULL, 0, &chunks[2])   another
 *     nl_cache_create(engine, options, chunks, 3, &cache)
 *     nl_cache_extend(cache, tokens + ends[2], count - ends[2])                            what is new
 *
 * (examples/chat_messages.c does this.) nl_chunk_prefill gives chunks that are in the store again at no cost.
 * Parts may be empty (skip those).
 *
 * Formats in which user and assistant take turns ("llama-2", "mistral-*", "gemma") take messages of one role in
 * a row for one, with an empty line between; system messages stand first there, and but for "mistral-v7" inside
 * the first user's message ("mistral-v3": the last one's, so that the system prompt has no part of its own).
 * Where two parts meet inside a text, a token that both have a share in belongs to the latter.
 *
 * "llama-3.1" writes the date of its template, 26 Jul 2024, whatever the day. A Qwen3 model answers without
 * thinking first where the encoded text "<think>\n\n</think>\n\n" follows the generation prompt.
 * Errors: INVALID_ARGUMENT (also for messages that the format has no place for: it says which), BUFFER_TOO_SMALL.
 */
NL_API nl_status nl_chat_format_render(const nl_chat_format *format, const int32_t *roles, const char *const *contents,
                                       const size_t *content_lengths, size_t num_messages, uint32_t flags, size_t *ends,
                                       int32_t *tokens, size_t capacity, size_t *count);

/* ---- Chunks --------------------------------------------------------------------------------- */

/*
 * Prefills `num_tokens` tokens (at least 1) into pages of their own. `level` is the chunk's place in the
 * cascade: 0 system, 1 context, 2 query; when pages run short, chunks that no handle and no cache uses
 * are evicted from level 2 first, from level 0 last.
 * The tokens are computed with the `num_before` chunks of `before` in view, in that order (each as it is
 * stored); NULL and 0 compute them alone. A chunk with the same tokens behind the same chunks that is
 * still in the store is returned again at no cost (and keeps the lower of the two levels). Blocks until
 * it is computed.
 * Errors: INVALID_ARGUMENT, OUT_OF_PAGES, CONTEXT_FULL, OUT_OF_MEMORY, DEVICE.
 */
NL_API nl_status nl_chunk_prefill(nl_engine *engine, const int32_t *tokens, size_t num_tokens, int32_t level,
                                  const nl_chunk *const *before, size_t num_before, nl_chunk **chunk);
/* A second handle for the same chunk, to be freed on its own. */
NL_API nl_status nl_chunk_retain(const nl_chunk *chunk, nl_chunk **again);
NL_API void nl_chunk_free(nl_chunk *chunk);

enum {
    NL_CHUNK_TOKENS = 1,
    NL_CHUNK_LEVEL = 2,
    NL_CHUNK_PAGES = 3,
    NL_CHUNK_BYTES = 4,           /* pages times page bytes */
    NL_CHUNK_TOKENS_COMPUTED = 5, /* by the call that gave this handle: 0 when the chunk was in the store */
    NL_CHUNK_USERS = 6            /* handles and caches that hold it now, and calls under way */
};
NL_API nl_status nl_chunk_query(const nl_chunk *chunk, int32_t fact, int64_t *value);

/* ---- Caches --------------------------------------------------------------------------------- */

/* How a cache composes its chunks. */
enum {
    /*
     * Every chunk is used as computed behind the very chunks that stand before it in this cache: the same
     * numbers as a full prefill, to rounding. Where the store has no such version yet it is computed now
     * and kept, so that caches with a common beginning share it (a prefix tree).
     */
    NL_COMPOSE_EXACT = 0,
    /*
     * Every chunk is used as it was prefilled, at whatever position: nothing is computed. Tokens of a chunk
     * have not seen the chunks before it (unless they were in its `before`), which costs accuracy where
     * one document refers to another.
     */
    NL_COMPOSE_INDEPENDENT = 1
};

NL_API nl_status nl_cache_options_create(nl_cache_options **options);
NL_API void nl_cache_options_free(nl_cache_options *options);
/* One of NL_COMPOSE_*. Default NL_COMPOSE_EXACT. */
NL_API nl_status nl_cache_options_set_composition(nl_cache_options *options, int32_t composition);

/*
 * A context that begins with `num_chunks` chunks in the given order (NULL and 0: none). The same chunk may
 * stand in it twice. `options` may be NULL. Blocks only where exact composition must compute.
 */
NL_API nl_status nl_cache_create(nl_engine *engine, const nl_cache_options *options, const nl_chunk *const *chunks,
                                 size_t num_chunks, nl_cache **cache);
/*
 * Ends the conversation: private pages go back, each chunk loses one user. Netlink's libnl-3 has a function of this
 * name as well; so that a process may use both, programs that are linked to this library reach it by another symbol.
 */
NL_API void nl_cache_free(nl_cache *cache) NL_SYMBOL("nl_nanolith_cache_free");

/* Appends tokens and computes them. With num_tokens 0 it does nothing. */
NL_API nl_status nl_cache_extend(nl_cache *cache, const int32_t *tokens, size_t num_tokens);
/*
 * A second cache with the same context and sampling options. Full pages are shared, and a page that both
 * would write is copied when one of them does. Both draw the same tokens until an option or a token differs.
 */
NL_API nl_status nl_cache_fork(nl_cache *cache, nl_cache **fork);
/* Keeps the first `num_tokens` tokens, at most what the cache holds, and forgets the rest. */
NL_API nl_status nl_cache_truncate(nl_cache *cache, size_t num_tokens);
/* All tokens of the context, chunks first. */
NL_API nl_status nl_cache_tokens(const nl_cache *cache, int32_t *tokens, size_t capacity, size_t *count);
/* The float32 logits for the token after the last one, NL_ENGINE_VOCAB_SIZE of them. The cache must not be empty. */
NL_API nl_status nl_cache_logits(nl_cache *cache, float *logits, size_t capacity, size_t *count);

enum {
    NL_CACHE_TOKENS = 1,
    NL_CACHE_PAGES = 2,          /* pages it uses, its chunks' included */
    NL_CACHE_PRIVATE_PAGES = 3,  /* of these, pages outside chunks */
    NL_CACHE_BYTES = 4,          /* NL_CACHE_PAGES times page bytes */
    NL_CACHE_TOKENS_REUSED = 5,  /* taken from chunks or from a fork's origin without computing them */
    NL_CACHE_TOKENS_COMPUTED = 6 /* computed for this cache so far */
};
NL_API nl_status nl_cache_query(const nl_cache *cache, int32_t fact, int64_t *value);

/* ---- Sampling and decoding ------------------------------------------------------------------ */

/*
 * Greedy by default (temperature 0). Otherwise logits are divided by the temperature and these filters
 * narrow the choice one after the other: top-k keeps the k highest logits (and ties with the k-th); top-p
 * keeps the most probable tokens until their share of what is left reaches p; min-p keeps tokens at least
 * min_p times as probable as the best. The token is drawn from the rest.
 * The draw depends only on the logits, these options, the seed and the position in the context.
 */
NL_API nl_status nl_sampling_options_create(nl_sampling_options **options);
NL_API void nl_sampling_options_free(nl_sampling_options *options);
/* 0 (greedy, default) or a finite positive number. */
NL_API nl_status nl_sampling_options_set_temperature(nl_sampling_options *options, float temperature);
/* 0 (default) keeps all. */
NL_API nl_status nl_sampling_options_set_top_k(nl_sampling_options *options, int32_t top_k);
/* In (0, 1]; 1 (default) keeps all. */
NL_API nl_status nl_sampling_options_set_top_p(nl_sampling_options *options, float top_p);
/* In [0, 1]; 0 (default) keeps all. */
NL_API nl_status nl_sampling_options_set_min_p(nl_sampling_options *options, float min_p);
/* Default 0. */
NL_API nl_status nl_sampling_options_set_seed(nl_sampling_options *options, uint64_t seed);

/* Sets how this cache draws from now on. The options are copied. */
NL_API nl_status nl_cache_set_sampling(nl_cache *cache, const nl_sampling_options *options);

/*
 * Draws one token for each of `num_caches` caches in one batch, appends it to its cache and writes it to
 * tokens[i]. The caches must be different, of one engine, and not empty. Either all of them advance or,
 * on an error, none.
 * Errors: INVALID_ARGUMENT, OUT_OF_PAGES, CONTEXT_FULL (which names the cache), OUT_OF_MEMORY, DEVICE.
 */
NL_API nl_status nl_decode_step(nl_cache *const *caches, size_t num_caches, int32_t *tokens);

#ifdef __cplusplus
}
#endif
#endif
