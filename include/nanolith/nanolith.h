/*
 * Nanolith: an embeddable large-language-model engine whose first-class object is the chunk.
 *
 * A model answers in six calls (examples/ has them with their checks):
 *
 *     nl_engine_create(path, strlen(path), NULL, &engine);                     loads a model folder on a device
 *     nl_engine_tokenizer(engine, &tokenizer);
 *     nl_tokenizer_encode(tokenizer, text, strlen(text), 0, tokens, 512, &count);
 *     nl_cache_create(engine, NULL, NULL, 0, &cache);                          a conversation, empty yet
 *     nl_generation_start(cache, tokens, count, NULL, &generation);            returns at once
 *     do                                                                       text, as it comes
 *         nl_generation_next(generation, -1, NULL, 0, NULL, text, sizeof text, &length, &end);
 *     while (end == NL_END_NONE);
 *
 * A chunk is a span of tokens (a system prompt, a document) that nl_chunk_prefill computes once into a paged
 * key-value cache, and that any number of conversations then begin with, in any order, at any position.
 *
 * The sections follow one another from what everybody needs to what few do: errors, engines, tokenizers, chat
 * formats, caches, generations, chunks, options, drawing step by step, and what the library tells about itself.
 *
 * Conventions, for every declaration below:
 * - A function that can fail returns an nl_status and writes its result through its last pointers.
 *   A failed call changes nothing; nl_last_error() tells the calling thread what went wrong.
 * - Handles are opaque and reference-counted inside. Each handle that a function gives out is freed
 *   once with its own *_free, in any order and from any thread: what a living handle needs stays alive.
 *   Freeing NULL does nothing. Using a handle after freeing it is undefined, as in all of C.
 * - Every function may be called from any thread. Calls on the same cache take turns. pthread_cancel of a thread within
 *   a call takes effect when the call has returned.
 * - After fork() the child has none of the parent's threads. There, calls on engines, caches, chunks and generations
 *   from before are INVALID_ARGUMENT and freeing them returns at once; tokenizers, chat formats, text streams and
 *   options work on, and so does a new engine, on the CPU (CUDA does not outlive a fork).
 * - On a GPU an engine records steps as CUDA graphs, for milliseconds at a time. Meanwhile cudaDeviceSynchronize in
 *   another thread of the program fails with cudaErrorStreamCaptureUnsupported, by CUDA's rules: call it again, or wait
 *   for streams and events instead. The engine is not disturbed by it.
 * - When memory or threads run out a call fails with OUT_OF_MEMORY and the process lives on. Beyond help are libraries
 *   that end the process themselves: libsentencepiece and protobuf while tokenizer.model is loaded or encodes; oneDNN,
 *   for what it makes while an engine is created, and GCC's OpenMP, for what it notes once a thread for oneDNN (that
 *   memory for these two is there is checked just before).
 * - Strings are UTF-8 with an explicit length in bytes and need no terminator. Token ids are int32_t.
 * - Sizes of arrays and strings are size_t; all other numbers are int32_t or int64_t.
 * - Output of variable size goes to a buffer of the caller with its capacity; `*length` (bytes of text) or `*count`
 *   (elements) always receives the size needed, and NL_ERROR_BUFFER_TOO_SMALL says that the capacity was less;
 *   nothing is written to the buffer then. With capacity 0 the buffer may be NULL.
 * - "Since" tells the first version that has a declaration, in the form that it has here.
 *
 * Marks in declarations mean nothing to a compiler and much to readers and to programs that write bindings:
 * - NL_OUT before a pointer: the function writes one value through it. Without it a pointer to a handle is the handle.
 * - NL_ARRAY(n) before a pointer: it points to n elements, or bytes of text, where n is another argument. The function
 *   reads them where they are const, else it writes them.
 * - enum NL_NAMED(Name, PREFIX_) { ... }: the values of one type, called Name in languages that have such types, where
 *   the constants lose the prefix. With NL_FLAGS they may be added together.
 * - NL_TAKES_INT, NL_TAKES_BOOL (an integer, 0 or 1), NL_TAKES_CHOICE(Name) (an integer, one of that type's),
 *   NL_TAKES_FLOAT, NL_TAKES_TEXT, NL_TAKES_INT_LIST and NL_TAKES_TEXT_LIST after an option's key: what it takes.
 *   Except with NL_TAKES_BOOL, 0 and the empty text are the option's default or out of its bounds.
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

#define NL_OUT
#define NL_ARRAY(count)
#define NL_NAMED(name, prefix)
#define NL_FLAGS(name, prefix)
#define NL_TAKES_INT
#define NL_TAKES_BOOL
#define NL_TAKES_CHOICE(name)
#define NL_TAKES_FLOAT
#define NL_TAKES_TEXT
#define NL_TAKES_INT_LIST
#define NL_TAKES_TEXT_LIST

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version, status, errors ---------------------------------------------------------------- */

#define NL_VERSION_MAJOR 0
#define NL_VERSION_MINOR 2
#define NL_VERSION_PATCH 0
/* The version as one number, to compare: 200 is 0.2.0, 10203 is 1.2.3. Since 0.2. */
#define NL_VERSION_NUMBER (NL_VERSION_MAJOR * 10000 + NL_VERSION_MINOR * 100 + NL_VERSION_PATCH)

/* The version of the library at run time, as "0.2.0". The string lives as long as the library. Since 0.1. */
NL_API const char *nl_version(void);
/* The version of the library at run time as NL_VERSION_NUMBER counts. Since 0.2. */
NL_API int32_t nl_version_number(void);

typedef int32_t nl_status;
/* What became of a call. Values never change their meaning; new ones may be added. Since 0.1. */
enum NL_NAMED(Status, NL_ERROR_) {
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
    NL_ERROR_CANCELLED = 11,       /* the call was cancelled. Since 0.2 */
    NL_ERROR_TIMEOUT = 12,         /* the time given was over first; the call may be made again. Since 0.2 */
    NL_ERROR_BUSY = 13,            /* the cache is generating, or too many requests wait already. Since 0.2 */
    NL_ERROR_IO = 14,              /* reading or writing failed. Since 0.2 */
    NL_ERROR_BAD_FILE = 15 /* a saved chunk or cache is damaged, or of another model or page format. Since 0.2 */
};

/* The name of a status, for example "NL_ERROR_OUT_OF_PAGES". Lives as long as the library. Since 0.1. */
NL_API const char *nl_status_name(nl_status status);

/*
 * One sentence about the calling thread's latest failed call: the argument, its value and what was
 * expected. Never NULL. Valid until the same thread's next failed call or its end. At most 1,023 bytes; a longer
 * sentence is cut. Since 0.1.
 */
NL_API const char *nl_last_error(void);

/* Numbers that an error may have, for nl_last_error_detail. Since 0.2. */
enum NL_NAMED(Detail, NL_DETAIL_) {
    NL_DETAIL_INDEX = 1,    /* which list element the error is about, from 0: which cache of nl_decode_step */
    NL_DETAIL_NEEDED = 2,   /* what the call needed: pages (OUT_OF_PAGES), tokens (CONTEXT_FULL), elements or bytes
                               (BUFFER_TOO_SMALL), bytes (OUT_OF_MEMORY) */
    NL_DETAIL_AVAILABLE = 3 /* what there was of it */
};
/*
 * A number of the calling thread's latest failed call. NOT_FOUND where that error does not have it; INVALID_ARGUMENT
 * where `value` is NULL. This function leaves the latest error as it is, also where it fails itself. Since 0.2.
 */
NL_API nl_status nl_last_error_detail(int32_t detail, NL_OUT int64_t *value);

/* ---- Handles -------------------------------------------------------------------------------- */

typedef struct nl_options nl_options;         /* settings of an engine, a cache, its drawing or a generation */
typedef struct nl_engine nl_engine;           /* a loaded model and its page pool */
typedef struct nl_tokenizer nl_tokenizer;     /* text to tokens and back */
typedef struct nl_text_stream nl_text_stream; /* tokens to text, as they come */
typedef struct nl_chat_format nl_chat_format; /* messages to tokens */
typedef struct nl_chunk nl_chunk;             /* a prefilled span of tokens; immutable */
typedef struct nl_cache nl_cache;             /* one conversation's context */
typedef struct nl_generation nl_generation;   /* tokens that the engine draws for a cache */

/* ---- Engines -------------------------------------------------------------------------------- */

/*
 * Loads a model and reserves the page pool. `path` is a Hugging Face folder (config.json; model.safetensors, or its
 * index and shards; tokenizer.json, tokenizer.model or tekken.json where there is one) or a GGUF file; where a model is
 * split into several GGUF files, the first of them (NAME-00001-of-00003.gguf). `options` (of kind NL_OPTIONS_ENGINE;
 * see "Options") may be NULL and may be freed as soon as the call returns. Blocks while the weights load. Files that
 * change while they are loaded are IO; afterwards they may change, unless the CPU uses weights where they lie
 * (NL_OPTION_MAP_WEIGHTS). Every weight is looked at: NaN and infinities are counted, logged and BAD_MODEL
 * (NL_OPTION_ALLOW_NOT_FINITE). A tokenizer that is not supported is left out (and logged): the engine works on tokens.
 * Since 0.1; nl_options and GGUF files since 0.2. Errors: INVALID_ARGUMENT, NOT_FOUND (a file or the device),
 * BAD_MODEL, UNSUPPORTED, OUT_OF_MEMORY, DEVICE, CANCELLED (by the progress callback), IO.
 */
NL_API nl_status nl_engine_create(NL_ARRAY(path_length) const char *path, size_t path_length, const nl_options *options,
                                  NL_OUT nl_engine **engine);
/* Drops the handle; the engine lives on while chunks, caches, generations or tokenizers made from it do. Since 0.1. */
NL_API void nl_engine_free(nl_engine *engine);
/*
 * Cancels all calls and generations that are under way on the engine, prefills of chunks among them: they end with
 * CANCELLED (generations with NL_END_CANCELLED) when the step that runs now is over. What is asked for afterwards is
 * not concerned. Of a tenant's handle: all of that tenant. Returns at once. Since 0.2.
 */
NL_API nl_status nl_engine_cancel(nl_engine *engine);
/*
 * A further handle of the engine, for one of several tenants that must learn nothing of each other; `salt` is a name
 * for the tenant, of 1 to 4096 bytes. It is used like the engine's own handle, and freed with nl_engine_free. Handles
 * with the same salt are the same tenant.
 *
 * What a tenant computes is found again by that tenant alone: its chunks, in all tiers, and the beginnings of its
 * conversations. The same tokens are computed and kept once for each tenant, and that takes as long as if no other
 * tenant had them. Which of a tenant's chunks is evicted first does not depend on what others ask for; how soon pages
 * run short, and how long work takes beside that of others, does.
 *
 * Chunks of the engine's own handle belong to no tenant, and every tenant may use them in caches and as predecessors of
 * chunks. Chunks of another tenant are INVALID_ARGUMENT there.
 *
 * NL_ENGINE_CHUNKS and all facts with higher keys count what is the tenant's; those of the engine's own handle count
 * everything. When the last handle, chunk and cache of a tenant is gone, its counts begin anew.
 *
 * Only the salt's SHA-256 is kept. Its first 16 hexadecimal digits begin the names of the tenant's files and of its
 * keys on the store's server. Files of nl_chunk_save and nl_cache_save contain it, and are loaded by handles with the
 * same salt alone.
 *
 * Since 0.2. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
 */
NL_API nl_status nl_engine_tenant(const nl_engine *engine, NL_ARRAY(salt_length) const char *salt, size_t salt_length,
                                  NL_OUT nl_engine **tenant);

