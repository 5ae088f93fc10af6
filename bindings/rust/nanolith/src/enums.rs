// Written by bindings/generate.py from include/nanolith/nanolith.h. Do not edit.

use nanolith_sys as sys;

/// What became of a call. Values never change their meaning; new ones may be added. Since 0.1.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

impl Status {
    /// `NL_OK`
    pub const OK: Status = Status(sys::NL_OK);
    /// an argument is out of its range, or arguments don't fit together
    pub const INVALID_ARGUMENT: Status = Status(sys::NL_ERROR_INVALID_ARGUMENT);
    /// a file, a token or a device that was named does not exist
    pub const NOT_FOUND: Status = Status(sys::NL_ERROR_NOT_FOUND);
    /// a model file is damaged or contradicts itself
    pub const BAD_MODEL: Status = Status(sys::NL_ERROR_BAD_MODEL);
    /// well-formed, but this version can't do it
    pub const UNSUPPORTED: Status = Status(sys::NL_ERROR_UNSUPPORTED);
    /// host or device memory is exhausted
    pub const OUT_OF_MEMORY: Status = Status(sys::NL_ERROR_OUT_OF_MEMORY);
    /// the page pool has too few free pages
    pub const OUT_OF_PAGES: Status = Status(sys::NL_ERROR_OUT_OF_PAGES);
    /// the context would grow beyond its maximum length
    pub const CONTEXT_FULL: Status = Status(sys::NL_ERROR_CONTEXT_FULL);
    /// the caller's buffer is too small; the needed size was written
    pub const BUFFER_TOO_SMALL: Status = Status(sys::NL_ERROR_BUFFER_TOO_SMALL);
    /// the device or its driver failed
    pub const DEVICE: Status = Status(sys::NL_ERROR_DEVICE);
    /// a defect of the library; please report it
    pub const INTERNAL: Status = Status(sys::NL_ERROR_INTERNAL);
    /// the call was cancelled. Since 0.2
    pub const CANCELLED: Status = Status(sys::NL_ERROR_CANCELLED);
    /// the time given was over first; the call may be made again. Since 0.2
    pub const TIMEOUT: Status = Status(sys::NL_ERROR_TIMEOUT);
    /// the cache is generating, or too many requests wait already. Since 0.2
    pub const BUSY: Status = Status(sys::NL_ERROR_BUSY);
    /// reading or writing failed. Since 0.2
    pub const IO: Status = Status(sys::NL_ERROR_IO);
    /// a saved chunk or cache is damaged, or of another model or page format. Since 0.2
    pub const BAD_FILE: Status = Status(sys::NL_ERROR_BAD_FILE);
}

/// Numbers that an error may have, for nl_last_error_detail. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Detail(pub i32);

impl Detail {
    /// which list element the error is about, from 0: which cache of nl_decode_step
    pub const INDEX: Detail = Detail(sys::NL_DETAIL_INDEX);
    /// what the call needed: pages (OUT_OF_PAGES), tokens (CONTEXT_FULL), elements or bytes
    /// (BUFFER_TOO_SMALL), bytes (OUT_OF_MEMORY)
    pub const NEEDED: Detail = Detail(sys::NL_DETAIL_NEEDED);
    /// what there was of it
    pub const AVAILABLE: Detail = Detail(sys::NL_DETAIL_AVAILABLE);
}

/// Facts about an engine, for nl_engine_query. Since 0.1.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EngineFact(pub i32);

impl EngineFact {
    /// logits a token
    pub const VOCAB_SIZE: EngineFact = EngineFact(sys::NL_ENGINE_VOCAB_SIZE);
    /// `NL_ENGINE_NUM_LAYERS`
    pub const NUM_LAYERS: EngineFact = EngineFact(sys::NL_ENGINE_NUM_LAYERS);
    /// `NL_ENGINE_HIDDEN_SIZE`
    pub const HIDDEN_SIZE: EngineFact = EngineFact(sys::NL_ENGINE_HIDDEN_SIZE);
    /// query heads
    pub const NUM_HEADS: EngineFact = EngineFact(sys::NL_ENGINE_NUM_HEADS);
    /// `NL_ENGINE_NUM_KV_HEADS`
    pub const NUM_KV_HEADS: EngineFact = EngineFact(sys::NL_ENGINE_NUM_KV_HEADS);
    /// `NL_ENGINE_HEAD_DIM`
    pub const HEAD_DIM: EngineFact = EngineFact(sys::NL_ENGINE_HEAD_DIM);
    /// tokens a cache may hold
    pub const MAX_CONTEXT: EngineFact = EngineFact(sys::NL_ENGINE_MAX_CONTEXT);
    /// NL_DTYPE_\*, never AUTO
    pub const DTYPE: EngineFact = EngineFact(sys::NL_ENGINE_DTYPE);
    /// tokens a page
    pub const PAGE_SIZE: EngineFact = EngineFact(sys::NL_ENGINE_PAGE_SIZE);
    /// bytes a page, over all layers
    pub const PAGE_BYTES: EngineFact = EngineFact(sys::NL_ENGINE_PAGE_BYTES);
    /// `NL_ENGINE_PAGES_TOTAL`
    pub const PAGES_TOTAL: EngineFact = EngineFact(sys::NL_ENGINE_PAGES_TOTAL);
    /// on the free list now
    pub const PAGES_FREE: EngineFact = EngineFact(sys::NL_ENGINE_PAGES_FREE);
    /// of chunks that nobody uses and that are not pinned; freed when pages run short
    pub const PAGES_EVICTABLE: EngineFact = EngineFact(sys::NL_ENGINE_PAGES_EVICTABLE);
    /// weights of the model, a tied head counted once
    pub const PARAMETERS: EngineFact = EngineFact(sys::NL_ENGINE_PARAMETERS);
    /// chunks in the device's pages now. This fact and the following since 0.2
    pub const CHUNKS: EngineFact = EngineFact(sys::NL_ENGINE_CHUNKS);
    /// chunks in the host's memory now (NL_OPTION_HOST_BYTES)
    pub const HOST_CHUNKS: EngineFact = EngineFact(sys::NL_ENGINE_HOST_CHUNKS);
    /// bytes that the chunks in the host's memory take now
    pub const HOST_BYTES: EngineFact = EngineFact(sys::NL_ENGINE_HOST_BYTES);
    /// chunks in files now, as far as the engine knows (NL_OPTION_STORE_FOLDER)
    pub const FILE_CHUNKS: EngineFact = EngineFact(sys::NL_ENGINE_FILE_CHUNKS);
    /// bytes that these files take now
    pub const FILE_BYTES: EngineFact = EngineFact(sys::NL_ENGINE_FILE_BYTES);
    /// how many times a chunk was asked for that was in the device's pages
    pub const HITS: EngineFact = EngineFact(sys::NL_ENGINE_HITS);
    /// how many times a chunk was asked for that was copied from the host's memory
    pub const HOST_HITS: EngineFact = EngineFact(sys::NL_ENGINE_HOST_HITS);
    /// how many times a chunk was asked for that was read from a file
    pub const FILE_HITS: EngineFact = EngineFact(sys::NL_ENGINE_FILE_HITS);
    /// how many times a chunk was asked for that had to be computed
    pub const MISSES: EngineFact = EngineFact(sys::NL_ENGINE_MISSES);
    /// tokens of chunks that were asked for and did not have to be computed
    pub const TOKENS_REUSED: EngineFact = EngineFact(sys::NL_ENGINE_TOKENS_REUSED);
    /// tokens of chunks that were asked for and had to be computed
    pub const TOKENS_COMPUTED: EngineFact = EngineFact(sys::NL_ENGINE_TOKENS_COMPUTED);
    /// chunks that were evicted from the device's pages
    pub const EVICTIONS: EngineFact = EngineFact(sys::NL_ENGINE_EVICTIONS);
    /// how many times a chunk was asked for that was read from the server
    pub const SERVER_HITS: EngineFact = EngineFact(sys::NL_ENGINE_SERVER_HITS);
    /// bytes that the chunks in the device's pages take now
    pub const CHUNK_BYTES: EngineFact = EngineFact(sys::NL_ENGINE_CHUNK_BYTES);
    /// evicted chunks that were copied to the host's memory
    pub const HOST_MOVES: EngineFact = EngineFact(sys::NL_ENGINE_HOST_MOVES);
    /// chunks that were written to files of the store's folder
    pub const FILE_MOVES: EngineFact = EngineFact(sys::NL_ENGINE_FILE_MOVES);
    /// chunks that were sent to the store's server
    pub const SERVER_MOVES: EngineFact = EngineFact(sys::NL_ENGINE_SERVER_MOVES);
    /// chunks that came to the device's pages from the host's memory, files or server
    pub const DEVICE_MOVES: EngineFact = EngineFact(sys::NL_ENGINE_DEVICE_MOVES);
    /// Milliseconds that the store has saved: an estimate of what computing NL_ENGINE_TOKENS_REUSED tokens would have
    /// taken, by how fast this engine computed its latest chunks, less the time in which chunks were brought to the
    /// device. Negative where bringing them took longer; 0 until the engine has computed a chunk.
    pub const SAVED_MS: EngineFact = EngineFact(sys::NL_ENGINE_SAVED_MS);
}

