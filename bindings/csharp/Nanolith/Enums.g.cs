// Written by bindings/generate.py from include/nanolith/nanolith.h. Do not edit.
using System;

namespace Nanolith
{
    /// <summary>What became of a call. Values never change their meaning; new ones may be added. Since 0.1. A newer library may know more values.</summary>
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
        /// <summary>the call was cancelled. Since 0.2</summary>
        Cancelled = 11,
        /// <summary>the time given was over first; the call may be made again. Since 0.2</summary>
        Timeout = 12,
        /// <summary>the cache is generating, or too many requests wait already. Since 0.2</summary>
        Busy = 13,
        /// <summary>reading or writing failed. Since 0.2</summary>
        Io = 14,
        /// <summary>a saved chunk or cache is damaged, or of another model or page format. Since 0.2</summary>
        BadFile = 15,
    }

    /// <summary>Numbers that an error may have, for nl_last_error_detail. Since 0.2. A newer library may know more values.</summary>
    public enum Detail
    {
        /// <summary>which list element the error is about, from 0: which cache of nl_decode_step</summary>
        Index = 1,
        /// <summary>what the call needed: pages (OUT_OF_PAGES), tokens (CONTEXT_FULL), elements or bytes (BUFFER_TOO_SMALL), bytes (OUT_OF_MEMORY)</summary>
        Needed = 2,
        /// <summary>what there was of it</summary>
        Available = 3,
    }

    /// <summary>Facts about an engine, for nl_engine_query. Since 0.1. A newer library may know more values.</summary>
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
        /// <summary>of chunks that nobody uses and that are not pinned; freed when pages run short</summary>
        PagesEvictable = 13,
        /// <summary>weights of the model, a tied head counted once</summary>
        Parameters = 14,
        /// <summary>chunks in the device's pages now. This fact and the following since 0.2</summary>
        Chunks = 15,
        /// <summary>chunks in the host's memory now (NL_OPTION_HOST_BYTES)</summary>
        HostChunks = 16,
        /// <summary>bytes that the chunks in the host's memory take now</summary>
        HostBytes = 17,
        /// <summary>chunks in files now, as far as the engine knows (NL_OPTION_STORE_FOLDER)</summary>
        FileChunks = 18,
        /// <summary>bytes that these files take now</summary>
        FileBytes = 19,
        /// <summary>how many times a chunk was asked for that was in the device's pages</summary>
        Hits = 20,
        /// <summary>how many times a chunk was asked for that was copied from the host's memory</summary>
        HostHits = 21,
        /// <summary>how many times a chunk was asked for that was read from a file</summary>
        FileHits = 22,
        /// <summary>how many times a chunk was asked for that had to be computed</summary>
        Misses = 23,
        /// <summary>tokens of chunks that were asked for and did not have to be computed</summary>
        TokensReused = 24,
        /// <summary>tokens of chunks that were asked for and had to be computed</summary>
        TokensComputed = 25,
        /// <summary>chunks that were evicted from the device's pages</summary>
        Evictions = 26,
        /// <summary>how many times a chunk was asked for that was read from the server</summary>
        ServerHits = 27,
        /// <summary>bytes that the chunks in the device's pages take now</summary>
        ChunkBytes = 28,
        /// <summary>evicted chunks that were copied to the host's memory</summary>
        HostMoves = 29,
        /// <summary>chunks that were written to files of the store's folder</summary>
        FileMoves = 30,
        /// <summary>chunks that were sent to the store's server</summary>
        ServerMoves = 31,
        /// <summary>chunks that came to the device's pages from the host's memory, files or server</summary>
        DeviceMoves = 32,
        /// <summary>Milliseconds that the store has saved: an estimate of what computing NL_ENGINE_TOKENS_REUSED tokens would have taken, by how fast this engine computed its latest chunks, less the time in which chunks were brought to the device. Negative where bringing them took longer; 0 until the engine has computed a chunk.</summary>
        SavedMs = 33,
    }

    /// <summary>How a text is encoded: flags for nl_tokenizer_encode. Since 0.1. A newer library may know more values.</summary>
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
        /// <summary>Encode a long text on several threads; the tokens are the same. Only tokenizers of a tokenizer.model do so, others ignore the flag. There is one thread for each 64 KiB of text, but no more than the process has cores and no more than 16. The calling thread is one of them; the call makes the others and they end before it returns. If the system refuses to make a thread, the call goes on with those that it has. Since 0.2.</summary>
        Parallel = 16,
    }

    /// <summary>Facts about a tokenizer; a special token that the model does not have is -1. Since 0.1. A newer library may know more values.</summary>
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

    /// <summary>Whose a message of a chat is. Since 0.1. A newer library may know more values.</summary>
    public enum Role
    {
        /// <summary>NL_ROLE_SYSTEM</summary>
        System = 0,
        /// <summary>NL_ROLE_USER</summary>
        User = 1,
        /// <summary>NL_ROLE_ASSISTANT</summary>
        Assistant = 2,
    }

    /// <summary>What rendering a chat adds to the tokens: flags for nl_chat_format_render. Since 0.1. A newer library may know more values.</summary>
    [Flags]
    public enum ChatFlags : uint
    {
        /// <summary>Nothing.</summary>
        None = 0,
        /// <summary>end with what stands before an answer, so that the model gives one</summary>
        AddGenerationPrompt = 1,
    }

    /// <summary>What nl_cache_embed makes of its tokens' hidden states. Since 0.2. A newer library may know more values.</summary>
    public enum Pooling
    {
        /// <summary>the last token's</summary>
        Last = 1,
        /// <summary>the mean of those of all of the call's tokens; what was in the cache before has no part</summary>
        Mean = 2,
        /// <summary>that of each of the call's tokens, one vector after the other</summary>
        None = 3,
    }

    /// <summary>How nl_cache_embed gives vectors: flags. Since 0.2. A newer library may know more values.</summary>
    [Flags]
    public enum EmbedFlags : uint
    {
        /// <summary>Nothing.</summary>
        None = 0,
        /// <summary>each vector is divided by its Euclidean length, so that dot products are cosines</summary>
        Normalized = 1,
    }

    /// <summary>Facts about a cache, for nl_cache_query. Since 0.1. A newer library may know more values.</summary>
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
        /// <summary>taken from chunks, a fork's origin or other conversations, not computed</summary>
        TokensReused = 5,
        /// <summary>tokens computed for this cache so far</summary>
        TokensComputed = 6,
        /// <summary>of these, recomputed tokens of chunks (NL_COMPOSE_BLENDED); since 0.2</summary>
        TokensBlended = 7,
        /// <summary>how its chunks were composed in the end, NL_COMPOSE_*; since 0.2</summary>
        Composition = 8,
        /// <summary>of NL_CACHE_TOKENS_REUSED, those of chunks that did not have to be computed when the cache was created; since 0.2</summary>
        ChunkTokensReused = 9,
        /// <summary>Milliseconds that the store has saved this cache: an estimate of what computing NL_CACHE_TOKENS_REUSED tokens would have taken, by how fast the engine computed its latest chunks, less the time in which chunks were brought to the device when the cache was created. Since 0.2.</summary>
        SavedMs = 10,
    }

    /// <summary>Why a generation ended. Since 0.2. A newer library may know more values.</summary>
    public enum EndReason
    {
        /// <summary>it has not ended, or there is more to fetch</summary>
        None = 0,
        /// <summary>the last token is an end token of the model or a stop token</summary>
        Token = 1,
        /// <summary>a stop text came; the text ends before it</summary>
        Text = 2,
        /// <summary>as many tokens were drawn as NL_OPTION_MAX_TOKENS allows</summary>
        Length = 3,
        /// <summary>the cache holds as many tokens as it may</summary>
        ContextFull = 4,
        /// <summary>NL_END_CANCELLED</summary>
        Cancelled = 5,
        /// <summary>NL_OPTION_DEADLINE_MS is over</summary>
        Deadline = 6,
        /// <summary>the call that would tell the end returns the error's status instead of NL_OK</summary>
        Error = 7,
        /// <summary>the text is what its constraint asks for, and nothing can follow</summary>
        Complete = 8,
    }

    /// <summary>Facts about a generation, for nl_generation_query. Since 0.2. A newer library may know more values.</summary>
    public enum GenerationFact
    {
        /// <summary>drawn so far</summary>
        Tokens = 1,
        /// <summary>of the context at its start, those that were computed already, also by others</summary>
        TokensReused = 2,
        /// <summary>computed for it so far, those that it drew included</summary>
        TokensComputed = 3,
        /// <summary>microseconds from its start to its first step (or until now, or its end)</summary>
        QueuedUs = 4,
        /// <summary>microseconds from its start to its first token; -1 until there is one</summary>
        FirstTokenUs = 5,
        /// <summary>microseconds from its start to its end, or until now</summary>
        TotalUs = 6,
        /// <summary>after the first token, rounded down; 0 while there is one or none</summary>
        TokensPerSecond = 7,
        /// <summary>NL_END_*: why it ended, whether fetched or not; NL_END_NONE while it runs</summary>
        End = 8,
    }

    /// <summary>A chunk's place in the cascade. Those of the highest level are evicted first. Since 0.2. A newer library may know more values.</summary>
    public enum Level
    {
        /// <summary>what most conversations begin with</summary>
        System = 0,
        /// <summary>what some of them share: a document</summary>
        Context = 1,
        /// <summary>what few will want again</summary>
        Query = 2,
    }

    /// <summary>Where a chunk came from, for NL_CHUNK_ORIGIN. Since 0.2. A newer library may know more values.</summary>
    public enum Origin
    {
        /// <summary>NL_ORIGIN_COMPUTED</summary>
        Computed = 0,
        /// <summary>the device's pages had it</summary>
        Device = 1,
        /// <summary>the host's memory (NL_OPTION_HOST_BYTES)</summary>
        Host = 2,
        /// <summary>a file: nl_chunk_load, or the store's folder (NL_OPTION_STORE_FOLDER)</summary>
        File = 3,
        /// <summary>the store's server (NL_OPTION_STORE_SERVER)</summary>
        Server = 4,
    }

    /// <summary>Facts about a chunk, for nl_chunk_query. Since 0.1. A newer library may know more values.</summary>
    public enum ChunkFact
    {
        /// <summary>NL_CHUNK_TOKENS</summary>
        Tokens = 1,
        /// <summary>NL_LEVEL_*</summary>
        Level = 2,
        /// <summary>NL_CHUNK_PAGES</summary>
        Pages = 3,
        /// <summary>pages times page bytes</summary>
        Bytes = 4,
        /// <summary>by the call that gave this handle: 0 when the chunk was in the store</summary>
        TokensComputed = 5,
        /// <summary>handles and caches that hold it now, and calls under way</summary>
        Users = 6,
        /// <summary>NL_ORIGIN_*: where the call that gave this handle had it from. Since 0.2</summary>
        Origin = 7,
        /// <summary>as nl_chunk_set_priority set it; else NL_PRIORITY_NORMAL. Since 0.2</summary>
        Priority = 8,
    }

    /// <summary>Bounds of a chunk's priority. Since 0.2. A newer library may know more values.</summary>
    public enum Priority
    {
        /// <summary>NL_PRIORITY_LOWEST</summary>
        Lowest = 0,
        /// <summary>what chunks have at first</summary>
        Normal = 50,
        /// <summary>NL_PRIORITY_HIGHEST</summary>
        Highest = 100,
        /// <summary>the chunk is never evicted, even while no handle and no cache uses it</summary>
        Pinned = 101,
    }

    /// <summary>What a set of options is for. Since 0.2. A newer library may know more values.</summary>
    public enum OptionsKind
    {
        /// <summary>nl_engine_create: how to load a model</summary>
        Engine = 1,
        /// <summary>nl_cache_create: how to compose chunks</summary>
        Cache = 2,
        /// <summary>nl_cache_set_sampling: how to draw tokens</summary>
        Sampling = 3,
        /// <summary>nl_generation_start: when to end, and how to hand over</summary>
        Generation = 4,
    }

    /// <summary>How much a log line matters. Since 0.1. A newer library may know more values.</summary>
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

    /// <summary>Number formats of weights on the device, activations and the key-value cache. Since 0.1. A newer library may know more values.</summary>
    public enum Dtype
    {
        /// <summary>the model files' own format, or bf16 where the device does not compute in that</summary>
        Auto = 0,
        /// <summary>NL_DTYPE_F32</summary>
        F32 = 1,
        /// <summary>CUDA only</summary>
        F16 = 2,
        /// <summary>NL_DTYPE_BF16</summary>
        Bf16 = 3,
        /// <summary>of keys and values alone: 1 sign, 4 exponent and 3 fraction bits, no infinities, values up to 448 (Micikevicius et al., FP8 Formats for Deep Learning, 2022)</summary>
        F8E4m3 = 4,
    }

    /// <summary>How matrices of weights are kept in memory. Activations, norms, biases and the routers of experts are not quantised: whatever is chosen here, they have NL_OPTION_DTYPE's format or a wider one. Matrices that a file has in 8 or 4 bits are not quantised again: they stay as they are with all of these but NL_WEIGHTS_WIDE. Since 0.2. A newer library may know more values.</summary>
    public enum Weights
    {
        /// <summary>In the files' own form where the device computes with it. On the CPU and on Hopper GPUs the blocks of a GGUF file and the weights of AWQ, GPTQ, compressed-tensors and fp8 checkpoints are kept in 8 or 4 bits. Everything else is as with NL_WEIGHTS_WIDE</summary>
        Auto = 0,
        /// <summary>in NL_OPTION_DTYPE's format</summary>
        Wide = 1,
        /// <summary>8-bit integers, rounded to nearest, and a float16 scale, max|w| / 127, for each 32 weights along a row: 8.5 bits a weight</summary>
        Int8 = 2,
        /// <summary>4-bit codes, and a scale and a minimum for each 32 weights along a row. Each of these two has 7 bits, which count in 127ths of the largest among 256 weights: 4.6 bits a weight. Embeddings and head as with NL_WEIGHTS_INT8</summary>
        Int4 = 3,
        /// <summary>8-bit floats (e4m3) and a scale, max|w| / 448, for each row: 8 bits a weight</summary>
        Fp8 = 4,
    }

    /// <summary>Options of an engine. Since 0.2. Bounds stand in brackets, here and below; nl_option_bounds_int and nl_option_describe tell them too. A newer library may know more values.</summary>
    public enum EngineOption
    {
        /// <summary>"auto" (default: CUDA where there is a GPU and its backend, else the CPU), "cpu", "cuda" or "cuda:1". [1 to 64 bytes]</summary>
        Device = 1,
        /// <summary>Format of weights and activations. [NL_DTYPE_AUTO (default) to NL_DTYPE_BF16]</summary>
        Dtype = 2,
        /// <summary>Format of keys and values in pages. NL_DTYPE_AUTO: as the activations. [NL_DTYPE_AUTO (default) to NL_DTYPE_F8_E4M3]</summary>
        KvDtype = 3,
        /// <summary>Tokens a page, a power of two. [16 to 256; default 64]</summary>
        PageSize = 4,
        /// <summary>Pages in the pool; 0 sizes the pool from the model and the memory that is free. [0 (default) to 2147483647]</summary>
        NumPages = 5,
        /// <summary>Longest context of a cache in tokens, at most the model's own; 0 takes the model's. Models with LongRoPE (Phi 3 and 4) rotate contexts beyond their original one in another way: 0 takes the original context, a longer one the angles for long contexts, whatever a cache holds. [0 (default) to 2147483647]</summary>
        MaxContext = 6,
        /// <summary>Most tokens computed in one step: longer prefills are cut into slices. [1 to 65536; default 2048]</summary>
        MaxBatchTokens = 7,
        /// <summary>Most conversations that get a token in one step. [1 to 4096; default 256]</summary>
        MaxOutputRows = 8,
        /// <summary>Milliseconds that a step may take which prefills beside running conversations; its slices of the prefill are cut to fit. 0 takes 25, or more where smaller slices would cost prefills over a tenth of their speed. [0 (default) to 1000000]</summary>
        StepMs = 9,
        /// <summary>Most requests that wait to be computed; one more is NL_ERROR_BUSY. [1 to 1048576; default 4096]</summary>
        QueueLimit = 10,
        /// <summary>CPU threads; 0 takes the cores that the process may use. [0 (default) to 1024]</summary>
        Threads = 11,
        /// <summary>1: everything is made ready while the engine is created; 0: when it is needed first. [0 or 1 (default)]</summary>
        WarmUp = 12,
        /// <summary>1: a token's logits do not depend on what else is computed in the same step, so a seeded or greedy answer is the same to the bit alone and beside any others, however prefills are sliced. 0: the fastest way for the number of rows is taken, and sums are rounded in another order. With 1, products are made in blocks of as many rows and attention neither splits a context nor reads a shared chunk once for several conversations. Answers are those of one device, library version and set of engine options, except the limits of a step and of the pool. [0 (default) or 1]</summary>
        BatchInvariant = 13,
        /// <summary>1: on the CPU, weights that have the engine's dtype in their files are used where they lie: the files stay mapped while the engine lives, and one that is cut short or written to meanwhile ends the process (SIGBUS) or changes answers. 0: all weights are read into memory, and files may change as they like once the engine is there. A GPU has its own copy either way. [0 or 1 (default)]</summary>
        MapWeights = 14,
        /// <summary>1: weights that are NaN or infinite are logged; 0: they are BAD_MODEL. [0 (default) or 1]</summary>
        AllowNotFinite = 15,
        /// <summary>1: each phase of each step is timed, and when the engine is gone the log has a table (NL_LOG_INFO): milliseconds a step, GB/s, TFLOP/s, and the share of what the device's memory and its products can do at most, for steps that only decode and for the others. A GPU then runs one step at a time, which makes it slower; while an engine on the CPU is created, the speed of memory is measured (0.2 s). [0 (default) or 1]</summary>
        Profile = 16,
        /// <summary>1: a conversation whose beginning is that of another one, now or before, takes over the whole pages of it that are still there instead of computing them, without being asked: the same chunks, then the same tokens. NL_CACHE_TOKENS_REUSED counts them. Pages that nobody uses count as free and are kept for this until others need them, at most as many as were ever in use at once. 0: everything that is not in a chunk is computed. Sums may be rounded in another order than where a conversation computes all by itself, unless NL_OPTION_BATCH_INVARIANT is 1. [0 or 1 (default)]</summary>
        SharePrefixes = 17,
        /// <summary>A folder where chunks are kept in files: those that are computed are written there by a thread of the library, and those that are asked for are looked for there before they are computed, by this engine, later ones, and other processes at the same time. It is made where there is none. A file fits engines as nl_chunk_save says; the first chunk waits until the weight files are read once more, which the folder remembers. Freeing an engine's last handle waits until its chunks are written. A file that is damaged is logged, removed and computed again, and where the folder can't be used, or the disk is full, that is logged and chunks are computed. Whoever may write to the folder decides what is read as the chunks' keys and values. [at most 4096 bytes; default empty: none]</summary>
        StoreFolder = 18,
        /// <summary>Most bytes of the chunk files in that folder; those used longest ago are removed. 0: no limit. [0 (default) to INT64_MAX]</summary>
        StoreBytes = 19,
        /// <summary>Bytes of the host's memory, page-locked for a GPU, that are reserved while the engine is created: chunks that are evicted from the device's pages go there, and come back when they are asked for, which is faster than computing them. [0 (default) to INT64_MAX]</summary>
        HostBytes = 20,
        /// <summary>A Redis or Valkey server where chunks are kept for the engines of several machines, which so compute a document once: chunks that are computed are written there by a thread of the library, and those that neither the device nor the tiers above have are looked for there. The address is one of   redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]   rediss://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE][?ca=FILE&amp;cert=FILE&amp;key=FILE], encrypted by TLS 1.2 or newer   unix:PATH, a socket of this machine Characters of USER, PASSWORD and FILE that could be taken for parts of the address (such as : @ ? &amp; %) are written as %XX, a byte as two hexadecimal digits. With rediss:// the server's certificate must name HOST and be signed by a certificate authority: one that the system trusts or, if ca is given, one whose certificate is in that file. This check can't be switched off. If the server asks its clients for a certificate, cert is a file with the engine's certificate, followed by the intermediate ones up to its authority, and key is a file with that certificate's private key, not encrypted. The three files have the PEM format. They are read when the engine is created, which fails if one of them can't be used, and again for each connection. The library loads libnanolith_redis.so, from the folder that it lies in itself, to talk to the server. If that file is missing, nl_engine_create fails with NOT_FOUND. If the address begins with rediss:// and the file was built without OpenSSL, nl_engine_create fails with UNSUPPORTED. A server that fails costs time, never a wrong answer. If the engine can't reach it, does not trust its certificate, gets no answer in time, or gets damaged bytes, or if the server has no memory left, the engine writes one line to the log, computes the chunk itself, and tries the server again a second later. Whoever can write to the server can replace the keys and values of chunks by others, and thereby change what engines answer. [at most 4096 bytes; default empty: no server]</summary>
        StoreServer = 21,
        /// <summary>Milliseconds that reading a chunk from that server, or writing it there, may take, beside resolving the host's name; then the chunk is computed, or not kept. [1 to 600000; default 1000]</summary>
        StoreDeadlineMs = 22,
        /// <summary>How weight matrices are kept in memory: with 16 bits or more a weight, or quantised to 8 or 4 bits while the model is loaded. Equal weights are always quantised to equal codes. Quantised weights take less memory. Decoding is faster with them than with 16-bit weights on a CPU, and for a few conversations on a Hopper GPU (compute capability 9.0). A step of more than about 100 tokens, such as a prefill's, takes up to a fifth longer with them on a Hopper GPU. On other GPUs no step is faster with them, because each product first converts its matrix to the engine's dtype. [NL_WEIGHTS_AUTO (default) to NL_WEIGHTS_FP8]</summary>
        Weights = 23,
    }

    /// <summary>How a cache composes its chunks. Since 0.1. A newer library may know more values.</summary>
    public enum Composition
    {
        /// <summary>Every chunk is used as computed after the very chunks that stand before it in this cache: the same numbers as a full prefill, to rounding. Where the store has no such version yet it is computed now and kept, so that caches with a common beginning share it (a prefix tree).</summary>
        Exact = 0,
        /// <summary>Every chunk is used as it was prefilled, at whatever position: nothing is computed. Tokens of a chunk have not seen the chunks before it (unless they were in its `before`), which costs accuracy where one document refers to another.</summary>
        Independent = 1,
        /// <summary>As NL_COMPOSE_INDEPENDENT, but some tokens of the chunks are recomputed, with all tokens before them in view. Which ones: those that the appended tokens attend to most. NL_OPTION_BLEND_SHARE limits how many. If that limit is eight pages or more, whole pages are recomputed; if it is less, groups of four tokens in up to eight pages. Pages without a recomputed token stay shared between caches. When: the call or generation that appends tokens first chooses and recomputes tokens of the chunks, and then computes the appended ones. Only the last 64 appended tokens are looked at for the choice, or half of NL_OPTION_MAX_BATCH_TOKENS if that is less. So append a whole question in one call. Later calls recompute further tokens until the share of NL_OPTION_BLEND_SHARE is used up; no cache recomputes a token twice. Chunks of level 0 at the beginning of the cache are composed exactly. Pages with recomputed tokens are kept until their memory is needed, and other caches with the same chunks in the same order use them. An answer may therefore depend on what other caches were asked about these chunks earlier. With NL_OPTION_BATCH_INVARIANT it does not: every cache recomputes tokens for itself. The whole cache is composed as NL_COMPOSE_EXACT instead, and NL_CACHE_COMPOSITION says so, if the share is above a half, or if the chunks have at most 64 tokens and the share of these is fewer than four. Since 0.2.</summary>
        Blended = 2,
    }

    /// <summary>Options of a cache. Since 0.2. A newer library may know more values.</summary>
    public enum CacheOption
    {
        /// <summary>How chunks are composed. [NL_COMPOSE_EXACT (default), NL_COMPOSE_INDEPENDENT or NL_COMPOSE_BLENDED]</summary>
        Composition = 100,
        /// <summary>For NL_COMPOSE_BLENDED: the largest part of the chunks' tokens that a cache recomputes; 0.1 is a tenth of them. Groups of four tokens are recomputed (a chunk's last group may have fewer), so that a limit of fewer than four tokens mostly recomputes none. 0 stands for 0.1. Since 0.2. [0 (default) to 1]</summary>
        BlendShare = 101,
    }

    /// <summary>The filters that narrow the choice of a token, for NL_OPTION_FILTER. Since 0.2. A newer library may know more values.</summary>
    public enum Filter
    {
        /// <summary>NL_FILTER_TEMPERATURE</summary>
        Temperature = 1,
        /// <summary>NL_FILTER_TOP_K</summary>
        TopK = 2,
        /// <summary>NL_FILTER_TYPICAL_P</summary>
        TypicalP = 3,
        /// <summary>NL_FILTER_TOP_P</summary>
        TopP = 4,
        /// <summary>NL_FILTER_MIN_P</summary>
        MinP = 5,
        /// <summary>NL_FILTER_XTC</summary>
        Xtc = 6,
    }

    /// <summary>Options of drawing. Since 0.2. A token is drawn in three steps. First, the logits of single tokens are changed: biases are added and banned tokens are left out; the repetition, frequency and presence penalties change the logits of tokens that the context contains; DRY lowers those of tokens that would continue a repetition. Where there is a list of allowed tokens, all others are left out. Second, with temperature 0, the default, the token with the highest logit is taken, of equal ones that with the lowest id. Otherwise filters narrow the choice one after the other, each among the tokens that the filters before it kept. Their order is temperature, top-k, typical-p, top-p, min-p, XTC, or what NL_OPTION_FILTER says; Mirostat is always the last one. Filters keep or drop tokens of equal logits together, and always keep at least one. (llama.cpp's default order has temperature last, so that there it does not change which tokens are kept.) Third, the token is drawn from those that are left, by their probabilities. The draw depends only on the logits, these options, the seed, the position in the context and, where penalties, DRY or Mirostat are on, the tokens before it; not on what else the engine computes. Where penalties, DRY or Mirostat are on, a conversation's next step is planned only when its latest token is known; on a GPU the other conversations that share its steps wait for that too. A newer library may know more values.</summary>
    public enum SamplingOption
    {
        /// <summary>What logits are divided by. 0: greedy. [0 (default) to 3e38]</summary>
        Temperature = 200,
        /// <summary>Keeps the k highest logits, and ties with the k-th. 0 keeps all. [0 (default) to 2147483647]</summary>
        TopK = 201,
        /// <summary>Keeps the most probable tokens until their share of what is left reaches p. 1 keeps all. [1e-30 to 1 (default)]</summary>
        TopP = 202,
        /// <summary>Keeps the tokens whose probability is at least this times that of the most probable one. 0 keeps all. [0 (default) to 1]</summary>
        MinP = 203,
        /// <summary>The seed of the random numbers that tokens are drawn with: all of its 64 bits count. [INT64_MIN to INT64_MAX; default 0]</summary>
        Seed = 204,
        /// <summary>The logit of each token in the penalties' window (NL_OPTION_PENALTY_WINDOW) is divided by this where it is positive, else multiplied by it. 1: off. [0.001 to 1000; default 1]</summary>
        RepetitionPenalty = 205,
        /// <summary>Is subtracted from a token's logit once for each time that the token stands in the penalties' window. [-100 to 100; default 0]</summary>
        FrequencyPenalty = 206,
        /// <summary>Is subtracted once from the logit of each token in the penalties' window. [-100 to 100; default 0]</summary>
        PresencePenalty = 207,
        /// <summary>The number of latest tokens of the context, prompt included, that the repetition, frequency and presence penalties look at. Drawing a token takes time in proportion to it. [1 to 2147483647; default 64]</summary>
        PenaltyWindow = 208,
        /// <summary>A token, a colon, and what is added to the token's logit, from -1000000 to 1000000: "198:-2.5" or "13:100". Each token once. [each 3 to 64 bytes; default none]</summary>
        BiasedToken = 209,
        /// <summary>Tokens that are never drawn. [each 0 to 2147483647; default none]</summary>
        BannedToken = 210,
        /// <summary>The only tokens that may be drawn. An end token is drawn only if it is one of them. None: all may be drawn. [each 0 to 2147483647; default none]</summary>
        AllowedToken = 211,
        /// <summary>DRY ("don't repeat yourself"), as llama.cpp defines it. Where the context's latest n tokens occurred earlier in it, the token that followed them there would continue a repetition: multiplier * base ^ (n - allowed length) is subtracted from its logit, for the largest such n, if that is at least the allowed length. 0: off. [0 (default) to 1000000]</summary>
        DryMultiplier = 212,
        /// <summary>The factor by which DRY's penalty grows with each further repeated token. [1 to 100; default 1.75]</summary>
        DryBase = 213,
        /// <summary>The least number of repeated tokens that DRY penalises. [1 to 2147483647; default 2]</summary>
        DryAllowedLength = 214,
        /// <summary>The number of latest tokens of the context that DRY looks at. Drawing a token takes time in proportion to it. llama.cpp's default is the whole context. [1 to 2147483647; default 1024]</summary>
        DryWindow = 215,
        /// <summary>Texts that end a repetition: DRY counts no tokens from before the last of them. If none is given they are a newline, ":", "\"" and "*"; one empty text alone means no breakers. Models without a tokenizer have none. [each 0 to 40 bytes; default none]</summary>
        DryBreaker = 216,
        /// <summary>XTC ("exclude top choices"), as llama.cpp defines it: with this probability a draw drops, of the tokens that are at least as probable as the threshold, all but the least probable one. 0: off. [0 (default) to 1]</summary>
        XtcProbability = 217,
        /// <summary>XTC's threshold, a probability. Above 0.5 nothing is dropped. [1e-30 to 1; default 0.1]</summary>
        XtcThreshold = 218,
        /// <summary>Keeps the tokens whose surprise, -log(probability), is nearest to the mean surprise, until their share reaches this number. 1 keeps all. [1e-30 to 1 (default)]</summary>
        TypicalP = 219,
        /// <summary>Mirostat 2 (Basu et al., Mirostat, 2021): keeps the tokens whose surprise, -log2(probability), is at most a bound, or else the most probable one. This option is the surprise in bits that it aims at. The bound begins at twice that; after each draw it falls by eta * (surprise of the token - this target). It begins anew when sampling options are set, and when the cache is truncated or loaded; a fork continues with its cache's bound. 0: off. [0 (default) to 1000]</summary>
        MirostatTau = 220,
        /// <summary>How fast Mirostat's bound follows the surprise of the tokens drawn. [1e-30 to 1; default 0.1]</summary>
        MirostatEta = 221,
        /// <summary>The order in which filters are applied: NL_FILTER_*, each once at most. A filter that is left out must be off. None: temperature, top-k, typical-p, top-p, min-p, XTC. [each 1 to 6; default none]</summary>
        Filter = 222,
    }

    /// <summary>Options of a generation. Since 0.2. A newer library may know more values.</summary>
    public enum GenerationOption
    {
        /// <summary>Most tokens to draw; 0: until the context is full. [0 (default) to 2147483647]</summary>
        MaxTokens = 300,
        /// <summary>The least number of tokens to draw. Until so many are drawn, end tokens and stop tokens can't be drawn, and stop texts do not end it. A constrained text that can only end does so all the same. [0 (default) to 2147483647]</summary>
        MinTokens = 301,
        /// <summary>Tokens that end it, beside the model's end tokens. [each 0 to 2147483647; default none]</summary>
        StopToken = 302,
        /// <summary>1: the model's own end tokens (nl_engine_is_end_token) end it. [0 or 1 (default)]</summary>
        EndTokens = 303,
        /// <summary>Texts that end it; the text that it gives ends before them. [each 1 to 1024 bytes; default none]</summary>
        StopText = 304,
        /// <summary>Milliseconds from its start after which it ends; 0: none. [0 (default) to 2147483647]</summary>
        DeadlineMs = 305,
        /// <summary>Higher ones are served first. [-100 to 100; default 0]</summary>
        Priority = 306,
        /// <summary>Tokens that wait for nl_generation_next before the generation pauses. [1 to 1048576; default 1024]</summary>
        BufferTokens = 307,
        /// <summary>1: tokens are turned into text. 0: they are not, and stop texts are not allowed. [0 or 1 (default)]</summary>
        Text = 308,
        /// <summary>1: the log-probability of each token drawn is kept, for nl_generation_logprobs. [0 (default) or 1]</summary>
        Logprobs = 309,
        /// <summary>How many most probable tokens are kept with their log-probabilities for each token drawn, for nl_generation_top_logprobs. More than 0 needs NL_OPTION_LOGPROBS to be 1. [0 (default) to 20]</summary>
        TopLogprobs = 310,
        /// <summary>The text is one of these texts. [each 1 to 65536 bytes; default none]</summary>
        Choice = 315,
        /// <summary>The whole text matches this regular expression, in ECMAScript's syntax. [0 to 1048576 bytes; default "", none]</summary>
        Regex = 316,
        /// <summary>The text is JSON that satisfies this JSON schema. [0 to 1048576 bytes; default "", none]</summary>
        JsonSchema = 317,
        /// <summary>1: the text is a JSON object. [0 (default) or 1]</summary>
        JsonObject = 318,
        /// <summary>The whole text is derived from the rule `root` of this grammar, in llama.cpp's EBNF. [0 to 1048576 bytes; default "", none]</summary>
        Grammar = 319,
        /// <summary>How many of the cache's last tokens are the beginning of the constrained text; the generation continues that text. The tokens given to nl_generation_start are appended to the cache first, and can be part of the beginning. It may be what an earlier generation drew before it ended early, in the same cache or in a fork of it, or words that the caller wants the text to begin with. NL_ERROR_INVALID_ARGUMENT if the constraint does not allow this beginning, or allows no token after it. [0 (default) to 2147483647]</summary>
        ConstrainedTokens = 320,
        /// <summary>1: where the constraint leaves only one way to continue the text, such as the rest of a property's name, the model does not draw these characters. The tokenizer encodes them, and one step appends their tokens to the cache: at most 256, even if NL_OPTION_BUFFER_TOKENS is less. The model might have spelled the same characters with other tokens. Unless the text ends with these characters, the last of their tokens is not appended but drawn by the model, because a longer token may begin with the same characters. The logits callback is called for tokens that the model draws, not for those that are appended. NL_ERROR_INVALID_ARGUMENT if NL_OPTION_LOGPROBS is 1. [0 (default) or 1]</summary>
        JumpAhead = 321,
    }

    /// <summary>How nl_model_describe writes. Since 0.2. A newer library may know more values.</summary>
    public enum DescribeFormat
    {
        /// <summary>lines "name: value", each ended by a newline, for people to read</summary>
        Text = 0,
        /// <summary>one JSON object with the same names, numbers as numbers</summary>
        Json = 1,
    }

    /// <summary>What facts are about, for nl_fact_describe. Since 0.2. A newer library may know more values.</summary>
    public enum FactsKind
    {
        /// <summary>NL_FACTS_ENGINE</summary>
        Engine = 1,
        /// <summary>NL_FACTS_TOKENIZER</summary>
        Tokenizer = 2,
        /// <summary>NL_FACTS_CHUNK</summary>
        Chunk = 3,
        /// <summary>NL_FACTS_CACHE</summary>
        Cache = 4,
        /// <summary>NL_FACTS_GENERATION</summary>
        Generation = 5,
    }
}