/* Facts about an engine, for nl_engine_query. Since 0.1. */
enum NL_NAMED(EngineFact, NL_ENGINE_) {
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
    NL_ENGINE_PAGES_EVICTABLE = 13, /* of chunks that nobody uses and that are not pinned; freed when pages run short */
    NL_ENGINE_PARAMETERS = 14,      /* weights of the model, a tied head counted once */
    NL_ENGINE_CHUNKS = 15,          /* chunks in the device's pages now. This fact and the following since 0.2 */
    NL_ENGINE_HOST_CHUNKS = 16,     /* chunks in the host's memory now (NL_OPTION_HOST_BYTES) */
    NL_ENGINE_HOST_BYTES = 17,      /* bytes that the chunks in the host's memory take now */
    NL_ENGINE_FILE_CHUNKS = 18,     /* chunks in files now, as far as the engine knows (NL_OPTION_STORE_FOLDER) */
    NL_ENGINE_FILE_BYTES = 19,      /* bytes that these files take now */
    NL_ENGINE_HITS = 20,            /* how many times a chunk was asked for that was in the device's pages */
    NL_ENGINE_HOST_HITS = 21,       /* how many times a chunk was asked for that was copied from the host's memory */
    NL_ENGINE_FILE_HITS = 22,       /* how many times a chunk was asked for that was read from a file */
    NL_ENGINE_MISSES = 23,          /* how many times a chunk was asked for that had to be computed */
    NL_ENGINE_TOKENS_REUSED = 24,   /* tokens of chunks that were asked for and did not have to be computed */
    NL_ENGINE_TOKENS_COMPUTED = 25, /* tokens of chunks that were asked for and had to be computed */
    NL_ENGINE_EVICTIONS = 26,       /* chunks that were evicted from the device's pages */
    NL_ENGINE_SERVER_HITS = 27,     /* how many times a chunk was asked for that was read from the server */
    NL_ENGINE_CHUNK_BYTES = 28,     /* bytes that the chunks in the device's pages take now */
    NL_ENGINE_HOST_MOVES = 29,      /* evicted chunks that were copied to the host's memory */
    NL_ENGINE_FILE_MOVES = 30,      /* chunks that were written to files of the store's folder */
    NL_ENGINE_SERVER_MOVES = 31,    /* chunks that were sent to the store's server */
    NL_ENGINE_DEVICE_MOVES = 32,    /* chunks that came to the device's pages from the host's memory, files or server */
    /* Milliseconds that the store has saved: an estimate of what computing NL_ENGINE_TOKENS_REUSED tokens would have
       taken, by how fast this engine computed its latest chunks, less the time in which chunks were brought to the
       device. Negative where bringing them took longer; 0 until the engine has computed a chunk. */
    NL_ENGINE_SAVED_MS = 33
};
/* Since 0.1. */
NL_API nl_status nl_engine_query(const nl_engine *engine, int32_t fact, NL_OUT int64_t *value);
/*
 * A JSON object with all facts about an engine, as integers under their names in lower case ("vocab_size"), and with
 * "tiers", an array of the places where the engine keeps chunks, the fastest first. A tier that the engine does not
 * have is left out:
 *
 *     {"vocab_size": 512, ..., "saved_ms": 120,
 *      "tiers": [{"tier": "device", "chunks": 3, "bytes": 98304, "hits": 5, "moves": 1,
 *                 "levels": [{"level": 0, "chunks": 1, "bytes": 32768}, {"level": 1, ...}, {"level": 2, ...}]},
 *                {"tier": "host", "chunks": ..., "bytes": ..., "hits": ..., "moves": ..., "levels": [...]},
 *                {"tier": "files", "chunks": ..., "bytes": ..., "hits": ..., "moves": ...},
 *                {"tier": "server", "hits": ..., "moves": ...}]}
 *
 * "hits": how many times a chunk was asked for and found in this tier. "moves": how many chunks were copied into this
 * tier. Later versions may add members. The text may be longer at the next call, since numbers grow: 8192 bytes are
 * enough for this version. Since 0.2.
 */
NL_API nl_status nl_engine_describe(const nl_engine *engine, NL_ARRAY(capacity) char *buffer, size_t capacity,
                                    NL_OUT size_t *length);
/*
 * What an engine has counted since it was made, in the text format of Prometheus (version 0.0.4):
 * - pages in all, free and evictable;
 * - chunks, bytes, hits and moves of each tier, and chunks computed and evicted;
 * - requests that have had no step yet, and requests that have;
 * - histograms of the time that a step takes, and of the rows in a step;
 * - histograms of a generation's time to its first token, and of the time between two of its tokens;
 * - how many generations ended, by reason.
 *
 * All names begin with "nanolith_"; later versions may add some. The text may be longer at the next call, since numbers
 * grow: 16384 bytes are enough for this version. Since 0.2. Errors: INVALID_ARGUMENT for the handle of a tenant, since
 * an engine's steps compute for all tenants together.
 */
NL_API nl_status nl_engine_metrics(const nl_engine *engine, NL_ARRAY(capacity) char *buffer, size_t capacity,
                                   NL_OUT size_t *length);
/* The device in words, for example "cpu (2 threads)" or "cuda:0 NVIDIA H200". Since 0.1. */
NL_API nl_status nl_engine_device(const nl_engine *engine, NL_ARRAY(capacity) char *buffer, size_t capacity,
                                  NL_OUT size_t *length);
/* Whether `token` ends an answer by the model's generation_config.json or config.json: *is_end is 1 or 0. Since 0.1. */
NL_API nl_status nl_engine_is_end_token(const nl_engine *engine, int32_t token, NL_OUT int32_t *is_end);

/* ---- Tokenizers ----------------------------------------------------------------------------- */

/*
 * The tokenizer of the engine's model folder. NOT_FOUND where the folder has none, UNSUPPORTED where it is of a kind
 * that is not known here. Free the handle. Since 0.1.
 */
NL_API nl_status nl_engine_tokenizer(const nl_engine *engine, NL_OUT nl_tokenizer **tokenizer);
/*
 * A tokenizer alone, without loading weights, from a model folder or a GGUF file. In a folder it is read from
 * tokenizer.json or, where there is none, from tokenizer.model (SentencePiece), else from tekken.json (Mistral). Where
 * there are several, tokenizer.json is read, since chat models have their markers only in it. What
 * tokenizer_config.json, special_tokens_map.json and added_tokens.json add is read too. Where a model is split into
 * several GGUF files, name the first. A component that is not known is refused by its name: no text is tokenized
 * approximately. Since 0.1; GGUF files since 0.2. Errors: NOT_FOUND, BAD_MODEL, UNSUPPORTED, OUT_OF_MEMORY.
 */
NL_API nl_status nl_tokenizer_load(NL_ARRAY(path_length) const char *path, size_t path_length,
                                   NL_OUT nl_tokenizer **tokenizer);
/* Since 0.1. */
NL_API void nl_tokenizer_free(nl_tokenizer *tokenizer);

/* How a text is encoded: flags for nl_tokenizer_encode. Since 0.1. */
enum NL_FLAGS(EncodeFlags, NL_ENCODE_) {
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
    NL_ENCODE_SPECIAL_AS_TEXT = 8,
    /*
     * Encode a long text on several threads; the tokens are the same. Only tokenizers of a tokenizer.model do so,
     * others ignore the flag. There is one thread for each 64 KiB of text, but no more than the process has cores and
     * no more than 16. The calling thread is one of them; the call makes the others and they end before it returns. If
     * the system refuses to make a thread, the call goes on with those that it has. Since 0.2.
     */
    NL_ENCODE_PARALLEL = 16
};

/*
 * Text to tokens, at most 64 MiB in one call. Invalid UTF-8 is read as U+FFFD, one for each maximal
 * ill-formed part. Symbols that the tokenizer's files define (for example "<|user|>") are recognised inside
 * the text. Takes up to 16 bytes of memory for a byte of text (of its U+FFFD, where it is invalid). A text of a
 * tokenizer.model with a run of over 64 KiB that can't be cut without changing its tokens is INVALID_ARGUMENT. Since
 * 0.1.
 */
NL_API nl_status nl_tokenizer_encode(const nl_tokenizer *tokenizer, NL_ARRAY(text_length) const char *text,
                                     size_t text_length, uint32_t flags, NL_ARRAY(capacity) int32_t *tokens,
                                     size_t capacity, NL_OUT size_t *count);
/* Tokens to text; control tokens give no text. Always valid UTF-8: ill-formed bytes become U+FFFD. Since 0.1. */
NL_API nl_status nl_tokenizer_decode(const nl_tokenizer *tokenizer, NL_ARRAY(num_tokens) const int32_t *tokens,
                                     size_t num_tokens, NL_ARRAY(capacity) char *buffer, size_t capacity,
                                     NL_OUT size_t *length);

/* Facts about a tokenizer; a special token that the model does not have is -1. Since 0.1. */
enum NL_NAMED(TokenizerFact, NL_TOKENIZER_) {
    NL_TOKENIZER_VOCAB_SIZE = 1,
    NL_TOKENIZER_BOS = 2,
    NL_TOKENIZER_EOS = 3,
    NL_TOKENIZER_UNK = 4,
    NL_TOKENIZER_PAD = 5
};
/* Since 0.1. */
NL_API nl_status nl_tokenizer_query(const nl_tokenizer *tokenizer, int32_t fact, NL_OUT int64_t *value);
/* The token written exactly so in the vocabulary (for example "<|user|>"), or NOT_FOUND. Since 0.1. */
NL_API nl_status nl_tokenizer_find(const nl_tokenizer *tokenizer, NL_ARRAY(piece_length) const char *piece,
                                   size_t piece_length, NL_OUT int32_t *token);
/* The vocabulary's spelling of a token; of byte tokens "<0x41>", of control tokens their name. Since 0.1. */
NL_API nl_status nl_tokenizer_piece(const nl_tokenizer *tokenizer, int32_t token, NL_ARRAY(capacity) char *buffer,
                                    size_t capacity, NL_OUT size_t *length);

/*
 * Turns tokens into text one by one and never splits a UTF-8 character: bytes of an unfinished one wait
 * for the next token. What push and finish give, put together, is what nl_tokenizer_decode gives.
 * A stream is not for two threads at once. It keeps its tokenizer alive. Since 0.1.
 */
NL_API nl_status nl_text_stream_create(const nl_tokenizer *tokenizer, NL_OUT nl_text_stream **stream);
/* Since 0.1. */
NL_API void nl_text_stream_free(nl_text_stream *stream);
/* The text that `token` completes, if any. After BUFFER_TOO_SMALL the same token may be pushed again. Since 0.1. */
NL_API nl_status nl_text_stream_push(nl_text_stream *stream, int32_t token, NL_ARRAY(capacity) char *buffer,
                                     size_t capacity, NL_OUT size_t *length);
/* What still waits, as U+FFFD where it is ill-formed; the stream is then as new. Since 0.1. */
NL_API nl_status nl_text_stream_finish(nl_text_stream *stream, NL_ARRAY(capacity) char *buffer, size_t capacity,
                                       NL_OUT size_t *length);

/* ---- Chat formats --------------------------------------------------------------------------- */