/// How a text is encoded: flags for nl_tokenizer_encode. Since 0.1.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EncodeFlags(pub u32);

impl EncodeFlags {
    /// put the beginning-of-sequence token first; an error where there is none
    pub const ADD_BOS: EncodeFlags = EncodeFlags(sys::NL_ENCODE_ADD_BOS as u32);
    /// put the end-of-sequence token last
    pub const ADD_EOS: EncodeFlags = EncodeFlags(sys::NL_ENCODE_ADD_EOS as u32);
    /// Put the tokens that the model folder wants around a text (its post-processor, or its add_bos_token and
    /// add_eos_token), perhaps none. Not together with the two above.
    pub const ADD_SPECIAL: EncodeFlags = EncodeFlags(sys::NL_ENCODE_ADD_SPECIAL as u32);
    /// Read the spelling of special tokens in the text (for example "\<|im_end|>") as the characters that it is
    /// made of. Use it for text that comes from others, or it could end a message and begin another. Pieces that
    /// a tokenizer.model has as user-defined symbols are no special tokens; nl_chat_format_render cuts them too.
    pub const SPECIAL_AS_TEXT: EncodeFlags = EncodeFlags(sys::NL_ENCODE_SPECIAL_AS_TEXT as u32);
    /// Encode a long text on several threads; the tokens are the same. Only tokenizers of a tokenizer.model do so,
    /// others ignore the flag. There is one thread for each 64 KiB of text, but no more than the process has cores and
    /// no more than 16. The calling thread is one of them; the call makes the others and they end before it returns. If
    /// the system refuses to make a thread, the call goes on with those that it has. Since 0.2.
    pub const PARALLEL: EncodeFlags = EncodeFlags(sys::NL_ENCODE_PARALLEL as u32);
}

/// Facts about a tokenizer; a special token that the model does not have is -1. Since 0.1.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenizerFact(pub i32);

impl TokenizerFact {
    /// `NL_TOKENIZER_VOCAB_SIZE`
    pub const VOCAB_SIZE: TokenizerFact = TokenizerFact(sys::NL_TOKENIZER_VOCAB_SIZE);
    /// `NL_TOKENIZER_BOS`
    pub const BOS: TokenizerFact = TokenizerFact(sys::NL_TOKENIZER_BOS);
    /// `NL_TOKENIZER_EOS`
    pub const EOS: TokenizerFact = TokenizerFact(sys::NL_TOKENIZER_EOS);
    /// `NL_TOKENIZER_UNK`
    pub const UNK: TokenizerFact = TokenizerFact(sys::NL_TOKENIZER_UNK);
    /// `NL_TOKENIZER_PAD`
    pub const PAD: TokenizerFact = TokenizerFact(sys::NL_TOKENIZER_PAD);
}

/// Whose a message of a chat is. Since 0.1.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Role(pub i32);

impl Role {
    /// `NL_ROLE_SYSTEM`
    pub const SYSTEM: Role = Role(sys::NL_ROLE_SYSTEM);
    /// `NL_ROLE_USER`
    pub const USER: Role = Role(sys::NL_ROLE_USER);
    /// `NL_ROLE_ASSISTANT`
    pub const ASSISTANT: Role = Role(sys::NL_ROLE_ASSISTANT);
}

/// What rendering a chat adds to the tokens: flags for nl_chat_format_render. Since 0.1.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChatFlags(pub u32);

impl ChatFlags {
    /// end with what stands before an answer, so that the model gives one
    pub const ADD_GENERATION_PROMPT: ChatFlags = ChatFlags(sys::NL_CHAT_ADD_GENERATION_PROMPT as u32);
}

/// What nl_cache_embed makes of its tokens' hidden states. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pooling(pub i32);

impl Pooling {
    /// the last token's
    pub const LAST: Pooling = Pooling(sys::NL_POOLING_LAST);
    /// the mean of those of all of the call's tokens; what was in the cache before has no part
    pub const MEAN: Pooling = Pooling(sys::NL_POOLING_MEAN);
    /// that of each of the call's tokens, one vector after the other
    pub const NONE: Pooling = Pooling(sys::NL_POOLING_NONE);
}

/// How nl_cache_embed gives vectors: flags. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EmbedFlags(pub u32);

impl EmbedFlags {
    /// each vector is divided by its Euclidean length, so that dot products are cosines
    pub const NORMALIZED: EmbedFlags = EmbedFlags(sys::NL_EMBED_NORMALIZED as u32);
}

/// Facts about a cache, for nl_cache_query. Since 0.1.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheFact(pub i32);

