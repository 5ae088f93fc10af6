// Written by bindings/generate.py from include/nanolith/nanolith.h. Do not edit.
using System;
using System.Collections.Generic;

namespace Nanolith
{
    /// <summary>Options of an engine. Since 0.2. Bounds stand in brackets, here and below; nl_option_bounds_int and nl_option_describe tell them too. What is null keeps the library's default.</summary>
    public sealed partial class EngineOptions
    {
        /// <summary>"auto" (default: CUDA where there is a GPU and its backend, else the CPU), "cpu", "cuda" or "cuda:1". [1 to 64 bytes]</summary>
        public string Device { get; set; }

        /// <summary>Format of weights and activations. [NL_DTYPE_AUTO (default) to NL_DTYPE_BF16]</summary>
        public Dtype? Dtype { get; set; }

        /// <summary>Format of keys and values in pages. NL_DTYPE_AUTO: as the activations. [NL_DTYPE_AUTO (default) to NL_DTYPE_F8_E4M3]</summary>
        public Dtype? KvDtype { get; set; }

        /// <summary>Tokens a page, a power of two. [16 to 256; default 64]</summary>
        public long? PageSize { get; set; }

        /// <summary>Pages in the pool; 0 sizes the pool from the model and the memory that is free. [0 (default) to 2147483647]</summary>
        public long? NumPages { get; set; }

        /// <summary>Longest context of a cache in tokens, at most the model's own; 0 takes the model's. Models with LongRoPE (Phi 3 and 4) rotate contexts beyond their original one in another way: 0 takes the original context, a longer one the angles for long contexts, whatever a cache holds. [0 (default) to 2147483647]</summary>
        public long? MaxContext { get; set; }

        /// <summary>Most tokens computed in one step: longer prefills are cut into slices. [1 to 65536; default 2048]</summary>
        public long? MaxBatchTokens { get; set; }

        /// <summary>Most conversations that get a token in one step. [1 to 4096; default 256]</summary>
        public long? MaxOutputRows { get; set; }

        /// <summary>Milliseconds that a step may take which prefills beside running conversations; its slices of the prefill are cut to fit. 0 takes 25, or more where smaller slices would cost prefills over a tenth of their speed. [0 (default) to 1000000]</summary>
        public double? StepMs { get; set; }

        /// <summary>Most requests that wait to be computed; one more is NL_ERROR_BUSY. [1 to 1048576; default 4096]</summary>
        public long? QueueLimit { get; set; }

        /// <summary>CPU threads; 0 takes the cores that the process may use. [0 (default) to 1024]</summary>
        public long? Threads { get; set; }

        /// <summary>1: everything is made ready while the engine is created; 0: when it is needed first. [0 or 1 (default)]</summary>
        public bool? WarmUp { get; set; }

        /// <summary>1: a token's logits do not depend on what else is computed in the same step, so a seeded or greedy answer is the same to the bit alone and beside any others, however prefills are sliced. 0: the fastest way for the number of rows is taken, and sums are rounded in another order. With 1, products are made in blocks of as many rows and attention neither splits a context nor reads a shared chunk once for several conversations. Answers are those of one device, library version and set of engine options, except the limits of a step and of the pool. [0 (default) or 1]</summary>
        public bool? BatchInvariant { get; set; }

        /// <summary>1: on the CPU, weights that have the engine's dtype in their files are used where they lie: the files stay mapped while the engine lives, and one that is cut short or written to meanwhile ends the process (SIGBUS) or changes answers. 0: all weights are read into memory, and files may change as they like once the engine is there. A GPU has its own copy either way. [0 or 1 (default)]</summary>
        public bool? MapWeights { get; set; }

        /// <summary>1: weights that are NaN or infinite are logged; 0: they are BAD_MODEL. [0 (default) or 1]</summary>
        public bool? AllowNotFinite { get; set; }

        /// <summary>1: each phase of each step is timed, and when the engine is gone the log has a table (NL_LOG_INFO): milliseconds a step, GB/s, TFLOP/s, and the share of what the device's memory and its products can do at most, for steps that only decode and for the others. A GPU then runs one step at a time, which makes it slower; while an engine on the CPU is created, the speed of memory is measured (0.2 s). [0 (default) or 1]</summary>
        public bool? Profile { get; set; }