/*
 * How a chat model wants its messages: with which tokens around them, and in which order. `name` is one of
 * "chatml" (Qwen and many others), "llama-2", "llama-3", "llama-3.1" (3.2 and 3.3 too), "mistral-v1",
 * "mistral-v3", "mistral-v7", "ernie", "gemma", "phi-3", "phi-4-mini", "phi-4" and "plain" (for models without
 * roles: the tokens that NL_ENCODE_ADD_SPECIAL puts first, then the messages' texts joined as they are).
 * With name_length 0 (`name` may be NULL then) it is the format of the model folder that the tokenizer is from: its
 * chat template, which is run (since 0.2). Where one of the formats above gives the same tokens for a list of chats
 * (with and without a system prompt, of one turn and of several, with thoughts, odd white space and empty messages) it
 * stands for the template, since it splits a chat into finer parts. The handle keeps the tokenizer alive. Since 0.1.
 * Errors: INVALID_ARGUMENT (no such name), NOT_FOUND (the folder has no chat template), UNSUPPORTED (its template has
 * something that is not supported here, which the message names: format the text yourself and encode it; or the
 * tokenizer lacks a token of the format).
 */
NL_API nl_status nl_chat_format_create(const nl_tokenizer *tokenizer, NL_ARRAY(name_length) const char *name,
                                       size_t name_length, NL_OUT nl_chat_format **format);
/* Since 0.1. */
NL_API void nl_chat_format_free(nl_chat_format *format);
/* The format's name; "template" where the folder's template is run, which is none of the known ones. Since 0.1. */
NL_API nl_status nl_chat_format_name(const nl_chat_format *format, NL_ARRAY(capacity) char *buffer, size_t capacity,
                                     NL_OUT size_t *length);

/* Whose a message of a chat is. Since 0.1. */
enum NL_NAMED(Role, NL_ROLE_) { NL_ROLE_SYSTEM = 0, NL_ROLE_USER = 1, NL_ROLE_ASSISTANT = 2 };

/* What rendering a chat adds to the tokens: flags for nl_chat_format_render. Since 0.1. */
enum NL_FLAGS(ChatFlags, NL_CHAT_) {
    NL_CHAT_ADD_GENERATION_PROMPT = 1 /* end with what stands before an answer, so that the model gives one */
};

/*
 * The tokens of a chat of `num_messages` messages, at least one: message i is of roles[i] (NL_ROLE_*) and says
 * contents[i], which has content_lengths[i] bytes (NULL with 0). They are the tokens that Transformers gets from the
 * model folder's own template, but for what contents may not do. The beginning-of-sequence token is among them where
 * the format wants it.
 *
 * Contents are text and nothing else: special tokens written in them are not read, so nobody can end a message
 * or take a role by writing its marks, whatever a template does with the text. Where a format's marks are not tokens
 * of the vocabulary ("[INST]" in "llama-2" and some "mistral-v1"; in other templates what is written as "<|name|>",
 * "[NAME]" or "<<NAME>>"), contents that have them are INVALID_ARGUMENT. Labels that are words, such as "User:" and
 * "Assistant:" of "ernie", may stand in contents: only a model that has its marks as tokens tells them apart. Tokens
 * that are not special and come in pairs ("<think>" and "</think>") are read in contents, as Transformers does.
 *
 * ends[i] (`ends` may be NULL, else it has room for num_messages) receives where message i's part of the tokens
 * ends; it begins where the part before it ends, the first one at 0, and the generation prompt follows the last
 * one. So a chat splits into chunks along its messages. A system prompt and documents are prefilled once and
 * found again by every chat that has them, whatever follows:
 *
 *     roles = {NL_ROLE_SYSTEM, NL_ROLE_USER (a document), NL_ROLE_USER (another), NL_ROLE_USER (the question)}
 *     nl_chat_format_render(format, roles, contents, lengths, 4, NL_CHAT_ADD_GENERATION_PROMPT, ends, tokens, ...)
 *     nl_chunk_prefill(engine, tokens, ends[0], NL_LEVEL_SYSTEM, NULL, 0, &chunks[0])      the system prompt
 *     nl_chunk_prefill(engine, tokens + ends[0], ends[1] - ends[0], NL_LEVEL_CONTEXT, NULL, 0, &chunks[1])  a document
 *     nl_chunk_prefill(engine, tokens + ends[1], ends[2] - ends[1], NL_LEVEL_CONTEXT, NULL, 0, &chunks[2])  another
 *     nl_cache_create(engine, NULL, chunks, 3, &cache)
 *     nl_generation_start(cache, tokens + ends[2], count - ends[2], NULL, &generation)     after what is new
 *
 * (examples/chat_messages.c does this.) nl_chunk_prefill gives chunks that are in the store again at no cost.
 * Parts may be empty (skip those).
 *
 * Formats in which user and assistant take turns ("llama-2", "mistral-*", "gemma") take messages of one role in
 * a row for one, with an empty line between; system messages stand first there, and but for "mistral-v7" inside
 * the first user's message ("mistral-v3": the last one's, so that the system prompt has no part of its own).
 * Where two parts meet inside a text, a token that both have a share in belongs to the latter.
 *
 * Where the folder's template is run, parts end where its loop over the messages has done with one. Messages that
 * have no turn in such a loop (a system prompt, in many) have what is written before the next one's turn. A template
 * may look ahead, so that the parts of a chat change with what follows; those of the formats above do not.
 *
 * "llama-3.1" writes the date 26 Jul 2024, whatever the day, and so does the template of Llama 3.1. Templates that ask
 * for the day (those of Llama 3.2 and 3.3 do) get that of the system's clock; nl_chat_format_render_json takes another.
 * A Qwen3 model answers without thinking first where the encoded text "<think>\n\n</think>\n\n" follows the
 * generation prompt.
 * By name, "mistral-v3" and "mistral-v7" write the spaces of the vocabulary at hand: one before a message's first word
 * with SentencePiece, none with Tekken. "phi-3" and "phi-4-mini" end with the end-of-sequence token where no generation
 * prompt is asked for. Since 0.1.
 * Errors: INVALID_ARGUMENT (also for messages that the format has no place for: it says which), UNSUPPORTED (the
 * folder's template needs what is not supported, or takes more steps or memory than a template may),
 * BUFFER_TOO_SMALL.
 */
NL_API nl_status nl_chat_format_render(const nl_chat_format *format, NL_ARRAY(num_messages) const int32_t *roles,
                                       NL_ARRAY(num_messages) const char *const *contents,
                                       NL_ARRAY(num_messages) const size_t *content_lengths, size_t num_messages,
                                       uint32_t flags, NL_ARRAY(num_messages) size_t *ends,
                                       NL_ARRAY(capacity) int32_t *tokens, size_t capacity, NL_OUT size_t *count);
/*
 * The tokens of a chat that is a JSON object of at most 64 MiB, with all that a template may take:
 *
 *     {"messages": [{"role": "user", "content": "Where is it?"}, {"role": "assistant", "tool_calls": [...]}, ...],
 *      "tools": [{"type": "function", "function": {"name": "find", ...}}],
 *      "documents": [{"title": "Lamps", "text": "..."}],
 *      "date": "2024-07-26",
 *      "variables": {"enable_thinking": false}}
 *
 * The messages are handed to the template as they are: which roles and members there are is between the template and
 * its caller. Roles are of letters, digits, '-' and '_'; every other text in the object is read as contents are (see
 * nl_chat_format_render). `date` is the day that the template is told, or "2024-07-26T15:06:07"; without it, that of
 * the system's clock. `variables` are further names that the template knows, as the keyword arguments of Transformers'
 * apply_chat_template. All but `messages` may be left out.
 * A format that is named, and no folder's template, has no place for tools, documents and variables, nor for messages
 * with more than a role (system, user, assistant) and a text. Since 0.2.
 * Errors: as nl_chat_format_render; INVALID_ARGUMENT for JSON that is not well-formed names the byte.
 */
NL_API nl_status nl_chat_format_render_json(const nl_chat_format *format, NL_ARRAY(request_length) const char *request,
                                            size_t request_length, uint32_t flags, NL_ARRAY(num_ends) size_t *ends,
                                            size_t num_ends, NL_ARRAY(capacity) int32_t *tokens, size_t capacity,
                                            NL_OUT size_t *count);

/* ---- Caches --------------------------------------------------------------------------------- */

/*
 * A conversation's context, which begins with `num_chunks` chunks in the given order (NULL and 0: none; see "Chunks").
 * The same chunk may stand in it twice. `options` (of kind NL_OPTIONS_CACHE) may be NULL. Blocks only where exact
 * composition must compute. Since 0.1; nl_options since 0.2.
 */
NL_API nl_status nl_cache_create(nl_engine *engine, const nl_options *options,
                                 NL_ARRAY(num_chunks) const nl_chunk *const *chunks, size_t num_chunks,
                                 NL_OUT nl_cache **cache);
/*
 * Ends the conversation: private pages go back, each chunk loses one user. A generation upon it goes on, and keeps
 * what it needs. Netlink's libnl-3 has a function of this name as well; so that a process may use both, programs that
 * are linked to this library reach it by another symbol. Since 0.1.
 */
NL_API void nl_cache_free(nl_cache *cache) NL_SYMBOL("nl_nanolith_cache_free");

/*
 * Appends tokens and computes them. With num_tokens 0 it does nothing. Since 0.1.
 * Errors: INVALID_ARGUMENT, OUT_OF_PAGES, CONTEXT_FULL, OUT_OF_MEMORY, DEVICE, BUSY, CANCELLED.
 */
NL_API nl_status nl_cache_extend(nl_cache *cache, NL_ARRAY(num_tokens) const int32_t *tokens, size_t num_tokens);
/*
 * Extends the cache as nl_cache_extend does, and gives the log-probability (natural logarithm) of each of these tokens
 * after all tokens before it: *count is num_tokens. The first token of an empty cache has no log-probability: its place
 * gets NaN. The log-probabilities are those of the model's own distribution, which sampling options do not change. To
 * rank several continuations of one context, fork the cache for each. One step scores at most NL_OPTION_MAX_OUTPUT_ROWS
 * tokens. All tokens are computed, also where pages of other conversations could be shared (NL_OPTION_SHARE_PREFIXES).
 * With BUFFER_TOO_SMALL nothing is added to the cache. Since 0.2.
 * Errors: those of nl_cache_extend, BUFFER_TOO_SMALL.
 */
NL_API nl_status nl_cache_score(nl_cache *cache, NL_ARRAY(num_tokens) const int32_t *tokens, size_t num_tokens,
                                NL_ARRAY(capacity) float *logprobs, size_t capacity, NL_OUT size_t *count);
/*
 * Extends the cache as nl_cache_extend does, and gives the log-probability (natural logarithm) of each of these
 * candidates as the token after the last one: *count is num_candidates, and logprobs[i] is of candidates[i]. They are
 * of the model's own distribution, before all sampling options. With num_tokens 0 nothing is added, and the cache must
 * not be empty. With BUFFER_TOO_SMALL nothing is added either.
 *
 * So a reranker that answers yes or no is asked, in one call for each document behind its question:
 *
 *     int32_t candidates[] = {yes, no};
 *     float logprobs[2];
 *     nl_cache_score_next(cache, tokens, num_tokens, candidates, 2, logprobs, 2, &count);
 *     double relevance = 1 / (1 + exp(logprobs[1] - logprobs[0]));     the share of yes among yes and no
 *
 * Since 0.2. Errors: those of nl_cache_extend, BUFFER_TOO_SMALL, BAD_MODEL (logits that are NaN).
 */
NL_API nl_status nl_cache_score_next(nl_cache *cache, NL_ARRAY(num_tokens) const int32_t *tokens, size_t num_tokens,
                                     NL_ARRAY(num_candidates) const int32_t *candidates, size_t num_candidates,
                                     NL_ARRAY(capacity) float *logprobs, size_t capacity, NL_OUT size_t *count);