impl CacheFact {
    /// `NL_CACHE_TOKENS`
    pub const TOKENS: CacheFact = CacheFact(sys::NL_CACHE_TOKENS);
    /// pages it uses, its chunks' included
    pub const PAGES: CacheFact = CacheFact(sys::NL_CACHE_PAGES);
    /// of these, pages outside chunks
    pub const PRIVATE_PAGES: CacheFact = CacheFact(sys::NL_CACHE_PRIVATE_PAGES);
    /// NL_CACHE_PAGES times page bytes
    pub const BYTES: CacheFact = CacheFact(sys::NL_CACHE_BYTES);
    /// taken from chunks, a fork's origin or other conversations, not computed
    pub const TOKENS_REUSED: CacheFact = CacheFact(sys::NL_CACHE_TOKENS_REUSED);
    /// tokens computed for this cache so far
    pub const TOKENS_COMPUTED: CacheFact = CacheFact(sys::NL_CACHE_TOKENS_COMPUTED);
    /// of these, recomputed tokens of chunks (NL_COMPOSE_BLENDED); since 0.2
    pub const TOKENS_BLENDED: CacheFact = CacheFact(sys::NL_CACHE_TOKENS_BLENDED);
    /// how its chunks were composed in the end, NL_COMPOSE_\*; since 0.2
    pub const COMPOSITION: CacheFact = CacheFact(sys::NL_CACHE_COMPOSITION);
    /// of NL_CACHE_TOKENS_REUSED, those of chunks that did not have to be computed when the cache was created; since
    /// 0.2
    pub const CHUNK_TOKENS_REUSED: CacheFact = CacheFact(sys::NL_CACHE_CHUNK_TOKENS_REUSED);
    /// Milliseconds that the store has saved this cache: an estimate of what computing NL_CACHE_TOKENS_REUSED tokens
    /// would have taken, by how fast the engine computed its latest chunks, less the time in which chunks were brought
    /// to the device when the cache was created. Since 0.2.
    pub const SAVED_MS: CacheFact = CacheFact(sys::NL_CACHE_SAVED_MS);
}

/// Why a generation ended. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndReason(pub i32);

impl EndReason {
    /// it has not ended, or there is more to fetch
    pub const NONE: EndReason = EndReason(sys::NL_END_NONE);
    /// the last token is an end token of the model or a stop token
    pub const TOKEN: EndReason = EndReason(sys::NL_END_TOKEN);
    /// a stop text came; the text ends before it
    pub const TEXT: EndReason = EndReason(sys::NL_END_TEXT);
    /// as many tokens were drawn as NL_OPTION_MAX_TOKENS allows
    pub const LENGTH: EndReason = EndReason(sys::NL_END_LENGTH);
    /// the cache holds as many tokens as it may
    pub const CONTEXT_FULL: EndReason = EndReason(sys::NL_END_CONTEXT_FULL);
    /// `NL_END_CANCELLED`
    pub const CANCELLED: EndReason = EndReason(sys::NL_END_CANCELLED);
    /// NL_OPTION_DEADLINE_MS is over
    pub const DEADLINE: EndReason = EndReason(sys::NL_END_DEADLINE);
    /// the call that would tell the end returns the error's status instead of NL_OK
    pub const ERROR: EndReason = EndReason(sys::NL_END_ERROR);
    /// the text is what its constraint asks for, and nothing can follow
    pub const COMPLETE: EndReason = EndReason(sys::NL_END_COMPLETE);
}

/// Facts about a generation, for nl_generation_query. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GenerationFact(pub i32);

impl GenerationFact {
    /// drawn so far
    pub const TOKENS: GenerationFact = GenerationFact(sys::NL_GENERATION_TOKENS);
    /// of the context at its start, those that were computed already, also by others
    pub const TOKENS_REUSED: GenerationFact = GenerationFact(sys::NL_GENERATION_TOKENS_REUSED);
    /// computed for it so far, those that it drew included
    pub const TOKENS_COMPUTED: GenerationFact = GenerationFact(sys::NL_GENERATION_TOKENS_COMPUTED);
    /// microseconds from its start to its first step (or until now, or its end)
    pub const QUEUED_US: GenerationFact = GenerationFact(sys::NL_GENERATION_QUEUED_US);
    /// microseconds from its start to its first token; -1 until there is one
    pub const FIRST_TOKEN_US: GenerationFact = GenerationFact(sys::NL_GENERATION_FIRST_TOKEN_US);
    /// microseconds from its start to its end, or until now
    pub const TOTAL_US: GenerationFact = GenerationFact(sys::NL_GENERATION_TOTAL_US);
    /// after the first token, rounded down; 0 while there is one or none
    pub const TOKENS_PER_SECOND: GenerationFact = GenerationFact(sys::NL_GENERATION_TOKENS_PER_SECOND);
    /// NL_END_\*: why it ended, whether fetched or not; NL_END_NONE while it runs
    pub const END: GenerationFact = GenerationFact(sys::NL_GENERATION_END);
}

/// A chunk's place in the cascade. Those of the highest level are evicted first. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Level(pub i32);

impl Level {
    /// what most conversations begin with
    pub const SYSTEM: Level = Level(sys::NL_LEVEL_SYSTEM);
    /// what some of them share: a document
    pub const CONTEXT: Level = Level(sys::NL_LEVEL_CONTEXT);
    /// what few will want again
    pub const QUERY: Level = Level(sys::NL_LEVEL_QUERY);
}

/// Where a chunk came from, for NL_CHUNK_ORIGIN. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin(pub i32);

impl Origin {
    /// `NL_ORIGIN_COMPUTED`
    pub const COMPUTED: Origin = Origin(sys::NL_ORIGIN_COMPUTED);
    /// the device's pages had it
    pub const DEVICE: Origin = Origin(sys::NL_ORIGIN_DEVICE);
    /// the host's memory (NL_OPTION_HOST_BYTES)
    pub const HOST: Origin = Origin(sys::NL_ORIGIN_HOST);
    /// a file: nl_chunk_load, or the store's folder (NL_OPTION_STORE_FOLDER)
    pub const FILE: Origin = Origin(sys::NL_ORIGIN_FILE);
    /// the store's server (NL_OPTION_STORE_SERVER)
    pub const SERVER: Origin = Origin(sys::NL_ORIGIN_SERVER);
}

/// Facts about a chunk, for nl_chunk_query. Since 0.1.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkFact(pub i32);