        /// <summary>1: a conversation whose beginning is that of another one, now or before, takes over the whole pages of it that are still there instead of computing them, without being asked: the same chunks, then the same tokens. NL_CACHE_TOKENS_REUSED counts them. Pages that nobody uses count as free and are kept for this until others need them, at most as many as were ever in use at once. 0: everything that is not in a chunk is computed. Sums may be rounded in another order than where a conversation computes all by itself, unless NL_OPTION_BATCH_INVARIANT is 1. [0 or 1 (default)]</summary>
        public bool? SharePrefixes { get; set; }

        /// <summary>A folder where chunks are kept in files: those that are computed are written there by a thread of the library, and those that are asked for are looked for there before they are computed, by this engine, later ones, and other processes at the same time. It is made where there is none. A file fits engines as nl_chunk_save says; the first chunk waits until the weight files are read once more, which the folder remembers. Freeing an engine's last handle waits until its chunks are written. A file that is damaged is logged, removed and computed again, and where the folder can't be used, or the disk is full, that is logged and chunks are computed. Whoever may write to the folder decides what is read as the chunks' keys and values. [at most 4096 bytes; default empty: none]</summary>
        public string StoreFolder { get; set; }

        /// <summary>Most bytes of the chunk files in that folder; those used longest ago are removed. 0: no limit. [0 (default) to INT64_MAX]</summary>
        public long? StoreBytes { get; set; }

        /// <summary>Bytes of the host's memory, page-locked for a GPU, that are reserved while the engine is created: chunks that are evicted from the device's pages go there, and come back when they are asked for, which is faster than computing them. [0 (default) to INT64_MAX]</summary>
        public long? HostBytes { get; set; }

        /// <summary>A Redis or Valkey server where chunks are kept for the engines of several machines, which so compute a document once: chunks that are computed are written there by a thread of the library, and those that neither the device nor the tiers above have are looked for there. The address is one of   redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]   rediss://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE][?ca=FILE&amp;cert=FILE&amp;key=FILE], encrypted by TLS 1.2 or newer   unix:PATH, a socket of this machine Characters of USER, PASSWORD and FILE that could be taken for parts of the address (such as : @ ? &amp; %) are written as %XX, a byte as two hexadecimal digits. With rediss:// the server's certificate must name HOST and be signed by a certificate authority: one that the system trusts or, if ca is given, one whose certificate is in that file. This check can't be switched off. If the server asks its clients for a certificate, cert is a file with the engine's certificate, followed by the intermediate ones up to its authority, and key is a file with that certificate's private key, not encrypted. The three files have the PEM format. They are read when the engine is created, which fails if one of them can't be used, and again for each connection. The library loads libnanolith_redis.so, from the folder that it lies in itself, to talk to the server. If that file is missing, nl_engine_create fails with NOT_FOUND. If the address begins with rediss:// and the file was built without OpenSSL, nl_engine_create fails with UNSUPPORTED. A server that fails costs time, never a wrong answer. If the engine can't reach it, does not trust its certificate, gets no answer in time, or gets damaged bytes, or if the server has no memory left, the engine writes one line to the log, computes the chunk itself, and tries the server again a second later. Whoever can write to the server can replace the keys and values of chunks by others, and thereby change what engines answer. [at most 4096 bytes; default empty: no server]</summary>
        public string StoreServer { get; set; }

        /// <summary>Milliseconds that reading a chunk from that server, or writing it there, may take, beside resolving the host's name; then the chunk is computed, or not kept. [1 to 600000; default 1000]</summary>
        public long? StoreDeadlineMs { get; set; }

        /// <summary>How weight matrices are kept in memory: with 16 bits or more a weight, or quantised to 8 or 4 bits while the model is loaded. Equal weights are always quantised to equal codes. Quantised weights take less memory. Decoding is faster with them than with 16-bit weights on a CPU, and for a few conversations on a Hopper GPU (compute capability 9.0). A step of more than about 100 tokens, such as a prefill's, takes up to a fifth longer with them on a Hopper GPU. On other GPUs no step is faster with them, because each product first converts its matrix to the engine's dtype. [NL_WEIGHTS_AUTO (default) to NL_WEIGHTS_FP8]</summary>
        public Weights? Weights { get; set; }