/* What nl_cache_embed makes of its tokens' hidden states. Since 0.2. */
enum NL_NAMED(Pooling, NL_POOLING_) {
    NL_POOLING_LAST = 1, /* the last token's */
    NL_POOLING_MEAN = 2, /* the mean of those of all of the call's tokens; what was in the cache before has no part */
    NL_POOLING_NONE = 3  /* that of each of the call's tokens, one vector after the other */
};
/* How nl_cache_embed gives vectors: flags. Since 0.2. */
enum NL_FLAGS(EmbedFlags, NL_EMBED_) {
    NL_EMBED_NORMALIZED = 1 /* each vector is divided by its Euclidean length, so that dot products are cosines */
};
/*
 * Extends the cache as nl_cache_extend does, and gives hidden states: what the model's final norm makes of the last
 * layer's output, as `last_hidden_state` is in Transformers. A vector has NL_ENGINE_HIDDEN_SIZE float32 numbers, and
 * *count is the number of all numbers: those of one vector, or of num_tokens vectors with NL_POOLING_NONE. `pooling` is
 * one of NL_POOLING_*, `flags` NL_EMBED_* added together or 0.
 *
 * What the cache holds already, chunks among it, is in view of these tokens and is not computed again. With
 * NL_POOLING_LAST that is so for what other conversations have computed too (NL_OPTION_SHARE_PREFIXES), and with
 * num_tokens 0 the vector is that of the cache's last token, for which the cache must not be empty; with the others all
 * of these tokens are computed. No logits are, and nothing is drawn. The model's template of a text to embed, as a
 * prompt before it or an end token behind it, is the caller's matter. With BUFFER_TOO_SMALL nothing is added to the
 * cache. Many texts at once are many caches and threads: their rows are computed in the same steps.
 *
 * Since 0.2. Errors: those of nl_cache_extend, BUFFER_TOO_SMALL, BAD_MODEL (a state that is NaN or infinite).
 */
NL_API nl_status nl_cache_embed(nl_cache *cache, NL_ARRAY(num_tokens) const int32_t *tokens, size_t num_tokens,
                                int32_t pooling, uint32_t flags, NL_ARRAY(capacity) float *vectors, size_t capacity,
                                NL_OUT size_t *count);
/*
 * A second cache with the same context and sampling options. Full pages are shared, and a page that both
 * would write is copied when one of them does. Both draw the same tokens until an option or a token differs. Since 0.1.
 */
NL_API nl_status nl_cache_fork(nl_cache *cache, NL_OUT nl_cache **fork);
/* Keeps the first `num_tokens` tokens, at most what the cache holds, and forgets the rest. Since 0.1. */
NL_API nl_status nl_cache_truncate(nl_cache *cache, size_t num_tokens);
/* All tokens of the context, chunks first. While the cache is generating: those that are final now. Since 0.1. */
NL_API nl_status nl_cache_tokens(const nl_cache *cache, NL_ARRAY(capacity) int32_t *tokens, size_t capacity,
                                 NL_OUT size_t *count);
/* Sets how this cache draws from now on. `options` are of kind NL_OPTIONS_SAMPLING and are copied. Since 0.2. */
NL_API nl_status nl_cache_set_sampling(nl_cache *cache, const nl_options *options);
/*
 * Cancels what is under way on this cache: an nl_cache_extend, nl_cache_logits or nl_decode_step returns CANCELLED (the
 * latter for all of its caches), and a generation ends with NL_END_CANCELLED, when the step that runs now is over.
 * Where nothing is under way it does nothing. Returns at once. Since 0.2.
 */
NL_API nl_status nl_cache_cancel(nl_cache *cache);

/* Facts about a cache, for nl_cache_query. Since 0.1. */
enum NL_NAMED(CacheFact, NL_CACHE_) {
    NL_CACHE_TOKENS = 1,
    NL_CACHE_PAGES = 2,           /* pages it uses, its chunks' included */
    NL_CACHE_PRIVATE_PAGES = 3,   /* of these, pages outside chunks */
    NL_CACHE_BYTES = 4,           /* NL_CACHE_PAGES times page bytes */
    NL_CACHE_TOKENS_REUSED = 5,   /* taken from chunks, a fork's origin or other conversations, not computed */
    NL_CACHE_TOKENS_COMPUTED = 6, /* tokens computed for this cache so far */
    NL_CACHE_TOKENS_BLENDED = 7,  /* of these, recomputed tokens of chunks (NL_COMPOSE_BLENDED); since 0.2 */
    NL_CACHE_COMPOSITION = 8,     /* how its chunks were composed in the end, NL_COMPOSE_*; since 0.2 */
    /* of NL_CACHE_TOKENS_REUSED, those of chunks that did not have to be computed when the cache was created; since
       0.2 */
    NL_CACHE_CHUNK_TOKENS_REUSED = 9,
    /* Milliseconds that the store has saved this cache: an estimate of what computing NL_CACHE_TOKENS_REUSED tokens
       would have taken, by how fast the engine computed its latest chunks, less the time in which chunks were brought
       to the device when the cache was created. Since 0.2. */
    NL_CACHE_SAVED_MS = 10
};
/* Since 0.1. */
NL_API nl_status nl_cache_query(const nl_cache *cache, int32_t fact, NL_OUT int64_t *value);
/* A JSON object with all facts about a cache, as integers under their names in lower case ("private_pages").
   1024 bytes are enough for this version; later ones may add members. Since 0.2. */
NL_API nl_status nl_cache_describe(const nl_cache *cache, NL_ARRAY(capacity) char *buffer, size_t capacity,
                                   NL_OUT size_t *length);

/* ---- Generations ---------------------------------------------------------------------------- */

/*
 * Appends `num_tokens` tokens to the cache (NULL and 0: none; the cache must not be empty then) and starts to generate
 * the tokens that follow, in the same steps as the engine's other work. Returns at once; nl_generation_next gives what
 * was drawn. How tokens are drawn is the cache's matter (nl_cache_set_sampling), when to end and the rest that of
 * `options`, of kind NL_OPTIONS_GENERATION; NULL takes every default.
 *
 * The tokens drawn become part of the cache, the one that ended it included. What a stop text cuts off from the text
 * stays in the cache as tokens: nl_cache_tokens and nl_cache_truncate serve those who do not want it.
 *
 * Until the generation has ended its cache gives BUSY to nl_cache_extend, nl_cache_fork, nl_cache_truncate,
 * nl_cache_logits, nl_cache_set_sampling, nl_decode_step and a second generation; nl_cache_query and nl_cache_tokens
 * tell what is final so far. Freeing the cache's handle does not end the generation. Since 0.2.
 * Errors: INVALID_ARGUMENT, CONTEXT_FULL, OUT_OF_MEMORY, UNSUPPORTED (stop texts or a constraint where the model
 * has no tokenizer; a constraint that can't be granted in full), BUSY (the cache is generating,
 * or as many requests wait as NL_OPTION_QUEUE_LIMIT allows).
 */
NL_API nl_status nl_generation_start(nl_cache *cache, NL_ARRAY(num_tokens) const int32_t *tokens, size_t num_tokens,
                                     const nl_options *options, NL_OUT nl_generation **generation);

/* Why a generation ended. Since 0.2. */
enum NL_NAMED(EndReason, NL_END_) {
    NL_END_NONE = 0,         /* it has not ended, or there is more to fetch */
    NL_END_TOKEN = 1,        /* the last token is an end token of the model or a stop token */
    NL_END_TEXT = 2,         /* a stop text came; the text ends before it */
    NL_END_LENGTH = 3,       /* as many tokens were drawn as NL_OPTION_MAX_TOKENS allows */
    NL_END_CONTEXT_FULL = 4, /* the cache holds as many tokens as it may */
    NL_END_CANCELLED = 5,
    NL_END_DEADLINE = 6, /* NL_OPTION_DEADLINE_MS is over */
    NL_END_ERROR = 7,    /* the call that would tell the end returns the error's status instead of NL_OK */
    NL_END_COMPLETE = 8  /* the text is what its constraint asks for, and nothing can follow */
};

/*
 * The next piece of a generation. Waits until there is a token, some text or the end, but for `timeout_ms`
 * milliseconds at most (0: not at all; negative: for ever); then TIMEOUT.
 *
 * - tokens: up to token_capacity of those drawn, as they are ready; *num_tokens is how many. With `tokens` NULL and
 *   token_capacity 0 tokens are not wanted: they are dropped, and `num_tokens` may be NULL.
 * - text: what the tokens say, up to text_capacity bytes (4 or more), always whole UTF-8 characters; *text_length is
 *   how long it is. Text that may yet become a stop text is held back. With `text` NULL and text_capacity 0 text is not
 *   wanted: it is dropped, and `text_length` may be NULL.
 * - *end is NL_END_NONE while more may come, else why it ended; only when all that came before has been given. A call
 *   after that gives the end again.
 *
 * What does not fit waits for the next call (there is no BUFFER_TOO_SMALL here); a reader who lets more than
 * NL_OPTION_BUFFER_TOKENS tokens wait makes his generation pause, and no other. Tokens and text go their own ways: a
 * token may be given before or after its text. Calls on one generation take turns.
 * Where the generation ended by an error, the call that would give the end returns that error's status, with its
 * sentence and its details, and *end is NL_END_ERROR. Since 0.2.
 * Errors: INVALID_ARGUMENT, TIMEOUT, and what ended the generation.
 */
NL_API nl_status nl_generation_next(nl_generation *generation, int64_t timeout_ms,
                                    NL_ARRAY(token_capacity) int32_t *tokens, size_t token_capacity,
                                    NL_OUT size_t *num_tokens, NL_ARRAY(text_capacity) char *text, size_t text_capacity,
                                    NL_OUT size_t *text_length, NL_OUT int32_t *end);
/*
 * Log-probabilities (natural logarithm) of the tokens that the latest call of nl_generation_next on this generation
 * gave, in order: *count is their number. They are those of the model's own distribution, which penalties, temperature
 * and all other sampling options do not change. INVALID_ARGUMENT unless the generation was started with
 * NL_OPTION_LOGPROBS. Since 0.2.
 * Errors: INVALID_ARGUMENT, BUFFER_TOO_SMALL, OUT_OF_MEMORY.
 */
NL_API nl_status nl_generation_logprobs(nl_generation *generation, NL_ARRAY(capacity) float *logprobs, size_t capacity,
                                        NL_OUT size_t *count);
/*
 * The most probable tokens, with their log-probabilities, in the place of each token that the latest call of
 * nl_generation_next on this generation gave: for each of those tokens in order NL_OPTION_TOP_LOGPROBS elements, the
 * most probable first. *count is the number of all elements. INVALID_ARGUMENT unless the generation was started with
 * NL_OPTION_LOGPROBS. Since 0.2.
 * Errors: INVALID_ARGUMENT, BUFFER_TOO_SMALL, OUT_OF_MEMORY.
 */
NL_API nl_status nl_generation_top_logprobs(nl_generation *generation, NL_ARRAY(capacity) int32_t *tokens,
                                            NL_ARRAY(capacity) float *logprobs, size_t capacity, NL_OUT size_t *count);
/*
 * Ends the generation when the step that runs now is over; what it has drawn can still be fetched, and the end is then
 * NL_END_CANCELLED. Does nothing where it has ended. Returns at once, also while another thread waits in
 * nl_generation_next. Since 0.2.
 */
NL_API nl_status nl_generation_cancel(nl_generation *generation);
/*
 * Cancels the generation where it still runs, and drops the handle. Returns at once, but for a call of its logits
 * callback that is under way. Since 0.2.
 */
NL_API void nl_generation_free(nl_generation *generation);