impl ChunkFact {
    /// `NL_CHUNK_TOKENS`
    pub const TOKENS: ChunkFact = ChunkFact(sys::NL_CHUNK_TOKENS);
    /// NL_LEVEL_\*
    pub const LEVEL: ChunkFact = ChunkFact(sys::NL_CHUNK_LEVEL);
    /// `NL_CHUNK_PAGES`
    pub const PAGES: ChunkFact = ChunkFact(sys::NL_CHUNK_PAGES);
    /// pages times page bytes
    pub const BYTES: ChunkFact = ChunkFact(sys::NL_CHUNK_BYTES);
    /// by the call that gave this handle: 0 when the chunk was in the store
    pub const TOKENS_COMPUTED: ChunkFact = ChunkFact(sys::NL_CHUNK_TOKENS_COMPUTED);
    /// handles and caches that hold it now, and calls under way
    pub const USERS: ChunkFact = ChunkFact(sys::NL_CHUNK_USERS);
    /// NL_ORIGIN_\*: where the call that gave this handle had it from. Since 0.2
    pub const ORIGIN: ChunkFact = ChunkFact(sys::NL_CHUNK_ORIGIN);
    /// as nl_chunk_set_priority set it; else NL_PRIORITY_NORMAL. Since 0.2
    pub const PRIORITY: ChunkFact = ChunkFact(sys::NL_CHUNK_PRIORITY);
}

/// Bounds of a chunk's priority. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Priority(pub i32);

impl Priority {
    /// `NL_PRIORITY_LOWEST`
    pub const LOWEST: Priority = Priority(sys::NL_PRIORITY_LOWEST);
    /// what chunks have at first
    pub const NORMAL: Priority = Priority(sys::NL_PRIORITY_NORMAL);
    /// `NL_PRIORITY_HIGHEST`
    pub const HIGHEST: Priority = Priority(sys::NL_PRIORITY_HIGHEST);
    /// the chunk is never evicted, even while no handle and no cache uses it
    pub const PINNED: Priority = Priority(sys::NL_PRIORITY_PINNED);
}

/// What a set of options is for. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OptionsKind(pub i32);

impl OptionsKind {
    /// nl_engine_create: how to load a model
    pub const ENGINE: OptionsKind = OptionsKind(sys::NL_OPTIONS_ENGINE);
    /// nl_cache_create: how to compose chunks
    pub const CACHE: OptionsKind = OptionsKind(sys::NL_OPTIONS_CACHE);
    /// nl_cache_set_sampling: how to draw tokens
    pub const SAMPLING: OptionsKind = OptionsKind(sys::NL_OPTIONS_SAMPLING);
    /// nl_generation_start: when to end, and how to hand over
    pub const GENERATION: OptionsKind = OptionsKind(sys::NL_OPTIONS_GENERATION);
}

/// How much a log line matters. Since 0.1.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Severity(pub i32);

impl Severity {
    /// `NL_LOG_DEBUG`
    pub const DEBUG: Severity = Severity(sys::NL_LOG_DEBUG);
    /// `NL_LOG_INFO`
    pub const INFO: Severity = Severity(sys::NL_LOG_INFO);
    /// `NL_LOG_WARNING`
    pub const WARNING: Severity = Severity(sys::NL_LOG_WARNING);
    /// `NL_LOG_ERROR`
    pub const ERROR: Severity = Severity(sys::NL_LOG_ERROR);
}

/// Number formats of weights on the device, activations and the key-value cache. Since 0.1.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dtype(pub i32);

impl Dtype {
    /// the model files' own format, or bf16 where the device does not compute in that
    pub const AUTO: Dtype = Dtype(sys::NL_DTYPE_AUTO);
    /// `NL_DTYPE_F32`
    pub const F32: Dtype = Dtype(sys::NL_DTYPE_F32);
    /// CUDA only
    pub const F16: Dtype = Dtype(sys::NL_DTYPE_F16);
    /// `NL_DTYPE_BF16`
    pub const BF16: Dtype = Dtype(sys::NL_DTYPE_BF16);
    /// of keys and values alone: 1 sign, 4 exponent and 3 fraction bits, no infinities, values up
    /// to 448 (Micikevicius et al., FP8 Formats for Deep Learning, 2022)
    pub const F8_E4M3: Dtype = Dtype(sys::NL_DTYPE_F8_E4M3);
}

/// How matrices of weights are kept in memory. Activations, norms, biases and the routers of experts are not quantised:
/// whatever is chosen here, they have NL_OPTION_DTYPE's format or a wider one. Matrices that a file has in 8 or 4 bits
/// are not quantised again: they stay as they are with all of these but NL_WEIGHTS_WIDE. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Weights(pub i32);

impl Weights {
    /// In the files' own form where the device computes with it. On the CPU and on Hopper GPUs the blocks of a GGUF file
    /// and the weights of AWQ, GPTQ, compressed-tensors and fp8 checkpoints are kept in 8 or 4 bits. Everything else is
    /// as with NL_WEIGHTS_WIDE
    pub const AUTO: Weights = Weights(sys::NL_WEIGHTS_AUTO);
    /// in NL_OPTION_DTYPE's format
    pub const WIDE: Weights = Weights(sys::NL_WEIGHTS_WIDE);
    /// 8-bit integers, rounded to nearest, and a float16 scale, max|w| / 127, for each 32 weights along a row: 8.5 bits
    /// a weight
    pub const INT8: Weights = Weights(sys::NL_WEIGHTS_INT8);
    /// 4-bit codes, and a scale and a minimum for each 32 weights along a row. Each of these two has 7 bits, which count
    /// in 127ths of the largest among 256 weights: 4.6 bits a weight. Embeddings and head as with NL_WEIGHTS_INT8
    pub const INT4: Weights = Weights(sys::NL_WEIGHTS_INT4);
    /// 8-bit floats (e4m3) and a scale, max|w| / 448, for each row: 8 bits a weight
    pub const FP8: Weights = Weights(sys::NL_WEIGHTS_FP8);
}

/// Options of an engine. Since 0.2.
/// Bounds stand in brackets, here and below; nl_option_bounds_int and nl_option_describe tell them too.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EngineOption(pub i32);

