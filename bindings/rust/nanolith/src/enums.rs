// Written by bindings/generate.py from include/nanolith/nanolith.h. Do not edit.

use nanolith_sys as sys;

/// What became of a call. A newer library may know more values.
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
}

/// Number formats of weights, activations and the key-value cache. A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dtype(pub i32);

impl Dtype {
    /// bf16 for 16-bit model files where the device is fast at it, else float32
    pub const AUTO: Dtype = Dtype(sys::NL_DTYPE_AUTO);
    /// `NL_DTYPE_F32`
    pub const F32: Dtype = Dtype(sys::NL_DTYPE_F32);
    /// CUDA only
    pub const F16: Dtype = Dtype(sys::NL_DTYPE_F16);
    /// `NL_DTYPE_BF16`
    pub const BF16: Dtype = Dtype(sys::NL_DTYPE_BF16);
}

/// How much a log line matters. A newer library may know more values.
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

/// Facts about an engine. A newer library may know more values.
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
    /// held only by chunks that nobody uses; freed when pages run short
    pub const PAGES_EVICTABLE: EngineFact = EngineFact(sys::NL_ENGINE_PAGES_EVICTABLE);
    /// weights of the model, a tied head counted once
    pub const PARAMETERS: EngineFact = EngineFact(sys::NL_ENGINE_PARAMETERS);
}

/// What encoding adds to the tokens. A newer library may know more values.
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
}

/// Facts about a tokenizer. A newer library may know more values.
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

/// Whose a message of a chat is. A newer library may know more values.
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

/// What rendering a chat adds to the tokens. A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChatFlags(pub u32);

impl ChatFlags {
    /// end with what stands before an answer, so that the model gives one
    pub const ADD_GENERATION_PROMPT: ChatFlags = ChatFlags(sys::NL_CHAT_ADD_GENERATION_PROMPT as u32);
}

/// Facts about a chunk. A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkFact(pub i32);

impl ChunkFact {
    /// `NL_CHUNK_TOKENS`
    pub const TOKENS: ChunkFact = ChunkFact(sys::NL_CHUNK_TOKENS);
    /// `NL_CHUNK_LEVEL`
    pub const LEVEL: ChunkFact = ChunkFact(sys::NL_CHUNK_LEVEL);
    /// `NL_CHUNK_PAGES`
    pub const PAGES: ChunkFact = ChunkFact(sys::NL_CHUNK_PAGES);
    /// pages times page bytes
    pub const BYTES: ChunkFact = ChunkFact(sys::NL_CHUNK_BYTES);
    /// by the call that gave this handle: 0 when the chunk was in the store
    pub const TOKENS_COMPUTED: ChunkFact = ChunkFact(sys::NL_CHUNK_TOKENS_COMPUTED);
    /// handles and caches that hold it now, and calls under way
    pub const USERS: ChunkFact = ChunkFact(sys::NL_CHUNK_USERS);
}

/// How a cache composes its chunks. A newer library may know more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Composition(pub i32);

impl Composition {
    /// Every chunk is used as computed behind the very chunks that stand before it in this cache: the same
    /// numbers as a full prefill, to rounding. Where the store has no such version yet it is computed now
    /// and kept, so that caches with a common beginning share it (a prefix tree).
    pub const EXACT: Composition = Composition(sys::NL_COMPOSE_EXACT);
    /// Every chunk is used as it was prefilled, at whatever position: nothing is computed. Tokens of a chunk
    /// have not seen the chunks before it (unless they were in its `before`), which costs accuracy where
    /// one document refers to another.
    pub const INDEPENDENT: Composition = Composition(sys::NL_COMPOSE_INDEPENDENT);
}

/// Facts about a cache. A newer library may know more values.
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
    /// taken from chunks or from a fork's origin without computing them
    pub const TOKENS_REUSED: CacheFact = CacheFact(sys::NL_CACHE_TOKENS_REUSED);
    /// computed for this cache so far
    pub const TOKENS_COMPUTED: CacheFact = CacheFact(sys::NL_CACHE_TOKENS_COMPUTED);
}