/* Facts about a generation, for nl_generation_query. Since 0.2. */
enum NL_NAMED(GenerationFact, NL_GENERATION_) {
    NL_GENERATION_TOKENS = 1,        /* drawn so far */
    NL_GENERATION_TOKENS_REUSED = 2, /* of the context at its start, those that were computed already, also by others */
    NL_GENERATION_TOKENS_COMPUTED = 3,   /* computed for it so far, those that it drew included */
    NL_GENERATION_QUEUED_US = 4,         /* microseconds from its start to its first step (or until now, or its end) */
    NL_GENERATION_FIRST_TOKEN_US = 5,    /* microseconds from its start to its first token; -1 until there is one */
    NL_GENERATION_TOTAL_US = 6,          /* microseconds from its start to its end, or until now */
    NL_GENERATION_TOKENS_PER_SECOND = 7, /* after the first token, rounded down; 0 while there is one or none */
    NL_GENERATION_END = 8                /* NL_END_*: why it ended, whether fetched or not; NL_END_NONE while it runs */
};
/* Since 0.2. */
NL_API nl_status nl_generation_query(const nl_generation *generation, int32_t fact, NL_OUT int64_t *value);
/*
 * A file descriptor to poll, select or epoll: readable while nl_generation_next would return without waiting. It
 * belongs to the generation (the same at every call; closed with it): do not read from it, write to it or close it.
 * Since 0.2.
 * Errors: IO (the process has no descriptors left).
 */
NL_API nl_status nl_generation_descriptor(nl_generation *generation, NL_OUT int32_t *descriptor);

/* ---- Chunks --------------------------------------------------------------------------------- */

/* A chunk's place in the cascade. Those of the highest level are evicted first. Since 0.2. */
enum NL_NAMED(Level, NL_LEVEL_) {
    NL_LEVEL_SYSTEM = 0,  /* what most conversations begin with */
    NL_LEVEL_CONTEXT = 1, /* what some of them share: a document */
    NL_LEVEL_QUERY = 2    /* what few will want again */
};

/*
 * Prefills `num_tokens` tokens (at least 1) into pages of their own. `level` is one of NL_LEVEL_*; when pages run
 * short, chunks that no handle and no cache uses are evicted from NL_LEVEL_QUERY first, from NL_LEVEL_SYSTEM last, and
 * within a level as nl_chunk_set_priority says.
 * The tokens are computed with the `num_before` chunks of `before` in view, in that order (each as it is
 * stored); NULL and 0 compute them alone. A chunk with the same tokens after the same chunks that is
 * still in the store is returned again at no cost (and keeps the lower of the two levels). Blocks until
 * it is computed. Since 0.1.
 * Errors: INVALID_ARGUMENT, OUT_OF_PAGES, CONTEXT_FULL, OUT_OF_MEMORY, DEVICE, BUSY (too many requests wait),
 * CANCELLED.
 */
NL_API nl_status nl_chunk_prefill(nl_engine *engine, NL_ARRAY(num_tokens) const int32_t *tokens, size_t num_tokens,
                                  int32_t level, NL_ARRAY(num_before) const nl_chunk *const *before, size_t num_before,
                                  NL_OUT nl_chunk **chunk);
/* A second handle for the same chunk, to be freed on its own. Since 0.1. */
NL_API nl_status nl_chunk_retain(const nl_chunk *chunk, NL_OUT nl_chunk **again);
/* Since 0.1. */
NL_API void nl_chunk_free(nl_chunk *chunk);

/* Where a chunk came from, for NL_CHUNK_ORIGIN. Since 0.2. */
enum NL_NAMED(Origin, NL_ORIGIN_) {
    NL_ORIGIN_COMPUTED = 0,
    NL_ORIGIN_DEVICE = 1, /* the device's pages had it */
    NL_ORIGIN_HOST = 2,   /* the host's memory (NL_OPTION_HOST_BYTES) */
    NL_ORIGIN_FILE = 3,   /* a file: nl_chunk_load, or the store's folder (NL_OPTION_STORE_FOLDER) */
    NL_ORIGIN_SERVER = 4  /* the store's server (NL_OPTION_STORE_SERVER) */
};
/* Facts about a chunk, for nl_chunk_query. Since 0.1. */
enum NL_NAMED(ChunkFact, NL_CHUNK_) {
    NL_CHUNK_TOKENS = 1,
    NL_CHUNK_LEVEL = 2, /* NL_LEVEL_* */
    NL_CHUNK_PAGES = 3,
    NL_CHUNK_BYTES = 4,           /* pages times page bytes */
    NL_CHUNK_TOKENS_COMPUTED = 5, /* by the call that gave this handle: 0 when the chunk was in the store */
    NL_CHUNK_USERS = 6,           /* handles and caches that hold it now, and calls under way */
    NL_CHUNK_ORIGIN = 7,          /* NL_ORIGIN_*: where the call that gave this handle had it from. Since 0.2 */
    NL_CHUNK_PRIORITY = 8         /* as nl_chunk_set_priority set it; else NL_PRIORITY_NORMAL. Since 0.2 */
};
/* Since 0.1. */
NL_API nl_status nl_chunk_query(const nl_chunk *chunk, int32_t fact, NL_OUT int64_t *value);

/* Bounds of a chunk's priority. Since 0.2. */
enum NL_NAMED(Priority, NL_PRIORITY_) {
    NL_PRIORITY_LOWEST = 0,
    NL_PRIORITY_NORMAL = 50, /* what chunks have at first */
    NL_PRIORITY_HIGHEST = 100,
    NL_PRIORITY_PINNED = 101 /* the chunk is never evicted, even while no handle and no cache uses it */
};
/*
 * Sets a chunk's priority, from NL_PRIORITY_LOWEST to NL_PRIORITY_PINNED. When pages run short, chunks of the highest
 * level that nothing uses are evicted first, among these the ones of the lowest priority, and among these the ones that
 * are cheapest to recompute for their size and were used longest ago. A pinned chunk stays in the device's pages until
 * another priority is set, through any handle of the chunk, or until the engine is gone. The same order holds in the
 * host's memory. Files do not keep a priority.
 *
 * Since 0.2. Errors: INVALID_ARGUMENT.
 */
NL_API nl_status nl_chunk_set_priority(const nl_chunk *chunk, int32_t priority);

/*
 * Saves a chunk to the file at `path`, in place of one that is there, with its keys and values: nl_chunk_load has it
 * again without computing it, in another process or on another machine. The file is whole or not there: it is written
 * under another name in the same folder, brought to the disk, and then named. It fits engines with the same weights,
 * tokenizer, dtype, KV_DTYPE and PAGE_SIZE, on whatever device. The first such call of an engine, or of nl_cache_save,
 * nl_chunk_load or nl_cache_load, reads the model's weight files once more, which must be as they were when they were
 * loaded. Since 0.2.
 * Errors: INVALID_ARGUMENT, IO, OUT_OF_MEMORY, DEVICE, UNSUPPORTED (it comes after so many chunks that their tokens
 * take over 256 MiB).
 */
NL_API nl_status nl_chunk_save(const nl_chunk *chunk, NL_ARRAY(path_length) const char *path, size_t path_length);
/*
 * The chunk of a file that nl_chunk_save wrote, at the level that it had. One that the store has already is returned
 * and not read again. Nothing is computed: NL_CHUNK_TOKENS_COMPUTED is 0. A file may come from anybody: every byte of
 * it is checked for damage, though not for malice: whoever may write it decides what is read as the chunk's keys and
 * values. Since 0.2. Errors: INVALID_ARGUMENT, NOT_FOUND, BAD_FILE (which says what is wrong: it is damaged, holds a
 * conversation, or was made with other weights, another tokenizer or other options), UNSUPPORTED (another version of
 * the format), CONTEXT_FULL, OUT_OF_PAGES, OUT_OF_MEMORY, DEVICE, IO.
 */
NL_API nl_status nl_chunk_load(nl_engine *engine, NL_ARRAY(path_length) const char *path, size_t path_length,
                               NL_OUT nl_chunk **chunk);
/*
 * Saves a conversation to the file at `path` as nl_chunk_save saves a chunk: its chunks, the tokens of them that
 * NL_COMPOSE_BLENDED has recomputed, its own tokens, all their keys and values, how it draws tokens, and the token that
 * it draws next where that is known. Since 0.2.
 * Errors: as nl_chunk_save, and BUSY (it is generating).
 */
NL_API nl_status nl_cache_save(nl_cache *cache, NL_ARRAY(path_length) const char *path, size_t path_length);
/*
 * The conversation of a file that nl_cache_save wrote. It goes on as if it had never been away: extending it computes
 * the new tokens alone. Its chunks go into the store, where other caches find them; chunks that the store has already
 * are shared with it and not read from the file. The keys and values that NL_COMPOSE_BLENDED has recomputed for some
 * tokens of the chunks are read from the file; other caches with the same chunks in the same order use them too.
 * Since 0.2.
 * Errors: as nl_chunk_load.
 */
NL_API nl_status nl_cache_load(nl_engine *engine, NL_ARRAY(path_length) const char *path, size_t path_length,
                               NL_OUT nl_cache **cache);

/* ---- Options -------------------------------------------------------------------------------- */

/* What a set of options is for. Since 0.2. */
enum NL_NAMED(OptionsKind, NL_OPTIONS_) {
    NL_OPTIONS_ENGINE = 1,    /* nl_engine_create: how to load a model */
    NL_OPTIONS_CACHE = 2,     /* nl_cache_create: how to compose chunks */
    NL_OPTIONS_SAMPLING = 3,  /* nl_cache_set_sampling: how to draw tokens */
    NL_OPTIONS_GENERATION = 4 /* nl_generation_start: when to end, and how to hand over */
};

/*
 * Options of one kind with every default set, to be changed one by one:
 *
 *     nl_options_create(NL_OPTIONS_SAMPLING, &options);
 *     nl_options_set_float(options, NL_OPTION_TEMPERATURE, 0.7);
 *     nl_options_set_int(options, NL_OPTION_SEED, 42);
 *     nl_cache_set_sampling(cache, options);
 *
 * Functions that take options copy them: the same may be used again, changed, and freed at any time. Not thread-safe
 * against their own setters. Since 0.2.
 */
NL_API nl_status nl_options_create(int32_t kind, NL_OUT nl_options **options);
/* Since 0.2. */
NL_API void nl_options_free(nl_options *options);
/*
 * Set one option, an NL_OPTION_* of the options' kind, by the function for what it takes. A value out of the option's
 * bounds is INVALID_ARGUMENT, and so are a key of another kind and an option that takes something else; the option is
 * then as before. An option that is a list gets one element more, up to 1,024 of them. Since 0.2.
 */
NL_API nl_status nl_options_set_int(nl_options *options, int32_t option, int64_t value);
/* As nl_options_set_int. Since 0.2. */
NL_API nl_status nl_options_set_float(nl_options *options, int32_t option, double value);
/* As nl_options_set_int. Since 0.2. */
NL_API nl_status nl_options_set_text(nl_options *options, int32_t option, NL_ARRAY(text_length) const char *text,
                                     size_t text_length);
/*
 * Tell what an option is now. `index` is which element of a list, below nl_options_get_count; 0 for other options.
 * Since 0.2.
 */
NL_API nl_status nl_options_get_int(const nl_options *options, int32_t option, size_t index, NL_OUT int64_t *value);
/* As nl_options_get_int. Since 0.2. */
NL_API nl_status nl_options_get_float(const nl_options *options, int32_t option, size_t index, NL_OUT double *value);
/* As nl_options_get_int. Since 0.2. */
NL_API nl_status nl_options_get_text(const nl_options *options, int32_t option, size_t index,
                                     NL_ARRAY(capacity) char *buffer, size_t capacity, NL_OUT size_t *length);