        private void SetValues(IntPtr raw)
        {
            if (Device != null) NativeOptions.Set(raw, 1, Device);
            if (Dtype != null) NativeOptions.Set(raw, 2, (long)Dtype.Value);
            if (KvDtype != null) NativeOptions.Set(raw, 3, (long)KvDtype.Value);
            if (PageSize != null) NativeOptions.Set(raw, 4, PageSize.Value);
            if (NumPages != null) NativeOptions.Set(raw, 5, NumPages.Value);
            if (MaxContext != null) NativeOptions.Set(raw, 6, MaxContext.Value);
            if (MaxBatchTokens != null) NativeOptions.Set(raw, 7, MaxBatchTokens.Value);
            if (MaxOutputRows != null) NativeOptions.Set(raw, 8, MaxOutputRows.Value);
            if (StepMs != null) NativeOptions.Set(raw, 9, StepMs.Value);
            if (QueueLimit != null) NativeOptions.Set(raw, 10, QueueLimit.Value);
            if (Threads != null) NativeOptions.Set(raw, 11, Threads.Value);
            if (WarmUp != null) NativeOptions.Set(raw, 12, WarmUp.Value ? 1L : 0L);
            if (BatchInvariant != null) NativeOptions.Set(raw, 13, BatchInvariant.Value ? 1L : 0L);
            if (MapWeights != null) NativeOptions.Set(raw, 14, MapWeights.Value ? 1L : 0L);
            if (AllowNotFinite != null) NativeOptions.Set(raw, 15, AllowNotFinite.Value ? 1L : 0L);
            if (Profile != null) NativeOptions.Set(raw, 16, Profile.Value ? 1L : 0L);
            if (SharePrefixes != null) NativeOptions.Set(raw, 17, SharePrefixes.Value ? 1L : 0L);
            if (StoreFolder != null) NativeOptions.Set(raw, 18, StoreFolder);
            if (StoreBytes != null) NativeOptions.Set(raw, 19, StoreBytes.Value);
            if (HostBytes != null) NativeOptions.Set(raw, 20, HostBytes.Value);
            if (StoreServer != null) NativeOptions.Set(raw, 21, StoreServer);
            if (StoreDeadlineMs != null) NativeOptions.Set(raw, 22, StoreDeadlineMs.Value);
            if (Weights != null) NativeOptions.Set(raw, 23, (long)Weights.Value);
        }
    }

    /// <summary>Options of a cache. Since 0.2. What is null keeps the library's default.</summary>
    public sealed partial class CacheOptions
    {
        /// <summary>How chunks are composed. [NL_COMPOSE_EXACT (default), NL_COMPOSE_INDEPENDENT or NL_COMPOSE_BLENDED]</summary>
        public Composition? Composition { get; set; }

        /// <summary>For NL_COMPOSE_BLENDED: the largest part of the chunks' tokens that a cache recomputes; 0.1 is a tenth of them. Groups of four tokens are recomputed (a chunk's last group may have fewer), so that a limit of fewer than four tokens mostly recomputes none. 0 stands for 0.1. Since 0.2. [0 (default) to 1]</summary>
        public double? BlendShare { get; set; }

        private void SetValues(IntPtr raw)
        {
            if (Composition != null) NativeOptions.Set(raw, 100, (long)Composition.Value);
            if (BlendShare != null) NativeOptions.Set(raw, 101, BlendShare.Value);
        }
    }

    /// <summary>Options of drawing. Since 0.2. A token is drawn in three steps. First, the logits of single tokens are changed: biases are added and banned tokens are left out; the repetition, frequency and presence penalties change the logits of tokens that the context contains; DRY lowers those of tokens that would continue a repetition. Where there is a list of allowed tokens, all others are left out. Second, with temperature 0, the default, the token with the highest logit is taken, of equal ones that with the lowest id. Otherwise filters narrow the choice one after the other, each among the tokens that the filters before it kept. Their order is temperature, top-k, typical-p, top-p, min-p, XTC, or what NL_OPTION_FILTER says; Mirostat is always the last one. Filters keep or drop tokens of equal logits together, and always keep at least one. (llama.cpp's default order has temperature last, so that there it does not change which tokens are kept.) Third, the token is drawn from those that are left, by their probabilities. The draw depends only on the logits, these options, the seed, the position in the context and, where penalties, DRY or Mirostat are on, the tokens before it; not on what else the engine computes. Where penalties, DRY or Mirostat are on, a conversation's next step is planned only when its latest token is known; on a GPU the other conversations that share its steps wait for that too. What is null keeps the library's default.</summary>
    public sealed partial class SamplingOptions
    {
        /// <summary>What logits are divided by. 0: greedy. [0 (default) to 3e38]</summary>
        public double? Temperature { get; set; }