impl EngineOption {
    /// "auto" (default: CUDA where there is a GPU and its backend, else the CPU), "cpu", "cuda" or "cuda:1".
    /// \[1 to 64 bytes]
    pub const DEVICE: EngineOption = EngineOption(sys::NL_OPTION_DEVICE);
    /// Format of weights and activations. \[NL_DTYPE_AUTO (default) to NL_DTYPE_BF16]
    pub const DTYPE: EngineOption = EngineOption(sys::NL_OPTION_DTYPE);
    /// Format of keys and values in pages. NL_DTYPE_AUTO: as the activations. \[NL_DTYPE_AUTO (default) to
    /// NL_DTYPE_F8_E4M3]
    pub const KV_DTYPE: EngineOption = EngineOption(sys::NL_OPTION_KV_DTYPE);
    /// Tokens a page, a power of two. \[16 to 256; default 64]
    pub const PAGE_SIZE: EngineOption = EngineOption(sys::NL_OPTION_PAGE_SIZE);
    /// Pages in the pool; 0 sizes the pool from the model and the memory that is free. \[0 (default) to 2147483647]
    pub const NUM_PAGES: EngineOption = EngineOption(sys::NL_OPTION_NUM_PAGES);
    /// Longest context of a cache in tokens, at most the model's own; 0 takes the model's. Models with LongRoPE (Phi 3
    /// and 4) rotate contexts beyond their original one in another way: 0 takes the original context, a longer one the
    /// angles for long contexts, whatever a cache holds. \[0 (default) to 2147483647]
    pub const MAX_CONTEXT: EngineOption = EngineOption(sys::NL_OPTION_MAX_CONTEXT);
    /// Most tokens computed in one step: longer prefills are cut into slices. \[1 to 65536; default 2048]
    pub const MAX_BATCH_TOKENS: EngineOption = EngineOption(sys::NL_OPTION_MAX_BATCH_TOKENS);
    /// Most conversations that get a token in one step. \[1 to 4096; default 256]
    pub const MAX_OUTPUT_ROWS: EngineOption = EngineOption(sys::NL_OPTION_MAX_OUTPUT_ROWS);
    /// Milliseconds that a step may take which prefills beside running conversations; its slices of the prefill are cut
    /// to fit. 0 takes 25, or more where smaller slices would cost prefills over a tenth of their speed.
    /// \[0 (default) to 1000000]
    pub const STEP_MS: EngineOption = EngineOption(sys::NL_OPTION_STEP_MS);
    /// Most requests that wait to be computed; one more is NL_ERROR_BUSY. \[1 to 1048576; default 4096]
    pub const QUEUE_LIMIT: EngineOption = EngineOption(sys::NL_OPTION_QUEUE_LIMIT);
    /// CPU threads; 0 takes the cores that the process may use. \[0 (default) to 1024]
    pub const THREADS: EngineOption = EngineOption(sys::NL_OPTION_THREADS);
    /// 1: everything is made ready while the engine is created; 0: when it is needed first. \[0 or 1 (default)]
    pub const WARM_UP: EngineOption = EngineOption(sys::NL_OPTION_WARM_UP);
    /// 1: a token's logits do not depend on what else is computed in the same step, so a seeded or greedy answer is the
    /// same to the bit alone and beside any others, however prefills are sliced. 0: the fastest way for the number of
    /// rows is taken, and sums are rounded in another order. With 1, products are made in blocks of as many rows and
    /// attention neither splits a context nor reads a shared chunk once for several conversations. Answers are those of
    /// one device, library version and set of engine options, except the limits of a step and of the pool.
    /// \[0 (default) or 1]
    pub const BATCH_INVARIANT: EngineOption = EngineOption(sys::NL_OPTION_BATCH_INVARIANT);
    /// 1: on the CPU, weights that have the engine's dtype in their files are used where they lie: the files stay mapped
    /// while the engine lives, and one that is cut short or written to meanwhile ends the process (SIGBUS) or changes
    /// answers. 0: all weights are read into memory, and files may change as they like once the engine is there. A GPU
    /// has its own copy either way. \[0 or 1 (default)]
    pub const MAP_WEIGHTS: EngineOption = EngineOption(sys::NL_OPTION_MAP_WEIGHTS);
    /// 1: weights that are NaN or infinite are logged; 0: they are BAD_MODEL. \[0 (default) or 1]
    pub const ALLOW_NOT_FINITE: EngineOption = EngineOption(sys::NL_OPTION_ALLOW_NOT_FINITE);
    /// 1: each phase of each step is timed, and when the engine is gone the log has a table (NL_LOG_INFO): milliseconds
    /// a step, GB/s, TFLOP/s, and the share of what the device's memory and its products can do at most, for steps that
    /// only decode and for the others. A GPU then runs one step at a time, which makes it slower; while an engine on
    /// the CPU is created, the speed of memory is measured (0.2 s). \[0 (default) or 1]
    pub const PROFILE: EngineOption = EngineOption(sys::NL_OPTION_PROFILE);
    /// 1: a conversation whose beginning is that of another one, now or before, takes over the whole pages of it that
    /// are still there instead of computing them, without being asked: the same chunks, then the same tokens.
    /// NL_CACHE_TOKENS_REUSED counts them. Pages that nobody uses count as free and are kept
    /// for this until others need them, at most as many as were ever in use at once. 0: everything that is not in a
    /// chunk is computed. Sums may be rounded in another order than where a conversation computes all by itself, unless
    /// NL_OPTION_BATCH_INVARIANT is 1. \[0 or 1 (default)]
    pub const SHARE_PREFIXES: EngineOption = EngineOption(sys::NL_OPTION_SHARE_PREFIXES);
    /// A folder where chunks are kept in files: those that are computed are written there by a thread of the library,
    /// and those that are asked for are looked for there before they are computed, by this engine, later ones, and other
    /// processes at the same time. It is made where there is none. A file fits engines as nl_chunk_save says; the first
    /// chunk waits until the weight files are read once more, which the folder remembers. Freeing an engine's last
    /// handle waits until its chunks are written. A file that is damaged is logged, removed and computed again, and
    /// where the folder can't be used, or the disk is full, that is logged and chunks are computed. Whoever may write to
    /// the folder decides what is read as the chunks' keys and values. \[at most 4096 bytes; default empty: none]
    pub const STORE_FOLDER: EngineOption = EngineOption(sys::NL_OPTION_STORE_FOLDER);
    /// Most bytes of the chunk files in that folder; those used longest ago are removed. 0: no limit.
    /// \[0 (default) to INT64_MAX]
    pub const STORE_BYTES: EngineOption = EngineOption(sys::NL_OPTION_STORE_BYTES);
    /// Bytes of the host's memory, page-locked for a GPU, that are reserved while the engine is created: chunks that are
    /// evicted from the device's pages go there, and come back when they are asked for, which is faster than computing
    /// them. \[0 (default) to INT64_MAX]
    pub const HOST_BYTES: EngineOption = EngineOption(sys::NL_OPTION_HOST_BYTES);
    /// A Redis or Valkey server where chunks are kept for the engines of several machines, which so compute a document
    /// once: chunks that are computed are written there by a thread of the library, and those that neither the device
    /// nor the tiers above have are looked for there.
    /// The address is one of
    ///   redis://\[\[USER]:PASSWORD@]HOST\[:PORT]\[/DATABASE]
    ///   rediss://\[\[USER]:PASSWORD@]HOST\[:PORT]\[/DATABASE]\[?ca=FILE&cert=FILE&key=FILE], encrypted by TLS 1.2 or newer
    ///   unix:PATH, a socket of this machine
    /// Characters of USER, PASSWORD and FILE that could be taken for parts of the address (such as : @ ? & %) are
    /// written as %XX, a byte as two hexadecimal digits.
    /// With rediss:// the server's certificate must name HOST and be signed by a certificate authority: one that the
    /// system trusts or, if ca is given, one whose certificate is in that file. This check can't be switched off. If the
    /// server asks its clients for a certificate, cert is a file with the engine's certificate, followed by the
    /// intermediate ones up to its authority, and key is a file with that certificate's private key, not encrypted. The
    /// three files have the PEM format. They are read when the engine is created, which fails if one of them can't be
    /// used, and again for each connection.
    /// The library loads libnanolith_redis.so, from the folder that it lies in itself, to talk to the server. If that
    /// file is missing, nl_engine_create fails with NOT_FOUND. If the address begins with rediss:// and the file was
    /// built without OpenSSL, nl_engine_create fails with UNSUPPORTED.
    /// A server that fails costs time, never a wrong answer. If the engine can't reach it, does not trust its
    /// certificate, gets no answer in time, or gets damaged bytes, or if the server has no memory left, the engine
    /// writes one line to the log, computes the chunk itself, and tries the server again a second later.
    /// Whoever can write to the server can replace the keys and values of chunks by others, and thereby change what
    /// engines answer. \[at most 4096 bytes; default empty: no server]
    pub const STORE_SERVER: EngineOption = EngineOption(sys::NL_OPTION_STORE_SERVER);
    /// Milliseconds that reading a chunk from that server, or writing it there, may take, beside resolving the host's
    /// name; then the chunk is computed, or not kept. \[1 to 600000; default 1000]
    pub const STORE_DEADLINE_MS: EngineOption = EngineOption(sys::NL_OPTION_STORE_DEADLINE_MS);
    /// How weight matrices are kept in memory: with 16 bits or more a weight, or quantised to 8 or 4 bits while the
    /// model is loaded. Equal weights are always quantised to equal codes. Quantised weights take less memory. Decoding
    /// is faster with them than with 16-bit weights on a CPU, and for a few conversations on a Hopper GPU (compute
    /// capability 9.0). A step of more than about 100 tokens, such as a prefill's, takes up to a fifth longer with them
    /// on a Hopper GPU. On other GPUs no step is faster with them, because each product first converts its matrix to the
    /// engine's dtype.
    /// \[NL_WEIGHTS_AUTO (default) to NL_WEIGHTS_FP8]
    pub const WEIGHTS: EngineOption = EngineOption(sys::NL_OPTION_WEIGHTS);
}