/* How many elements a list has; 1 for an option that is no list. Since 0.2. */
NL_API nl_status nl_options_get_count(const nl_options *options, int32_t option, NL_OUT size_t *count);
/* Gives an option its default again; lists become empty. Since 0.2. */
NL_API nl_status nl_options_reset(nl_options *options, int32_t option);

/* How much a log line matters. Since 0.1. */
enum NL_NAMED(Severity, NL_LOG_) { NL_LOG_DEBUG = 0, NL_LOG_INFO = 1, NL_LOG_WARNING = 2, NL_LOG_ERROR = 3 };
/*
 * Receives log lines. May be called from any thread, also from the library's own, but never from two
 * at once for one engine. `message` is UTF-8, not terminated, and valid during the call only.
 * The callback must not call the library. Since 0.1.
 */
typedef void (*nl_log_callback)(void *user_data, int32_t severity, NL_ARRAY(message_length) const char *message,
                                size_t message_length);
/*
 * Where an engine's log lines go; NULL (default) drops them. `user_data` is handed through untouched, the last time
 * when the engine's last handle is freed. Options of kind NL_OPTIONS_ENGINE alone. Since 0.2.
 */
NL_API nl_status nl_options_set_log(nl_options *options, nl_log_callback callback, void *user_data);
/*
 * Hears how far nl_engine_create has come: `done` grows from 0 to 1 while weights are loaded and the device is made
 * ready. Called on the creating thread. Another value than 0 cancels: nl_engine_create returns CANCELLED. The callback
 * must not call the library. Since 0.2.
 */
typedef int32_t (*nl_progress_callback)(void *user_data, double done);
/* Who hears about progress; NULL (default): nobody. Options of kind NL_OPTIONS_ENGINE alone. Since 0.2. */
NL_API nl_status nl_options_set_progress(nl_options *options, nl_progress_callback callback, void *user_data);

/*
 * Sees the logits from which a generation is about to draw a token, and may change them: `logits` has `num_logits`
 * elements, the model's vocabulary, minus infinity for a token that must not be drawn. `tokens` are those of the whole
 * cache, in order. What the generation's sampling options and its constraint do comes after it, on what it leaves, and
 * so do log-probabilities. Both arrays are valid during the call only. Another value than 0 ends the generation:
 * NL_END_CANCELLED. Logits that it leaves NaN or plus infinity, or all of them minus infinity, end it with
 * INVALID_ARGUMENT.
 *
 * Called by the engine's own thread, for one row at a time, while all conversations of the engine wait; on a GPU the
 * logits travel to the host and back. The callback must not call the library. Since 0.2.
 */
typedef int32_t (*nl_logits_callback)(void *user_data, NL_ARRAY(num_tokens) const int32_t *tokens, size_t num_tokens,
                                      NL_ARRAY(num_logits) float *logits, size_t num_logits);
/*
 * Who changes logits; NULL (default): nobody. Options of kind NL_OPTIONS_GENERATION alone. `user_data` is handed
 * through untouched, the last time before the generation's end can be fetched or its nl_generation_free returns, which
 * waits for a call that is under way. Since 0.2.
 */
NL_API nl_status nl_options_set_logits(nl_options *options, nl_logits_callback callback, void *user_data);

/* Number formats of weights on the device, activations and the key-value cache. Since 0.1. */
enum NL_NAMED(Dtype, NL_DTYPE_) {
    NL_DTYPE_AUTO = 0, /* the model files' own format, or bf16 where the device does not compute in that */
    NL_DTYPE_F32 = 1,
    NL_DTYPE_F16 = 2, /* CUDA only */
    NL_DTYPE_BF16 = 3,
    NL_DTYPE_F8_E4M3 = 4 /* of keys and values alone: 1 sign, 4 exponent and 3 fraction bits, no infinities, values up
                            to 448 (Micikevicius et al., FP8 Formats for Deep Learning, 2022) */
};

/*
 * How matrices of weights are kept in memory. Activations, norms, biases and the routers of experts are not quantised:
 * whatever is chosen here, they have NL_OPTION_DTYPE's format or a wider one. Matrices that a file has in 8 or 4 bits
 * are not quantised again: they stay as they are with all of these but NL_WEIGHTS_WIDE. Since 0.2.
 */
enum NL_NAMED(Weights, NL_WEIGHTS_) {
    /* In the files' own form where the device computes with it. On the CPU and on Hopper GPUs the blocks of a GGUF file
       and the weights of AWQ, GPTQ, compressed-tensors and fp8 checkpoints are kept in 8 or 4 bits. Everything else is
       as with NL_WEIGHTS_WIDE */
    NL_WEIGHTS_AUTO = 0,
    NL_WEIGHTS_WIDE = 1, /* in NL_OPTION_DTYPE's format */
    /* 8-bit integers, rounded to nearest, and a float16 scale, max|w| / 127, for each 32 weights along a row: 8.5 bits
       a weight */
    NL_WEIGHTS_INT8 = 2,
    /* 4-bit codes, and a scale and a minimum for each 32 weights along a row. Each of these two has 7 bits, which count
       in 127ths of the largest among 256 weights: 4.6 bits a weight. Embeddings and head as with NL_WEIGHTS_INT8 */
    NL_WEIGHTS_INT4 = 3,
    /* 8-bit floats (e4m3) and a scale, max|w| / 448, for each row: 8 bits a weight */
    NL_WEIGHTS_FP8 = 4
};

/*
 * Options of an engine. Since 0.2.
 * Bounds stand in brackets, here and below; nl_option_bounds_int and nl_option_describe tell them too.
 */
enum NL_NAMED(EngineOption, NL_OPTION_) {
    /* "auto" (default: CUDA where there is a GPU and its backend, else the CPU), "cpu", "cuda" or "cuda:1".
       [1 to 64 bytes] */
    NL_OPTION_DEVICE = 1 NL_TAKES_TEXT,
    /* Format of weights and activations. [NL_DTYPE_AUTO (default) to NL_DTYPE_BF16] */
    NL_OPTION_DTYPE = 2 NL_TAKES_CHOICE(Dtype),
    /* Format of keys and values in pages. NL_DTYPE_AUTO: as the activations. [NL_DTYPE_AUTO (default) to
       NL_DTYPE_F8_E4M3] */
    NL_OPTION_KV_DTYPE = 3 NL_TAKES_CHOICE(Dtype),
    /* Tokens a page, a power of two. [16 to 256; default 64] */
    NL_OPTION_PAGE_SIZE = 4 NL_TAKES_INT,
    /* Pages in the pool; 0 sizes the pool from the model and the memory that is free. [0 (default) to 2147483647] */
    NL_OPTION_NUM_PAGES = 5 NL_TAKES_INT,
    /*
     * Longest context of a cache in tokens, at most the model's own; 0 takes the model's. Models with LongRoPE (Phi 3
     * and 4) rotate contexts beyond their original one in another way: 0 takes the original context, a longer one the
     * angles for long contexts, whatever a cache holds. [0 (default) to 2147483647]
     */
    NL_OPTION_MAX_CONTEXT = 6 NL_TAKES_INT,
    /* Most tokens computed in one step: longer prefills are cut into slices. [1 to 65536; default 2048] */
    NL_OPTION_MAX_BATCH_TOKENS = 7 NL_TAKES_INT,
    /* Most conversations that get a token in one step. [1 to 4096; default 256] */
    NL_OPTION_MAX_OUTPUT_ROWS = 8 NL_TAKES_INT,
    /* Milliseconds that a step may take which prefills beside running conversations; its slices of the prefill are cut
       to fit. 0 takes 25, or more where smaller slices would cost prefills over a tenth of their speed.
       [0 (default) to 1000000] */
    NL_OPTION_STEP_MS = 9 NL_TAKES_FLOAT,
    /* Most requests that wait to be computed; one more is NL_ERROR_BUSY. [1 to 1048576; default 4096] */
    NL_OPTION_QUEUE_LIMIT = 10 NL_TAKES_INT,
    /* CPU threads; 0 takes the cores that the process may use. [0 (default) to 1024] */
    NL_OPTION_THREADS = 11 NL_TAKES_INT,
    /* 1: everything is made ready while the engine is created; 0: when it is needed first. [0 or 1 (default)] */
    NL_OPTION_WARM_UP = 12 NL_TAKES_BOOL,
    /*
     * 1: a token's logits do not depend on what else is computed in the same step, so a seeded or greedy answer is the
     * same to the bit alone and beside any others, however prefills are sliced. 0: the fastest way for the number of
     * rows is taken, and sums are rounded in another order. With 1, products are made in blocks of as many rows and
     * attention neither splits a context nor reads a shared chunk once for several conversations. Answers are those of
     * one device, library version and set of engine options, except the limits of a step and of the pool.
     * [0 (default) or 1]
     */
    NL_OPTION_BATCH_INVARIANT = 13 NL_TAKES_BOOL,
    /*
     * 1: on the CPU, weights that have the engine's dtype in their files are used where they lie: the files stay mapped
     * while the engine lives, and one that is cut short or written to meanwhile ends the process (SIGBUS) or changes
     * answers. 0: all weights are read into memory, and files may change as they like once the engine is there. A GPU
     * has its own copy either way. [0 or 1 (default)]
     */
    NL_OPTION_MAP_WEIGHTS = 14 NL_TAKES_BOOL,
    /* 1: weights that are NaN or infinite are logged; 0: they are BAD_MODEL. [0 (default) or 1] */
    NL_OPTION_ALLOW_NOT_FINITE = 15 NL_TAKES_BOOL,
    /*
     * 1: each phase of each step is timed, and when the engine is gone the log has a table (NL_LOG_INFO): milliseconds
     * a step, GB/s, TFLOP/s, and the share of what the device's memory and its products can do at most, for steps that
     * only decode and for the others. A GPU then runs one step at a time, which makes it slower; while an engine on
     * the CPU is created, the speed of memory is measured (0.2 s). [0 (default) or 1]
     */
    NL_OPTION_PROFILE = 16 NL_TAKES_BOOL,
    /*
     * 1: a conversation whose beginning is that of another one, now or before, takes over the whole pages of it that
     * are still there instead of computing them, without being asked: the same chunks, then the same tokens.
     * NL_CACHE_TOKENS_REUSED counts them. Pages that nobody uses count as free and are kept
     * for this until others need them, at most as many as were ever in use at once. 0: everything that is not in a
     * chunk is computed. Sums may be rounded in another order than where a conversation computes all by itself, unless
     * NL_OPTION_BATCH_INVARIANT is 1. [0 or 1 (default)]
     */
    NL_OPTION_SHARE_PREFIXES = 17 NL_TAKES_BOOL,
    /*
     * A folder where chunks are kept in files: those that are computed are written there by a thread of the library,
     * and those that are asked for are looked for there before they are computed, by this engine, later ones, and other
     * processes at the same time. It is made where there is none. A file fits engines as nl_chunk_save says; the first
     * chunk waits until the weight files are read once more, which the folder remembers. Freeing an engine's last
     * handle waits until its chunks are written. A file that is damaged is logged, removed and computed again, and
     * where the folder can't be used, or the disk is full, that is logged and chunks are computed. Whoever may write to
     * the folder decides what is read as the chunks' keys and values. [at most 4096 bytes; default empty: none]
     */
    NL_OPTION_STORE_FOLDER = 18 NL_TAKES_TEXT,
    /* Most bytes of the chunk files in that folder; those used longest ago are removed. 0: no limit.
       [0 (default) to INT64_MAX] */
    NL_OPTION_STORE_BYTES = 19 NL_TAKES_INT,
    /*
     * Bytes of the host's memory, page-locked for a GPU, that are reserved while the engine is created: chunks that are
     * evicted from the device's pages go there, and come back when they are asked for, which is faster than computing
     * them. [0 (default) to INT64_MAX]
     */
    NL_OPTION_HOST_BYTES = 20 NL_TAKES_INT,
    /*
     * A Redis or Valkey server where chunks are kept for the engines of several machines, which so compute a document
     * once: chunks that are computed are written there by a thread of the library, and those that neither the device
     * nor the tiers above have are looked for there.
     * The address is one of
     *   redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]
     *   rediss://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE][?ca=FILE&cert=FILE&key=FILE], encrypted by TLS 1.2 or newer
     *   unix:PATH, a socket of this machine
     * Characters of USER, PASSWORD and FILE that could be taken for parts of the address (such as : @ ? & %) are
     * written as %XX, a byte as two hexadecimal digits.
     * With rediss:// the server's certificate must name HOST and be signed by a certificate authority: one that the
     * system trusts or, if ca is given, one whose certificate is in that file. This check can't be switched off. If the
     * server asks its clients for a certificate, cert is a file with the engine's certificate, followed by the
     * intermediate ones up to its authority, and key is a file with that certificate's private key, not encrypted. The
     * three files have the PEM format. They are read when the engine is created, which fails if one of them can't be
     * used, and again for each connection.
     * The library loads libnanolith_redis.so, from the folder that it lies in itself, to talk to the server. If that
     * file is missing, nl_engine_create fails with NOT_FOUND. If the address begins with rediss:// and the file was
     * built without OpenSSL, nl_engine_create fails with UNSUPPORTED.
     * A server that fails costs time, never a wrong answer. If the engine can't reach it, does not trust its
     * certificate, gets no answer in time, or gets damaged bytes, or if the server has no memory left, the engine
     * writes one line to the log, computes the chunk itself, and tries the server again a second later.
     * Whoever can write to the server can replace the keys and values of chunks by others, and thereby change what
     * engines answer. [at most 4096 bytes; default empty: no server]
     */
    NL_OPTION_STORE_SERVER = 21 NL_TAKES_TEXT,
    /* Milliseconds that reading a chunk from that server, or writing it there, may take, beside resolving the host's
       name; then the chunk is computed, or not kept. [1 to 600000; default 1000] */
    NL_OPTION_STORE_DEADLINE_MS = 22 NL_TAKES_INT,
    /* How weight matrices are kept in memory: with 16 bits or more a weight, or quantised to 8 or 4 bits while the
       model is loaded. Equal weights are always quantised to equal codes. Quantised weights take less memory. Decoding
       is faster with them than with 16-bit weights on a CPU, and for a few conversations on a Hopper GPU (compute
       capability 9.0). A step of more than about 100 tokens, such as a prefill's, takes up to a fifth longer with them
       on a Hopper GPU. On other GPUs no step is faster with them, because each product first converts its matrix to the
       engine's dtype.
       [NL_WEIGHTS_AUTO (default) to NL_WEIGHTS_FP8] */
    NL_OPTION_WEIGHTS = 23 NL_TAKES_CHOICE(Weights)
};

