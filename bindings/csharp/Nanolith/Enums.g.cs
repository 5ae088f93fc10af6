// Written by bindings/generate.py from include/nanolith/nanolith.h. Do not edit.
using System;

namespace Nanolith
{
    /// <summary>What became of a call. A newer library may know more values.</summary>
    public enum Status
    {
        /// <summary>NL_OK</summary>
        Ok = 0,
        /// <summary>an argument is out of its range, or arguments don't fit together</summary>
        InvalidArgument = 1,
        /// <summary>a file, a token or a device that was named does not exist</summary>
        NotFound = 2,
        /// <summary>a model file is damaged or contradicts itself</summary>
        BadModel = 3,
        /// <summary>well-formed, but this version can't do it</summary>
        Unsupported = 4,
        /// <summary>host or device memory is exhausted</summary>
        OutOfMemory = 5,
        /// <summary>the page pool has too few free pages</summary>
        OutOfPages = 6,
        /// <summary>the context would grow beyond its maximum length</summary>
        ContextFull = 7,
        /// <summary>the caller's buffer is too small; the needed size was written</summary>
        BufferTooSmall = 8,
        /// <summary>the device or its driver failed</summary>
        Device = 9,
        /// <summary>a defect of the library; please report it</summary>
        Internal = 10,
    }

    /// <summary>Number formats of weights, activations and the key-value cache. A newer library may know more values.</summary>
    public enum Dtype
    {
        /// <summary>bf16 for 16-bit model files where the device is fast at it, else float32</summary>
        Auto = 0,
        /// <summary>NL_DTYPE_F32</summary>
        F32 = 1,
        /// <summary>CUDA only</summary>
        F16 = 2,
        /// <summary>NL_DTYPE_BF16</summary>
        Bf16 = 3,
    }

    /// <summary>How much a log line matters. A newer library may know more values.</summary>
    public enum Severity
    {
        /// <summary>NL_LOG_DEBUG</summary>
        Debug = 0,
        /// <summary>NL_LOG_INFO</summary>
        Info = 1,
        /// <summary>NL_LOG_WARNING</summary>
        Warning = 2,
        /// <summary>NL_LOG_ERROR</summary>
        Error = 3,
    }

    /// <summary>Facts about an engine. A newer library may know more values.</summary>
    public enum EngineFact
    {
        /// <summary>logits a token</summary>
        VocabSize = 1,
        /// <summary>NL_ENGINE_NUM_LAYERS</summary>
        NumLayers = 2,
        /// <summary>NL_ENGINE_HIDDEN_SIZE</summary>
        HiddenSize = 3,
        /// <summary>query heads</summary>
        NumHeads = 4,
        /// <summary>NL_ENGINE_NUM_KV_HEADS</summary>
        NumKvHeads = 5,
        /// <summary>NL_ENGINE_HEAD_DIM</summary>
        HeadDim = 6,
        /// <summary>tokens a cache may hold</summary>
        MaxContext = 7,
        /// <summary>NL_DTYPE_*, never AUTO</summary>
        Dtype = 8,
        /// <summary>tokens a page</summary>
        PageSize = 9,
        /// <summary>bytes a page, over all layers</summary>
        PageBytes = 10,
        /// <summary>NL_ENGINE_PAGES_TOTAL</summary>
        PagesTotal = 11,
        /// <summary>on the free list now</summary>
        PagesFree = 12,
        /// <summary>held only by chunks that nobody uses; freed when pages run short</summary>
        PagesEvictable = 13,
        /// <summary>weights of the model, a tied head counted once</summary>
        Parameters = 14,
    }

    /// <summary>What encoding adds to the tokens. A newer library may know more values.</summary>
    [Flags]
    public enum EncodeFlags : uint
    {
        /// <summary>Nothing.</summary>
        None = 0,
        /// <summary>put the beginning-of-sequence token first; an error where there is none</summary>
        AddBos = 1,
        /// <summary>put the end-of-sequence token last</summary>
        AddEos = 2,
        /// <summary>Put the tokens that the model folder wants around a text (its post-processor, or its add_bos_token and add_eos_token), perhaps none. Not together with the two above.</summary>
        AddSpecial = 4,
        /// <summary>Read the spelling of special tokens in the text (for example "&lt;|im_end|&gt;") as the characters that it is made of. Use it for text that comes from others, or it could end a message and begin another. Pieces that a tokenizer.model has as user-defined symbols are no special tokens; nl_chat_format_render cuts them too.</summary>
        SpecialAsText = 8,
    }

    /// <summary>Facts about a tokenizer. A newer library may know more values.</summary>
    public enum TokenizerFact
    {
        /// <summary>NL_TOKENIZER_VOCAB_SIZE</summary>
        VocabSize = 1,
        /// <summary>NL_TOKENIZER_BOS</summary>
        Bos = 2,
        /// <summary>NL_TOKENIZER_EOS</summary>
        Eos = 3,
        /// <summary>NL_TOKENIZER_UNK</summary>
        Unk = 4,
        /// <summary>NL_TOKENIZER_PAD</summary>
        Pad = 5,
    }

    /// <summary>Whose a message of a chat is. A newer library may know more values.</summary>
    public enum Role
    {
        /// <summary>NL_ROLE_SYSTEM</summary>
        System = 0,
        /// <summary>NL_ROLE_USER</summary>
        User = 1,
        /// <summary>NL_ROLE_ASSISTANT</summary>
        Assistant = 2,
    }

    /// <summary>What rendering a chat adds to the tokens. A newer library may know more values.</summary>
    [Flags]
    public enum ChatFlags : uint
    {
        /// <summary>Nothing.</summary>
        None = 0,
        /// <summary>end with what stands before an answer, so that the model gives one</summary>
        AddGenerationPrompt = 1,
    }

    /// <summary>Facts about a chunk. A newer library may know more values.</summary>
    public enum ChunkFact
    {
        /// <summary>NL_CHUNK_TOKENS</summary>
        Tokens = 1,
        /// <summary>NL_CHUNK_LEVEL</summary>
        Level = 2,
        /// <summary>NL_CHUNK_PAGES</summary>
        Pages = 3,
        /// <summary>pages times page bytes</summary>
        Bytes = 4,
        /// <summary>by the call that gave this handle: 0 when the chunk was in the store</summary>
        TokensComputed = 5,
        /// <summary>handles and caches that hold it now, and calls under way</summary>
        Users = 6,
    }

    /// <summary>How a cache composes its chunks. A newer library may know more values.</summary>
    public enum Composition
    {
        /// <summary>Every chunk is used as computed behind the very chunks that stand before it in this cache: the same numbers as a full prefill, to rounding. Where the store has no such version yet it is computed now and kept, so that caches with a common beginning share it (a prefix tree).</summary>
        Exact = 0,
        /// <summary>Every chunk is used as it was prefilled, at whatever position: nothing is computed. Tokens of a chunk have not seen the chunks before it (unless they were in its `before`), which costs accuracy where one document refers to another.</summary>
        Independent = 1,
    }

    /// <summary>Facts about a cache. A newer library may know more values.</summary>
    public enum CacheFact
    {
        /// <summary>NL_CACHE_TOKENS</summary>
        Tokens = 1,
        /// <summary>pages it uses, its chunks' included</summary>
        Pages = 2,
        /// <summary>of these, pages outside chunks</summary>
        PrivatePages = 3,
        /// <summary>NL_CACHE_PAGES times page bytes</summary>
        Bytes = 4,
        /// <summary>taken from chunks or from a fork's origin without computing them</summary>
        TokensReused = 5,
        /// <summary>computed for this cache so far</summary>
        TokensComputed = 6,
    }
}