        /// <summary>Keeps the k highest logits, and ties with the k-th. 0 keeps all. [0 (default) to 2147483647]</summary>
        public long? TopK { get; set; }

        /// <summary>Keeps the most probable tokens until their share of what is left reaches p. 1 keeps all. [1e-30 to 1 (default)]</summary>
        public double? TopP { get; set; }

        /// <summary>Keeps the tokens whose probability is at least this times that of the most probable one. 0 keeps all. [0 (default) to 1]</summary>
        public double? MinP { get; set; }

        /// <summary>The seed of the random numbers that tokens are drawn with: all of its 64 bits count. [INT64_MIN to INT64_MAX; default 0]</summary>
        public long? Seed { get; set; }

        /// <summary>The logit of each token in the penalties' window (NL_OPTION_PENALTY_WINDOW) is divided by this where it is positive, else multiplied by it. 1: off. [0.001 to 1000; default 1]</summary>
        public double? RepetitionPenalty { get; set; }

        /// <summary>Is subtracted from a token's logit once for each time that the token stands in the penalties' window. [-100 to 100; default 0]</summary>
        public double? FrequencyPenalty { get; set; }

        /// <summary>Is subtracted once from the logit of each token in the penalties' window. [-100 to 100; default 0]</summary>
        public double? PresencePenalty { get; set; }

        /// <summary>The number of latest tokens of the context, prompt included, that the repetition, frequency and presence penalties look at. Drawing a token takes time in proportion to it. [1 to 2147483647; default 64]</summary>
        public long? PenaltyWindow { get; set; }

        /// <summary>A token, a colon, and what is added to the token's logit, from -1000000 to 1000000: "198:-2.5" or "13:100". Each token once. [each 3 to 64 bytes; default none]</summary>
        public IList<string> BiasedTokens { get; } = new List<string>();

        /// <summary>Tokens that are never drawn. [each 0 to 2147483647; default none]</summary>
        public IList<long> BannedTokens { get; } = new List<long>();

        /// <summary>The only tokens that may be drawn. An end token is drawn only if it is one of them. None: all may be drawn. [each 0 to 2147483647; default none]</summary>
        public IList<long> AllowedTokens { get; } = new List<long>();

        /// <summary>DRY ("don't repeat yourself"), as llama.cpp defines it. Where the context's latest n tokens occurred earlier in it, the token that followed them there would continue a repetition: multiplier * base ^ (n - allowed length) is subtracted from its logit, for the largest such n, if that is at least the allowed length. 0: off. [0 (default) to 1000000]</summary>
        public double? DryMultiplier { get; set; }

        /// <summary>The factor by which DRY's penalty grows with each further repeated token. [1 to 100; default 1.75]</summary>
        public double? DryBase { get; set; }

        /// <summary>The least number of repeated tokens that DRY penalises. [1 to 2147483647; default 2]</summary>
        public long? DryAllowedLength { get; set; }

        /// <summary>The number of latest tokens of the context that DRY looks at. Drawing a token takes time in proportion to it. llama.cpp's default is the whole context. [1 to 2147483647; default 1024]</summary>
        public long? DryWindow { get; set; }

        /// <summary>Texts that end a repetition: DRY counts no tokens from before the last of them. If none is given they are a newline, ":", "\"" and "*"; one empty text alone means no breakers. Models without a tokenizer have none. [each 0 to 40 bytes; default none]</summary>
        public IList<string> DryBreakers { get; } = new List<string>();

        /// <summary>XTC ("exclude top choices"), as llama.cpp defines it: with this probability a draw drops, of the tokens that are at least as probable as the threshold, all but the least probable one. 0: off. [0 (default) to 1]</summary>
        public double? XtcProbability { get; set; }

        /// <summary>XTC's threshold, a probability. Above 0.5 nothing is dropped. [1e-30 to 1; default 0.1]</summary>
        public double? XtcThreshold { get; set; }

        /// <summary>Keeps the tokens whose surprise, -log(probability), is nearest to the mean surprise, until their share reaches this number. 1 keeps all. [1e-30 to 1 (default)]</summary>
        public double? TypicalP { get; set; }

        /// <summary>Mirostat 2 (Basu et al., Mirostat, 2021): keeps the tokens whose surprise, -log2(probability), is at most a bound, or else the most probable one. This option is the surprise in bits that it aims at. The bound begins at twice that; after each draw it falls by eta * (surprise of the token - this target). It begins anew when sampling options are set, and when the cache is truncated or loaded; a fork continues with its cache's bound. 0: off. [0 (default) to 1000]</summary>
        public double? MirostatTau { get; set; }