/* How a cache composes its chunks. Since 0.1. */
enum NL_NAMED(Composition, NL_COMPOSE_) {
    /*
     * Every chunk is used as computed after the very chunks that stand before it in this cache: the same
     * numbers as a full prefill, to rounding. Where the store has no such version yet it is computed now
     * and kept, so that caches with a common beginning share it (a prefix tree).
     */
    NL_COMPOSE_EXACT = 0,
    /*
     * Every chunk is used as it was prefilled, at whatever position: nothing is computed. Tokens of a chunk
     * have not seen the chunks before it (unless they were in its `before`), which costs accuracy where
     * one document refers to another.
     */
    NL_COMPOSE_INDEPENDENT = 1,
    /*
     * As NL_COMPOSE_INDEPENDENT, but some tokens of the chunks are recomputed, with all tokens before them in view.
     * Which ones: those that the appended tokens attend to most. NL_OPTION_BLEND_SHARE limits how many. If that limit
     * is eight pages or more, whole pages are recomputed; if it is less, groups of four tokens in up to eight pages.
     * Pages without a recomputed token stay shared between caches.
     * When: the call or generation that appends tokens first chooses and recomputes tokens of the chunks, and then
     * computes the appended ones. Only the last 64 appended tokens are looked at for the choice, or half of
     * NL_OPTION_MAX_BATCH_TOKENS if that is less. So append a whole question in one call. Later calls recompute
     * further tokens until the share of NL_OPTION_BLEND_SHARE is used up; no cache recomputes a token twice. Chunks of
     * level 0 at the beginning of the cache are composed exactly.
     * Pages with recomputed tokens are kept until their memory is needed, and other caches with the same chunks in the
     * same order use them. An answer may therefore depend on what other caches were asked about these chunks earlier.
     * With NL_OPTION_BATCH_INVARIANT it does not: every cache recomputes tokens for itself.
     * The whole cache is composed as NL_COMPOSE_EXACT instead, and NL_CACHE_COMPOSITION says so, if the share is above
     * a half, or if the chunks have at most 64 tokens and the share of these is fewer than four. Since 0.2.
     */
    NL_COMPOSE_BLENDED = 2
};

/* Options of a cache. Since 0.2. */
enum NL_NAMED(CacheOption, NL_OPTION_) {
    /* How chunks are composed. [NL_COMPOSE_EXACT (default), NL_COMPOSE_INDEPENDENT or NL_COMPOSE_BLENDED] */
    NL_OPTION_COMPOSITION = 100 NL_TAKES_CHOICE(Composition),
    /*
     * For NL_COMPOSE_BLENDED: the largest part of the chunks' tokens that a cache recomputes; 0.1 is a tenth of them.
     * Groups of four tokens are recomputed (a chunk's last group may have fewer), so that a limit of fewer than four
     * tokens mostly recomputes none. 0 stands for 0.1. Since 0.2.
     * [0 (default) to 1]
     */
    NL_OPTION_BLEND_SHARE = 101 NL_TAKES_FLOAT
};

/* The filters that narrow the choice of a token, for NL_OPTION_FILTER. Since 0.2. */
enum NL_NAMED(Filter, NL_FILTER_) {
    NL_FILTER_TEMPERATURE = 1,
    NL_FILTER_TOP_K = 2,
    NL_FILTER_TYPICAL_P = 3,
    NL_FILTER_TOP_P = 4,
    NL_FILTER_MIN_P = 5,
    NL_FILTER_XTC = 6
};

/*
 * Options of drawing. Since 0.2.
 * A token is drawn in three steps. First, the logits of single tokens are changed: biases are added and banned tokens
 * are left out; the repetition, frequency and presence penalties change the logits of tokens that the context contains;
 * DRY lowers those of tokens that would continue a repetition. Where there is a list of allowed tokens, all others are
 * left out. Second, with temperature 0, the default, the token with the highest logit is taken, of equal ones that with
 * the lowest id. Otherwise filters narrow the choice one after the other, each among the tokens that the filters before
 * it kept. Their order is temperature, top-k, typical-p, top-p, min-p, XTC, or what NL_OPTION_FILTER says; Mirostat is
 * always the last one. Filters keep or drop tokens of equal logits together, and always keep at least one. (llama.cpp's
 * default order has temperature last, so that there it does not change which tokens are kept.) Third, the token is
 * drawn from those that are left, by their probabilities.
 *
 * The draw depends only on the logits, these options, the seed, the position in the context and, where penalties, DRY
 * or Mirostat are on, the tokens before it; not on what else the engine computes. Where penalties, DRY or Mirostat are
 * on, a conversation's next step is planned only when its latest token is known; on a GPU the other conversations that
 * share its steps wait for that too.
 */
enum NL_NAMED(SamplingOption, NL_OPTION_) {
    /* What logits are divided by. 0: greedy. [0 (default) to 3e38] */
    NL_OPTION_TEMPERATURE = 200 NL_TAKES_FLOAT,
    /* Keeps the k highest logits, and ties with the k-th. 0 keeps all. [0 (default) to 2147483647] */
    NL_OPTION_TOP_K = 201 NL_TAKES_INT,
    /* Keeps the most probable tokens until their share of what is left reaches p. 1 keeps all.
       [1e-30 to 1 (default)] */
    NL_OPTION_TOP_P = 202 NL_TAKES_FLOAT,
    /* Keeps the tokens whose probability is at least this times that of the most probable one. 0 keeps all.
       [0 (default) to 1] */
    NL_OPTION_MIN_P = 203 NL_TAKES_FLOAT,
    /* The seed of the random numbers that tokens are drawn with: all of its 64 bits count.
       [INT64_MIN to INT64_MAX; default 0] */
    NL_OPTION_SEED = 204 NL_TAKES_INT,
    /* The logit of each token in the penalties' window (NL_OPTION_PENALTY_WINDOW) is divided by this where it is
       positive, else multiplied by it. 1: off. [0.001 to 1000; default 1] */
    NL_OPTION_REPETITION_PENALTY = 205 NL_TAKES_FLOAT,
    /* Is subtracted from a token's logit once for each time that the token stands in the penalties' window.
       [-100 to 100; default 0] */
    NL_OPTION_FREQUENCY_PENALTY = 206 NL_TAKES_FLOAT,
    /* Is subtracted once from the logit of each token in the penalties' window. [-100 to 100; default 0] */
    NL_OPTION_PRESENCE_PENALTY = 207 NL_TAKES_FLOAT,
    /* The number of latest tokens of the context, prompt included, that the repetition, frequency and presence
       penalties look at. Drawing a token takes time in proportion to it. [1 to 2147483647; default 64] */
    NL_OPTION_PENALTY_WINDOW = 208 NL_TAKES_INT,
    /* A token, a colon, and what is added to the token's logit, from -1000000 to 1000000: "198:-2.5" or "13:100". Each
       token once.
       [each 3 to 64 bytes; default none] */
    NL_OPTION_BIASED_TOKEN = 209 NL_TAKES_TEXT_LIST,
    /* Tokens that are never drawn. [each 0 to 2147483647; default none] */
    NL_OPTION_BANNED_TOKEN = 210 NL_TAKES_INT_LIST,
    /* The only tokens that may be drawn. An end token is drawn only if it is one of them. None: all may be drawn.
       [each 0 to 2147483647; default none] */
    NL_OPTION_ALLOWED_TOKEN = 211 NL_TAKES_INT_LIST,
    /*
     * DRY ("don't repeat yourself"), as llama.cpp defines it. Where the context's latest n tokens occurred earlier in
     * it, the token that followed them there would continue a repetition: multiplier * base ^ (n - allowed length) is
     * subtracted from its logit, for the largest such n, if that is at least the allowed length. 0: off.
     * [0 (default) to 1000000]
     */
    NL_OPTION_DRY_MULTIPLIER = 212 NL_TAKES_FLOAT,
    /* The factor by which DRY's penalty grows with each further repeated token. [1 to 100; default 1.75] */
    NL_OPTION_DRY_BASE = 213 NL_TAKES_FLOAT,
    /* The least number of repeated tokens that DRY penalises. [1 to 2147483647; default 2] */
    NL_OPTION_DRY_ALLOWED_LENGTH = 214 NL_TAKES_INT,
    /* The number of latest tokens of the context that DRY looks at. Drawing a token takes time in proportion to it.
       llama.cpp's default is the whole context. [1 to 2147483647; default 1024] */
    NL_OPTION_DRY_WINDOW = 215 NL_TAKES_INT,
    /* Texts that end a repetition: DRY counts no tokens from before the last of them. If none is given they are a
       newline, ":", "\"" and "*"; one empty text alone means no breakers. Models without a tokenizer have none.
       [each 0 to 40 bytes; default none] */
    NL_OPTION_DRY_BREAKER = 216 NL_TAKES_TEXT_LIST,
    /* XTC ("exclude top choices"), as llama.cpp defines it: with this probability a draw drops, of the tokens that are
       at least as probable as the threshold, all but the least probable one. 0: off. [0 (default) to 1] */
    NL_OPTION_XTC_PROBABILITY = 217 NL_TAKES_FLOAT,
    /* XTC's threshold, a probability. Above 0.5 nothing is dropped. [1e-30 to 1; default 0.1] */
    NL_OPTION_XTC_THRESHOLD = 218 NL_TAKES_FLOAT,
    /* Keeps the tokens whose surprise, -log(probability), is nearest to the mean surprise, until their share reaches
       this number. 1 keeps all.
       [1e-30 to 1 (default)] */
    NL_OPTION_TYPICAL_P = 219 NL_TAKES_FLOAT,
    /*
     * Mirostat 2 (Basu et al., Mirostat, 2021): keeps the tokens whose surprise, -log2(probability), is at most a
     * bound, or else the most probable one. This option is the surprise in bits that it aims at. The bound begins at
     * twice that; after each draw it falls by eta * (surprise of the token - this target). It begins anew when sampling
     * options are set, and when the cache is truncated or loaded; a fork continues with its cache's bound. 0: off.
     * [0 (default) to 1000]
     */
    NL_OPTION_MIROSTAT_TAU = 220 NL_TAKES_FLOAT,
    /* How fast Mirostat's bound follows the surprise of the tokens drawn. [1e-30 to 1; default 0.1] */
    NL_OPTION_MIROSTAT_ETA = 221 NL_TAKES_FLOAT,
    /* The order in which filters are applied: NL_FILTER_*, each once at most. A filter that is left out must be off.
       None: temperature, top-k, typical-p, top-p, min-p, XTC. [each 1 to 6; default none] */
    NL_OPTION_FILTER = 222 NL_TAKES_INT_LIST
};