/// How a cache composes its chunks. Since 0.1.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Composition(pub i32);

impl Composition {
    /// Every chunk is used as computed after the very chunks that stand before it in this cache: the same
    /// numbers as a full prefill, to rounding. Where the store has no such version yet it is computed now
    /// and kept, so that caches with a common beginning share it (a prefix tree).
    pub const EXACT: Composition = Composition(sys::NL_COMPOSE_EXACT);
    /// Every chunk is used as it was prefilled, at whatever position: nothing is computed. Tokens of a chunk
    /// have not seen the chunks before it (unless they were in its `before`), which costs accuracy where
    /// one document refers to another.
    pub const INDEPENDENT: Composition = Composition(sys::NL_COMPOSE_INDEPENDENT);
    /// As NL_COMPOSE_INDEPENDENT, but some tokens of the chunks are recomputed, with all tokens before them in view.
    /// Which ones: those that the appended tokens attend to most. NL_OPTION_BLEND_SHARE limits how many. If that limit
    /// is eight pages or more, whole pages are recomputed; if it is less, groups of four tokens in up to eight pages.
    /// Pages without a recomputed token stay shared between caches.
    /// When: the call or generation that appends tokens first chooses and recomputes tokens of the chunks, and then
    /// computes the appended ones. Only the last 64 appended tokens are looked at for the choice, or half of
    /// NL_OPTION_MAX_BATCH_TOKENS if that is less. So append a whole question in one call. Later calls recompute
    /// further tokens until the share of NL_OPTION_BLEND_SHARE is used up; no cache recomputes a token twice. Chunks of
    /// level 0 at the beginning of the cache are composed exactly.
    /// Pages with recomputed tokens are kept until their memory is needed, and other caches with the same chunks in the
    /// same order use them. An answer may therefore depend on what other caches were asked about these chunks earlier.
    /// With NL_OPTION_BATCH_INVARIANT it does not: every cache recomputes tokens for itself.
    /// The whole cache is composed as NL_COMPOSE_EXACT instead, and NL_CACHE_COMPOSITION says so, if the share is above
    /// a half, or if the chunks have at most 64 tokens and the share of these is fewer than four. Since 0.2.
    pub const BLENDED: Composition = Composition(sys::NL_COMPOSE_BLENDED);
}

/// Options of a cache. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheOption(pub i32);

impl CacheOption {
    /// How chunks are composed. \[NL_COMPOSE_EXACT (default), NL_COMPOSE_INDEPENDENT or NL_COMPOSE_BLENDED]
    pub const COMPOSITION: CacheOption = CacheOption(sys::NL_OPTION_COMPOSITION);
    /// For NL_COMPOSE_BLENDED: the largest part of the chunks' tokens that a cache recomputes; 0.1 is a tenth of them.
    /// Groups of four tokens are recomputed (a chunk's last group may have fewer), so that a limit of fewer than four
    /// tokens mostly recomputes none. 0 stands for 0.1. Since 0.2.
    /// \[0 (default) to 1]
    pub const BLEND_SHARE: CacheOption = CacheOption(sys::NL_OPTION_BLEND_SHARE);
}

/// The filters that narrow the choice of a token, for NL_OPTION_FILTER. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Filter(pub i32);

impl Filter {
    /// `NL_FILTER_TEMPERATURE`
    pub const TEMPERATURE: Filter = Filter(sys::NL_FILTER_TEMPERATURE);
    /// `NL_FILTER_TOP_K`
    pub const TOP_K: Filter = Filter(sys::NL_FILTER_TOP_K);
    /// `NL_FILTER_TYPICAL_P`
    pub const TYPICAL_P: Filter = Filter(sys::NL_FILTER_TYPICAL_P);
    /// `NL_FILTER_TOP_P`
    pub const TOP_P: Filter = Filter(sys::NL_FILTER_TOP_P);
    /// `NL_FILTER_MIN_P`
    pub const MIN_P: Filter = Filter(sys::NL_FILTER_MIN_P);
    /// `NL_FILTER_XTC`
    pub const XTC: Filter = Filter(sys::NL_FILTER_XTC);
}

/// Options of drawing. Since 0.2.
/// A token is drawn in three steps. First, the logits of single tokens are changed: biases are added and banned tokens
/// are left out; the repetition, frequency and presence penalties change the logits of tokens that the context contains;
/// DRY lowers those of tokens that would continue a repetition. Where there is a list of allowed tokens, all others are
/// left out. Second, with temperature 0, the default, the token with the highest logit is taken, of equal ones that with
/// the lowest id. Otherwise filters narrow the choice one after the other, each among the tokens that the filters before
/// it kept. Their order is temperature, top-k, typical-p, top-p, min-p, XTC, or what NL_OPTION_FILTER says; Mirostat is
/// always the last one. Filters keep or drop tokens of equal logits together, and always keep at least one. (llama.cpp's
/// default order has temperature last, so that there it does not change which tokens are kept.) Third, the token is
/// drawn from those that are left, by their probabilities.
/// The draw depends only on the logits, these options, the seed, the position in the context and, where penalties, DRY
/// or Mirostat are on, the tokens before it; not on what else the engine computes. Where penalties, DRY or Mirostat are
/// on, a conversation's next step is planned only when its latest token is known; on a GPU the other conversations that
/// share its steps wait for that too.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SamplingOption(pub i32);