        /// <summary>How fast Mirostat's bound follows the surprise of the tokens drawn. [1e-30 to 1; default 0.1]</summary>
        public double? MirostatEta { get; set; }

        /// <summary>The order in which filters are applied: NL_FILTER_*, each once at most. A filter that is left out must be off. None: temperature, top-k, typical-p, top-p, min-p, XTC. [each 1 to 6; default none]</summary>
        public IList<long> Filters { get; } = new List<long>();

        private void SetValues(IntPtr raw)
        {
            if (Temperature != null) NativeOptions.Set(raw, 200, Temperature.Value);
            if (TopK != null) NativeOptions.Set(raw, 201, TopK.Value);
            if (TopP != null) NativeOptions.Set(raw, 202, TopP.Value);
            if (MinP != null) NativeOptions.Set(raw, 203, MinP.Value);
            if (Seed != null) NativeOptions.Set(raw, 204, Seed.Value);
            if (RepetitionPenalty != null) NativeOptions.Set(raw, 205, RepetitionPenalty.Value);
            if (FrequencyPenalty != null) NativeOptions.Set(raw, 206, FrequencyPenalty.Value);
            if (PresencePenalty != null) NativeOptions.Set(raw, 207, PresencePenalty.Value);
            if (PenaltyWindow != null) NativeOptions.Set(raw, 208, PenaltyWindow.Value);
            foreach (string element in BiasedTokens) NativeOptions.Set(raw, 209, element);
            foreach (long element in BannedTokens) NativeOptions.Set(raw, 210, element);
            foreach (long element in AllowedTokens) NativeOptions.Set(raw, 211, element);
            if (DryMultiplier != null) NativeOptions.Set(raw, 212, DryMultiplier.Value);
            if (DryBase != null) NativeOptions.Set(raw, 213, DryBase.Value);
            if (DryAllowedLength != null) NativeOptions.Set(raw, 214, DryAllowedLength.Value);
            if (DryWindow != null) NativeOptions.Set(raw, 215, DryWindow.Value);
            foreach (string element in DryBreakers) NativeOptions.Set(raw, 216, element);
            if (XtcProbability != null) NativeOptions.Set(raw, 217, XtcProbability.Value);
            if (XtcThreshold != null) NativeOptions.Set(raw, 218, XtcThreshold.Value);
            if (TypicalP != null) NativeOptions.Set(raw, 219, TypicalP.Value);
            if (MirostatTau != null) NativeOptions.Set(raw, 220, MirostatTau.Value);
            if (MirostatEta != null) NativeOptions.Set(raw, 221, MirostatEta.Value);
            foreach (long element in Filters) NativeOptions.Set(raw, 222, element);
        }
    }

    /// <summary>Options of a generation. Since 0.2. What is null keeps the library's default.</summary>
    public sealed partial class GenerationOptions
    {
        /// <summary>Most tokens to draw; 0: until the context is full. [0 (default) to 2147483647]</summary>
        public long? MaxTokens { get; set; }

        /// <summary>The least number of tokens to draw. Until so many are drawn, end tokens and stop tokens can't be drawn, and stop texts do not end it. A constrained text that can only end does so all the same. [0 (default) to 2147483647]</summary>
        public long? MinTokens { get; set; }

        /// <summary>Tokens that end it, beside the model's end tokens. [each 0 to 2147483647; default none]</summary>
        public IList<long> StopTokens { get; } = new List<long>();

        /// <summary>1: the model's own end tokens (nl_engine_is_end_token) end it. [0 or 1 (default)]</summary>
        public bool? EndTokens { get; set; }

        /// <summary>Texts that end it; the text that it gives ends before them. [each 1 to 1024 bytes; default none]</summary>
        public IList<string> StopTexts { get; } = new List<string>();

        /// <summary>Milliseconds from its start after which it ends; 0: none. [0 (default) to 2147483647]</summary>
        public long? DeadlineMs { get; set; }

        /// <summary>Higher ones are served first. [-100 to 100; default 0]</summary>
        public long? Priority { get; set; }

        /// <summary>Tokens that wait for nl_generation_next before the generation pauses. [1 to 1048576; default 1024]</summary>
        public long? BufferTokens { get; set; }