/* Options of a generation. Since 0.2. */
enum NL_NAMED(GenerationOption, NL_OPTION_) {
    /* Most tokens to draw; 0: until the context is full. [0 (default) to 2147483647] */
    NL_OPTION_MAX_TOKENS = 300 NL_TAKES_INT,
    /* The least number of tokens to draw. Until so many are drawn, end tokens and stop tokens can't be drawn, and stop
       texts do not end it. A constrained text that can only end does so all the same. [0 (default) to 2147483647] */
    NL_OPTION_MIN_TOKENS = 301 NL_TAKES_INT,
    /* Tokens that end it, beside the model's end tokens. [each 0 to 2147483647; default none] */
    NL_OPTION_STOP_TOKEN = 302 NL_TAKES_INT_LIST,
    /* 1: the model's own end tokens (nl_engine_is_end_token) end it. [0 or 1 (default)] */
    NL_OPTION_END_TOKENS = 303 NL_TAKES_BOOL,
    /* Texts that end it; the text that it gives ends before them. [each 1 to 1024 bytes; default none] */
    NL_OPTION_STOP_TEXT = 304 NL_TAKES_TEXT_LIST,
    /* Milliseconds from its start after which it ends; 0: none. [0 (default) to 2147483647] */
    NL_OPTION_DEADLINE_MS = 305 NL_TAKES_INT,
    /* Higher ones are served first. [-100 to 100; default 0] */
    NL_OPTION_PRIORITY = 306 NL_TAKES_INT,
    /* Tokens that wait for nl_generation_next before the generation pauses. [1 to 1048576; default 1024] */
    NL_OPTION_BUFFER_TOKENS = 307 NL_TAKES_INT,
    /* 1: tokens are turned into text. 0: they are not, and stop texts are not allowed. [0 or 1 (default)] */
    NL_OPTION_TEXT = 308 NL_TAKES_BOOL,
    /* 1: the log-probability of each token drawn is kept, for nl_generation_logprobs. [0 (default) or 1] */
    NL_OPTION_LOGPROBS = 309 NL_TAKES_BOOL,
    /* How many most probable tokens are kept with their log-probabilities for each token drawn, for
       nl_generation_top_logprobs. More than 0 needs NL_OPTION_LOGPROBS to be 1. [0 (default) to 20] */
    NL_OPTION_TOP_LOGPROBS = 310 NL_TAKES_INT,
    /*
     * Constraints on the whole text of a generation, from its first token to its end: at most one of the following
     * options may be set, and the model needs a tokenizer. Only tokens with which the text can continue are drawn, and
     * end tokens only where the text satisfies the constraint. So a text that an end token ends satisfies it; a text
     * that something else ends (NL_OPTION_MAX_TOKENS, a stop text) may be only the beginning of one that does.
     * nl_generation_start refuses a constraint that is malformed (INVALID_ARGUMENT) or that can't be granted in full
     * (UNSUPPORTED), and names the byte and the keyword. docs/constraints.md says which parts of each language are
     * supported.
     */
    /* The text is one of these texts. [each 1 to 65536 bytes; default none] */
    NL_OPTION_CHOICE = 315 NL_TAKES_TEXT_LIST,
    /* The whole text matches this regular expression, in ECMAScript's syntax. [0 to 1048576 bytes; default "", none] */
    NL_OPTION_REGEX = 316 NL_TAKES_TEXT,
    /* The text is JSON that satisfies this JSON schema. [0 to 1048576 bytes; default "", none] */
    NL_OPTION_JSON_SCHEMA = 317 NL_TAKES_TEXT,
    /* 1: the text is a JSON object. [0 (default) or 1] */
    NL_OPTION_JSON_OBJECT = 318 NL_TAKES_BOOL,
    /* The whole text is derived from the rule `root` of this grammar, in llama.cpp's EBNF.
       [0 to 1048576 bytes; default "", none] */
    NL_OPTION_GRAMMAR = 319 NL_TAKES_TEXT,
    /* How many of the cache's last tokens are the beginning of the constrained text; the generation continues that
       text. The tokens given to nl_generation_start are appended to the cache first, and can be part of the beginning.
       It may be what an earlier generation drew before it ended early, in the same cache or in a fork of it, or words
       that the caller wants the text to begin with. NL_ERROR_INVALID_ARGUMENT if the constraint does not allow this
       beginning, or allows no token after it. [0 (default) to 2147483647] */
    NL_OPTION_CONSTRAINED_TOKENS = 320 NL_TAKES_INT,
    /*
     * 1: where the constraint leaves only one way to continue the text, such as the rest of a property's name, the
     * model does not draw these characters. The tokenizer encodes them, and one step appends their tokens to the
     * cache: at most 256, even if NL_OPTION_BUFFER_TOKENS is less. The model might have spelled the same characters
     * with other tokens. Unless the text ends with these characters, the last of their tokens is not appended but
     * drawn by the model, because a longer token may begin with the same characters. The logits callback is called
     * for tokens that the model draws, not for those that are appended. NL_ERROR_INVALID_ARGUMENT if
     * NL_OPTION_LOGPROBS is 1. [0 (default) or 1]
     */
    NL_OPTION_JUMP_AHEAD = 321 NL_TAKES_BOOL
};

/* ---- Drawing step by step ------------------------------------------------------------------- */

/*
 * For programs that choose tokens themselves or bring their own loop; all others start generations.
 *
 * Draws one token for each of `num_caches` caches in one batch, appends it to its cache and writes it to
 * tokens[i]. The caches must be different, of one engine, and not empty. Either all of them advance or,
 * on an error, none. From the third such call in a row on, a cache's token may have been computed since the call
 * before. Since 0.1.
 * Errors: INVALID_ARGUMENT, OUT_OF_PAGES, CONTEXT_FULL (NL_DETAIL_INDEX is which cache), OUT_OF_MEMORY, DEVICE, BUSY,
 * CANCELLED.
 */
NL_API nl_status nl_decode_step(NL_ARRAY(num_caches) nl_cache *const *caches, size_t num_caches,
                                NL_ARRAY(num_caches) int32_t *tokens);
/*
 * The float32 logits for the token after the last one, NL_ENGINE_VOCAB_SIZE of them. The cache must not be empty.
 * Since 0.1.
 */
NL_API nl_status nl_cache_logits(nl_cache *cache, NL_ARRAY(capacity) float *logits, size_t capacity,
                                 NL_OUT size_t *count);

/* ---- What the library tells about models and itself ----------------------------------------- */

/* How nl_model_describe writes. Since 0.2. */
enum NL_NAMED(DescribeFormat, NL_DESCRIBE_) {
    NL_DESCRIBE_TEXT = 0, /* lines "name: value", each ended by a newline, for people to read */
    NL_DESCRIBE_JSON = 1  /* one JSON object with the same names, numbers as numbers */
};
/*
 * What the Hugging Face folder or GGUF file at `path` is and what of it can be used, without loading weights. "model",
 * "tokenizer" and "chat format" are among the names, each "supported" (or the format's name), or "none", "not
 * supported" or "not usable" and the reason, which names the file, the field or tensor, its value and what is
 * supported. A part that can't be used is no error of this call. An engine on CUDA may refuse what the CPU computes.
 * `format` is one of NL_DESCRIBE_*. Since 0.1; `format` and GGUF files since 0.2. Errors: INVALID_ARGUMENT, NOT_FOUND
 * (no such folder or file), BUFFER_TOO_SMALL, OUT_OF_MEMORY.
 */
NL_API nl_status nl_model_describe(NL_ARRAY(path_length) const char *path, size_t path_length, int32_t format,
                                   NL_ARRAY(capacity) char *buffer, size_t capacity, NL_OUT size_t *length);

/*
 * The options of a kind (NL_OPTIONS_*) as a JSON array of objects, in the order of their keys: "name" ("PAGE_SIZE"),
 * "key", "type" ("int", "float", "text", "int list" or "text list"), "least", "most" (of texts: bytes), "default" (of
 * lists: an empty array) and "doc", one sentence. Since 0.2.
 */
NL_API nl_status nl_option_describe(int32_t kind, NL_ARRAY(capacity) char *buffer, size_t capacity,
                                    NL_OUT size_t *length);
/*
 * Bounds and default of an option that takes integers or a list of them (whose default is 0 and means nothing).
 * Since 0.2.
 */
NL_API nl_status nl_option_bounds_int(int32_t option, NL_OUT int64_t *least, NL_OUT int64_t *most,
                                      NL_OUT int64_t *standard);
/* Bounds and default of an option that takes floats. Since 0.2. */
NL_API nl_status nl_option_bounds_float(int32_t option, NL_OUT double *least, NL_OUT double *most,
                                        NL_OUT double *standard);

/* What facts are about, for nl_fact_describe. Since 0.2. */
enum NL_NAMED(FactsKind, NL_FACTS_) {
    NL_FACTS_ENGINE = 1,
    NL_FACTS_TOKENIZER = 2,
    NL_FACTS_CHUNK = 3,
    NL_FACTS_CACHE = 4,
    NL_FACTS_GENERATION = 5
};
/*
 * The facts of a kind (NL_FACTS_*) as a JSON array of objects, in the order of their keys: "name" ("PAGE_SIZE"), "key",
 * "unit" ("tokens", "bytes" and so on) and "doc", one sentence. Since 0.2.
 */
NL_API nl_status nl_fact_describe(int32_t kind, NL_ARRAY(capacity) char *buffer, size_t capacity,
                                  NL_OUT size_t *length);

#ifdef __cplusplus
}
#endif
#endif