impl SamplingOption {
    /// What logits are divided by. 0: greedy. \[0 (default) to 3e38]
    pub const TEMPERATURE: SamplingOption = SamplingOption(sys::NL_OPTION_TEMPERATURE);
    /// Keeps the k highest logits, and ties with the k-th. 0 keeps all. \[0 (default) to 2147483647]
    pub const TOP_K: SamplingOption = SamplingOption(sys::NL_OPTION_TOP_K);
    /// Keeps the most probable tokens until their share of what is left reaches p. 1 keeps all.
    /// \[1e-30 to 1 (default)]
    pub const TOP_P: SamplingOption = SamplingOption(sys::NL_OPTION_TOP_P);
    /// Keeps the tokens whose probability is at least this times that of the most probable one. 0 keeps all.
    /// \[0 (default) to 1]
    pub const MIN_P: SamplingOption = SamplingOption(sys::NL_OPTION_MIN_P);
    /// The seed of the random numbers that tokens are drawn with: all of its 64 bits count.
    /// \[INT64_MIN to INT64_MAX; default 0]
    pub const SEED: SamplingOption = SamplingOption(sys::NL_OPTION_SEED);
    /// The logit of each token in the penalties' window (NL_OPTION_PENALTY_WINDOW) is divided by this where it is
    /// positive, else multiplied by it. 1: off. \[0.001 to 1000; default 1]
    pub const REPETITION_PENALTY: SamplingOption = SamplingOption(sys::NL_OPTION_REPETITION_PENALTY);
    /// Is subtracted from a token's logit once for each time that the token stands in the penalties' window.
    /// \[-100 to 100; default 0]
    pub const FREQUENCY_PENALTY: SamplingOption = SamplingOption(sys::NL_OPTION_FREQUENCY_PENALTY);
    /// Is subtracted once from the logit of each token in the penalties' window. \[-100 to 100; default 0]
    pub const PRESENCE_PENALTY: SamplingOption = SamplingOption(sys::NL_OPTION_PRESENCE_PENALTY);
    /// The number of latest tokens of the context, prompt included, that the repetition, frequency and presence
    /// penalties look at. Drawing a token takes time in proportion to it. \[1 to 2147483647; default 64]
    pub const PENALTY_WINDOW: SamplingOption = SamplingOption(sys::NL_OPTION_PENALTY_WINDOW);
    /// A token, a colon, and what is added to the token's logit, from -1000000 to 1000000: "198:-2.5" or "13:100". Each
    /// token once.
    /// \[each 3 to 64 bytes; default none]
    pub const BIASED_TOKEN: SamplingOption = SamplingOption(sys::NL_OPTION_BIASED_TOKEN);
    /// Tokens that are never drawn. \[each 0 to 2147483647; default none]
    pub const BANNED_TOKEN: SamplingOption = SamplingOption(sys::NL_OPTION_BANNED_TOKEN);
    /// The only tokens that may be drawn. An end token is drawn only if it is one of them. None: all may be drawn.
    /// \[each 0 to 2147483647; default none]
    pub const ALLOWED_TOKEN: SamplingOption = SamplingOption(sys::NL_OPTION_ALLOWED_TOKEN);
    /// DRY ("don't repeat yourself"), as llama.cpp defines it. Where the context's latest n tokens occurred earlier in
    /// it, the token that followed them there would continue a repetition: multiplier \* base ^ (n - allowed length) is
    /// subtracted from its logit, for the largest such n, if that is at least the allowed length. 0: off.
    /// \[0 (default) to 1000000]
    pub const DRY_MULTIPLIER: SamplingOption = SamplingOption(sys::NL_OPTION_DRY_MULTIPLIER);
    /// The factor by which DRY's penalty grows with each further repeated token. \[1 to 100; default 1.75]
    pub const DRY_BASE: SamplingOption = SamplingOption(sys::NL_OPTION_DRY_BASE);
    /// The least number of repeated tokens that DRY penalises. \[1 to 2147483647; default 2]
    pub const DRY_ALLOWED_LENGTH: SamplingOption = SamplingOption(sys::NL_OPTION_DRY_ALLOWED_LENGTH);
    /// The number of latest tokens of the context that DRY looks at. Drawing a token takes time in proportion to it.
    /// llama.cpp's default is the whole context. \[1 to 2147483647; default 1024]
    pub const DRY_WINDOW: SamplingOption = SamplingOption(sys::NL_OPTION_DRY_WINDOW);
    /// Texts that end a repetition: DRY counts no tokens from before the last of them. If none is given they are a
    /// newline, ":", "\"" and "\*"; one empty text alone means no breakers. Models without a tokenizer have none.
    /// \[each 0 to 40 bytes; default none]
    pub const DRY_BREAKER: SamplingOption = SamplingOption(sys::NL_OPTION_DRY_BREAKER);
    /// XTC ("exclude top choices"), as llama.cpp defines it: with this probability a draw drops, of the tokens that are
    /// at least as probable as the threshold, all but the least probable one. 0: off. \[0 (default) to 1]
    pub const XTC_PROBABILITY: SamplingOption = SamplingOption(sys::NL_OPTION_XTC_PROBABILITY);
    /// XTC's threshold, a probability. Above 0.5 nothing is dropped. \[1e-30 to 1; default 0.1]
    pub const XTC_THRESHOLD: SamplingOption = SamplingOption(sys::NL_OPTION_XTC_THRESHOLD);
    /// Keeps the tokens whose surprise, -log(probability), is nearest to the mean surprise, until their share reaches
    /// this number. 1 keeps all.
    /// \[1e-30 to 1 (default)]
    pub const TYPICAL_P: SamplingOption = SamplingOption(sys::NL_OPTION_TYPICAL_P);
    /// Mirostat 2 (Basu et al., Mirostat, 2021): keeps the tokens whose surprise, -log2(probability), is at most a
    /// bound, or else the most probable one. This option is the surprise in bits that it aims at. The bound begins at
    /// twice that; after each draw it falls by eta \* (surprise of the token - this target). It begins anew when sampling
    /// options are set, and when the cache is truncated or loaded; a fork continues with its cache's bound. 0: off.
    /// \[0 (default) to 1000]
    pub const MIROSTAT_TAU: SamplingOption = SamplingOption(sys::NL_OPTION_MIROSTAT_TAU);
    /// How fast Mirostat's bound follows the surprise of the tokens drawn. \[1e-30 to 1; default 0.1]
    pub const MIROSTAT_ETA: SamplingOption = SamplingOption(sys::NL_OPTION_MIROSTAT_ETA);
    /// The order in which filters are applied: NL_FILTER_\*, each once at most. A filter that is left out must be off.
    /// None: temperature, top-k, typical-p, top-p, min-p, XTC. \[each 1 to 6; default none]
    pub const FILTER: SamplingOption = SamplingOption(sys::NL_OPTION_FILTER);
}