        /// <summary>1: tokens are turned into text. 0: they are not, and stop texts are not allowed. [0 or 1 (default)]</summary>
        public bool? Text { get; set; }

        /// <summary>1: the log-probability of each token drawn is kept, for nl_generation_logprobs. [0 (default) or 1]</summary>
        public bool? Logprobs { get; set; }

        /// <summary>How many most probable tokens are kept with their log-probabilities for each token drawn, for nl_generation_top_logprobs. More than 0 needs NL_OPTION_LOGPROBS to be 1. [0 (default) to 20]</summary>
        public long? TopLogprobs { get; set; }

        /// <summary>The text is one of these texts. [each 1 to 65536 bytes; default none]</summary>
        public IList<string> Choices { get; } = new List<string>();

        /// <summary>The whole text matches this regular expression, in ECMAScript's syntax. [0 to 1048576 bytes; default "", none]</summary>
        public string Regex { get; set; }

        /// <summary>The text is JSON that satisfies this JSON schema. [0 to 1048576 bytes; default "", none]</summary>
        public string JsonSchema { get; set; }

        /// <summary>1: the text is a JSON object. [0 (default) or 1]</summary>
        public bool? JsonObject { get; set; }

        /// <summary>The whole text is derived from the rule `root` of this grammar, in llama.cpp's EBNF. [0 to 1048576 bytes; default "", none]</summary>
        public string Grammar { get; set; }

        /// <summary>How many of the cache's last tokens are the beginning of the constrained text; the generation continues that text. The tokens given to nl_generation_start are appended to the cache first, and can be part of the beginning. It may be what an earlier generation drew before it ended early, in the same cache or in a fork of it, or words that the caller wants the text to begin with. NL_ERROR_INVALID_ARGUMENT if the constraint does not allow this beginning, or allows no token after it. [0 (default) to 2147483647]</summary>
        public long? ConstrainedTokens { get; set; }

        /// <summary>1: where the constraint leaves only one way to continue the text, such as the rest of a property's name, the model does not draw these characters. The tokenizer encodes them, and one step appends their tokens to the cache: at most 256, even if NL_OPTION_BUFFER_TOKENS is less. The model might have spelled the same characters with other tokens. Unless the text ends with these characters, the last of their tokens is not appended but drawn by the model, because a longer token may begin with the same characters. The logits callback is called for tokens that the model draws, not for those that are appended. NL_ERROR_INVALID_ARGUMENT if NL_OPTION_LOGPROBS is 1. [0 (default) or 1]</summary>
        public bool? JumpAhead { get; set; }

        private void SetValues(IntPtr raw)
        {
            if (MaxTokens != null) NativeOptions.Set(raw, 300, MaxTokens.Value);
            if (MinTokens != null) NativeOptions.Set(raw, 301, MinTokens.Value);
            foreach (long element in StopTokens) NativeOptions.Set(raw, 302, element);
            if (EndTokens != null) NativeOptions.Set(raw, 303, EndTokens.Value ? 1L : 0L);
            foreach (string element in StopTexts) NativeOptions.Set(raw, 304, element);
            if (DeadlineMs != null) NativeOptions.Set(raw, 305, DeadlineMs.Value);
            if (Priority != null) NativeOptions.Set(raw, 306, Priority.Value);
            if (BufferTokens != null) NativeOptions.Set(raw, 307, BufferTokens.Value);
            if (Text != null) NativeOptions.Set(raw, 308, Text.Value ? 1L : 0L);
            if (Logprobs != null) NativeOptions.Set(raw, 309, Logprobs.Value ? 1L : 0L);
            if (TopLogprobs != null) NativeOptions.Set(raw, 310, TopLogprobs.Value);
            foreach (string element in Choices) NativeOptions.Set(raw, 315, element);
            if (Regex != null) NativeOptions.Set(raw, 316, Regex);
            if (JsonSchema != null) NativeOptions.Set(raw, 317, JsonSchema);
            if (JsonObject != null) NativeOptions.Set(raw, 318, JsonObject.Value ? 1L : 0L);
            if (Grammar != null) NativeOptions.Set(raw, 319, Grammar);
            if (ConstrainedTokens != null) NativeOptions.Set(raw, 320, ConstrainedTokens.Value);
            if (JumpAhead != null) NativeOptions.Set(raw, 321, JumpAhead.Value ? 1L : 0L);
        }
    }
}