/// Options of a generation. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GenerationOption(pub i32);

impl GenerationOption {
    /// Most tokens to draw; 0: until the context is full. \[0 (default) to 2147483647]
    pub const MAX_TOKENS: GenerationOption = GenerationOption(sys::NL_OPTION_MAX_TOKENS);
    /// The least number of tokens to draw. Until so many are drawn, end tokens and stop tokens can't be drawn, and stop
    /// texts do not end it. A constrained text that can only end does so all the same. \[0 (default) to 2147483647]
    pub const MIN_TOKENS: GenerationOption = GenerationOption(sys::NL_OPTION_MIN_TOKENS);
    /// Tokens that end it, beside the model's end tokens. \[each 0 to 2147483647; default none]
    pub const STOP_TOKEN: GenerationOption = GenerationOption(sys::NL_OPTION_STOP_TOKEN);
    /// 1: the model's own end tokens (nl_engine_is_end_token) end it. \[0 or 1 (default)]
    pub const END_TOKENS: GenerationOption = GenerationOption(sys::NL_OPTION_END_TOKENS);
    /// Texts that end it; the text that it gives ends before them. \[each 1 to 1024 bytes; default none]
    pub const STOP_TEXT: GenerationOption = GenerationOption(sys::NL_OPTION_STOP_TEXT);
    /// Milliseconds from its start after which it ends; 0: none. \[0 (default) to 2147483647]
    pub const DEADLINE_MS: GenerationOption = GenerationOption(sys::NL_OPTION_DEADLINE_MS);
    /// Higher ones are served first. \[-100 to 100; default 0]
    pub const PRIORITY: GenerationOption = GenerationOption(sys::NL_OPTION_PRIORITY);
    /// Tokens that wait for nl_generation_next before the generation pauses. \[1 to 1048576; default 1024]
    pub const BUFFER_TOKENS: GenerationOption = GenerationOption(sys::NL_OPTION_BUFFER_TOKENS);
    /// 1: tokens are turned into text. 0: they are not, and stop texts are not allowed. \[0 or 1 (default)]
    pub const TEXT: GenerationOption = GenerationOption(sys::NL_OPTION_TEXT);
    /// 1: the log-probability of each token drawn is kept, for nl_generation_logprobs. \[0 (default) or 1]
    pub const LOGPROBS: GenerationOption = GenerationOption(sys::NL_OPTION_LOGPROBS);
    /// How many most probable tokens are kept with their log-probabilities for each token drawn, for
    /// nl_generation_top_logprobs. More than 0 needs NL_OPTION_LOGPROBS to be 1. \[0 (default) to 20]
    pub const TOP_LOGPROBS: GenerationOption = GenerationOption(sys::NL_OPTION_TOP_LOGPROBS);
    /// The text is one of these texts. \[each 1 to 65536 bytes; default none]
    pub const CHOICE: GenerationOption = GenerationOption(sys::NL_OPTION_CHOICE);
    /// The whole text matches this regular expression, in ECMAScript's syntax. \[0 to 1048576 bytes; default "", none]
    pub const REGEX: GenerationOption = GenerationOption(sys::NL_OPTION_REGEX);
    /// The text is JSON that satisfies this JSON schema. \[0 to 1048576 bytes; default "", none]
    pub const JSON_SCHEMA: GenerationOption = GenerationOption(sys::NL_OPTION_JSON_SCHEMA);
    /// 1: the text is a JSON object. \[0 (default) or 1]
    pub const JSON_OBJECT: GenerationOption = GenerationOption(sys::NL_OPTION_JSON_OBJECT);
    /// The whole text is derived from the rule `root` of this grammar, in llama.cpp's EBNF.
    /// \[0 to 1048576 bytes; default "", none]
    pub const GRAMMAR: GenerationOption = GenerationOption(sys::NL_OPTION_GRAMMAR);
    /// How many of the cache's last tokens are the beginning of the constrained text; the generation continues that
    /// text. The tokens given to nl_generation_start are appended to the cache first, and can be part of the beginning.
    /// It may be what an earlier generation drew before it ended early, in the same cache or in a fork of it, or words
    /// that the caller wants the text to begin with. NL_ERROR_INVALID_ARGUMENT if the constraint does not allow this
    /// beginning, or allows no token after it. \[0 (default) to 2147483647]
    pub const CONSTRAINED_TOKENS: GenerationOption = GenerationOption(sys::NL_OPTION_CONSTRAINED_TOKENS);
    /// 1: where the constraint leaves only one way to continue the text, such as the rest of a property's name, the
    /// model does not draw these characters. The tokenizer encodes them, and one step appends their tokens to the
    /// cache: at most 256, even if NL_OPTION_BUFFER_TOKENS is less. The model might have spelled the same characters
    /// with other tokens. Unless the text ends with these characters, the last of their tokens is not appended but
    /// drawn by the model, because a longer token may begin with the same characters. The logits callback is called
    /// for tokens that the model draws, not for those that are appended. NL_ERROR_INVALID_ARGUMENT if
    /// NL_OPTION_LOGPROBS is 1. \[0 (default) or 1]
    pub const JUMP_AHEAD: GenerationOption = GenerationOption(sys::NL_OPTION_JUMP_AHEAD);
}

/// How nl_model_describe writes. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DescribeFormat(pub i32);

impl DescribeFormat {
    /// lines "name: value", each ended by a newline, for people to read
    pub const TEXT: DescribeFormat = DescribeFormat(sys::NL_DESCRIBE_TEXT);
    /// one JSON object with the same names, numbers as numbers
    pub const JSON: DescribeFormat = DescribeFormat(sys::NL_DESCRIBE_JSON);
}

/// What facts are about, for nl_fact_describe. Since 0.2.
/// A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FactsKind(pub i32);

impl FactsKind {
    /// `NL_FACTS_ENGINE`
    pub const ENGINE: FactsKind = FactsKind(sys::NL_FACTS_ENGINE);
    /// `NL_FACTS_TOKENIZER`
    pub const TOKENIZER: FactsKind = FactsKind(sys::NL_FACTS_TOKENIZER);
    /// `NL_FACTS_CHUNK`
    pub const CHUNK: FactsKind = FactsKind(sys::NL_FACTS_CHUNK);
    /// `NL_FACTS_CACHE`
    pub const CACHE: FactsKind = FactsKind(sys::NL_FACTS_CACHE);
    /// `NL_FACTS_GENERATION`
    pub const GENERATION: FactsKind = FactsKind(sys::NL_FACTS_GENERATION);
}
