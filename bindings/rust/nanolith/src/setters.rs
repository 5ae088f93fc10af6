// Written by bindings/generate.py from include/nanolith/nanolith.h. Do not edit.

//! A setter for each option; those of lists add an element.

use crate::{CacheOptions, Composition, Dtype, EngineOptions, GenerationOptions, SamplingOptions, Weights};
use nanolith_sys as sys;

impl EngineOptions {
    /// "auto" (default: CUDA where there is a GPU and its backend, else the CPU), "cpu", "cuda" or "cuda:1".
    /// \[1 to 64 bytes]
    pub fn device(self, value: impl AsRef<str>) -> Self {
        self.set_text(sys::NL_OPTION_DEVICE, value.as_ref())
    }

    /// Format of weights and activations. \[NL_DTYPE_AUTO (default) to NL_DTYPE_BF16]
    pub fn dtype(self, value: Dtype) -> Self {
        self.set_int(sys::NL_OPTION_DTYPE, i64::from(value.0))
    }

    /// Format of keys and values in pages. NL_DTYPE_AUTO: as the activations. \[NL_DTYPE_AUTO (default) to
    /// NL_DTYPE_F8_E4M3]
    pub fn kv_dtype(self, value: Dtype) -> Self {
        self.set_int(sys::NL_OPTION_KV_DTYPE, i64::from(value.0))
    }

    /// Tokens a page, a power of two. \[16 to 256; default 64]
    pub fn page_size(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_PAGE_SIZE, value)
    }

    /// Pages in the pool; 0 sizes the pool from the model and the memory that is free. \[0 (default) to 2147483647]
    pub fn num_pages(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_NUM_PAGES, value)
    }

    /// Longest context of a cache in tokens, at most the model's own; 0 takes the model's. Models with LongRoPE (Phi 3
    /// and 4) rotate contexts beyond their original one in another way: 0 takes the original context, a longer one the
    /// angles for long contexts, whatever a cache holds. \[0 (default) to 2147483647]
    pub fn max_context(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_MAX_CONTEXT, value)
    }

    /// Most tokens computed in one step: longer prefills are cut into slices. \[1 to 65536; default 2048]
    pub fn max_batch_tokens(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_MAX_BATCH_TOKENS, value)
    }

    /// Most conversations that get a token in one step. \[1 to 4096; default 256]
    pub fn max_output_rows(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_MAX_OUTPUT_ROWS, value)
    }

    /// Milliseconds that a step may take which prefills beside running conversations; its slices of the prefill are cut
    /// to fit. 0 takes 25, or more where smaller slices would cost prefills over a tenth of their speed.
    /// \[0 (default) to 1000000]
    pub fn step_ms(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_STEP_MS, value)
    }

    /// Most requests that wait to be computed; one more is NL_ERROR_BUSY. \[1 to 1048576; default 4096]
    pub fn queue_limit(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_QUEUE_LIMIT, value)
    }

    /// CPU threads; 0 takes the cores that the process may use. \[0 (default) to 1024]
    pub fn threads(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_THREADS, value)
    }

    /// 1: everything is made ready while the engine is created; 0: when it is needed first. \[0 or 1 (default)]
    pub fn warm_up(self, value: bool) -> Self {
        self.set_int(sys::NL_OPTION_WARM_UP, i64::from(value))
    }

    /// 1: a token's logits do not depend on what else is computed in the same step, so a seeded or greedy answer is the
    /// same to the bit alone and beside any others, however prefills are sliced. 0: the fastest way for the number of
    /// rows is taken, and sums are rounded in another order. With 1, products are made in blocks of as many rows and
    /// attention neither splits a context nor reads a shared chunk once for several conversations. Answers are those of
    /// one device, library version and set of engine options, except the limits of a step and of the pool.
    /// \[0 (default) or 1]
    pub fn batch_invariant(self, value: bool) -> Self {
        self.set_int(sys::NL_OPTION_BATCH_INVARIANT, i64::from(value))
    }

    /// 1: on the CPU, weights that have the engine's dtype in their files are used where they lie: the files stay mapped
    /// while the engine lives, and one that is cut short or written to meanwhile ends the process (SIGBUS) or changes
    /// answers. 0: all weights are read into memory, and files may change as they like once the engine is there. A GPU
    /// has its own copy either way. \[0 or 1 (default)]
    pub fn map_weights(self, value: bool) -> Self {
        self.set_int(sys::NL_OPTION_MAP_WEIGHTS, i64::from(value))
    }

    /// 1: weights that are NaN or infinite are logged; 0: they are BAD_MODEL. \[0 (default) or 1]
    pub fn allow_not_finite(self, value: bool) -> Self {
        self.set_int(sys::NL_OPTION_ALLOW_NOT_FINITE, i64::from(value))
    }

    /// 1: each phase of each step is timed, and when the engine is gone the log has a table (NL_LOG_INFO): milliseconds
    /// a step, GB/s, TFLOP/s, and the share of what the device's memory and its products can do at most, for steps that
    /// only decode and for the others. A GPU then runs one step at a time, which makes it slower; while an engine on
    /// the CPU is created, the speed of memory is measured (0.2 s). \[0 (default) or 1]
    pub fn profile(self, value: bool) -> Self {
        self.set_int(sys::NL_OPTION_PROFILE, i64::from(value))
    }

    /// 1: a conversation whose beginning is that of another one, now or before, takes over the whole pages of it that
    /// are still there instead of computing them, without being asked: the same chunks, then the same tokens.
    /// NL_CACHE_TOKENS_REUSED counts them. Pages that nobody uses count as free and are kept
    /// for this until others need them, at most as many as were ever in use at once. 0: everything that is not in a
    /// chunk is computed. Sums may be rounded in another order than where a conversation computes all by itself, unless
    /// NL_OPTION_BATCH_INVARIANT is 1. \[0 or 1 (default)]
    pub fn share_prefixes(self, value: bool) -> Self {
        self.set_int(sys::NL_OPTION_SHARE_PREFIXES, i64::from(value))
    }

    /// A folder where chunks are kept in files: those that are computed are written there by a thread of the library,
    /// and those that are asked for are looked for there before they are computed, by this engine, later ones, and other
    /// processes at the same time. It is made where there is none. A file fits engines as nl_chunk_save says; the first
    /// chunk waits until the weight files are read once more, which the folder remembers. Freeing an engine's last
    /// handle waits until its chunks are written. A file that is damaged is logged, removed and computed again, and
    /// where the folder can't be used, or the disk is full, that is logged and chunks are computed. Whoever may write to
    /// the folder decides what is read as the chunks' keys and values. \[at most 4096 bytes; default empty: none]
    pub fn store_folder(self, value: impl AsRef<str>) -> Self {
        self.set_text(sys::NL_OPTION_STORE_FOLDER, value.as_ref())
    }

    /// Most bytes of the chunk files in that folder; those used longest ago are removed. 0: no limit.
    /// \[0 (default) to INT64_MAX]
    pub fn store_bytes(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_STORE_BYTES, value)
    }

    /// Bytes of the host's memory, page-locked for a GPU, that are reserved while the engine is created: chunks that are
    /// evicted from the device's pages go there, and come back when they are asked for, which is faster than computing
    /// them. \[0 (default) to INT64_MAX]
    pub fn host_bytes(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_HOST_BYTES, value)
    }

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
    pub fn store_server(self, value: impl AsRef<str>) -> Self {
        self.set_text(sys::NL_OPTION_STORE_SERVER, value.as_ref())
    }

    /// Milliseconds that reading a chunk from that server, or writing it there, may take, beside resolving the host's
    /// name; then the chunk is computed, or not kept. \[1 to 600000; default 1000]
    pub fn store_deadline_ms(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_STORE_DEADLINE_MS, value)
    }

    /// How weight matrices are kept in memory: with 16 bits or more a weight, or quantised to 8 or 4 bits while the
    /// model is loaded. Equal weights are always quantised to equal codes. Quantised weights take less memory. Decoding
    /// is faster with them than with 16-bit weights on a CPU, and for a few conversations on a Hopper GPU (compute
    /// capability 9.0). A step of more than about 100 tokens, such as a prefill's, takes up to a fifth longer with them
    /// on a Hopper GPU. On other GPUs no step is faster with them, because each product first converts its matrix to the
    /// engine's dtype.
    /// \[NL_WEIGHTS_AUTO (default) to NL_WEIGHTS_FP8]
    pub fn weights(self, value: Weights) -> Self {
        self.set_int(sys::NL_OPTION_WEIGHTS, i64::from(value.0))
    }
}

impl CacheOptions {
    /// How chunks are composed. \[NL_COMPOSE_EXACT (default), NL_COMPOSE_INDEPENDENT or NL_COMPOSE_BLENDED]
    pub fn composition(self, value: Composition) -> Self {
        self.set_int(sys::NL_OPTION_COMPOSITION, i64::from(value.0))
    }

    /// For NL_COMPOSE_BLENDED: the largest part of the chunks' tokens that a cache recomputes; 0.1 is a tenth of them.
    /// Groups of four tokens are recomputed (a chunk's last group may have fewer), so that a limit of fewer than four
    /// tokens mostly recomputes none. 0 stands for 0.1. Since 0.2.
    /// \[0 (default) to 1]
    pub fn blend_share(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_BLEND_SHARE, value)
    }
}

impl SamplingOptions {
    /// What logits are divided by. 0: greedy. \[0 (default) to 3e38]
    pub fn temperature(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_TEMPERATURE, value)
    }

    /// Keeps the k highest logits, and ties with the k-th. 0 keeps all. \[0 (default) to 2147483647]
    pub fn top_k(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_TOP_K, value)
    }

    /// Keeps the most probable tokens until their share of what is left reaches p. 1 keeps all.
    /// \[1e-30 to 1 (default)]
    pub fn top_p(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_TOP_P, value)
    }

    /// Keeps the tokens whose probability is at least this times that of the most probable one. 0 keeps all.
    /// \[0 (default) to 1]
    pub fn min_p(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_MIN_P, value)
    }

    /// The seed of the random numbers that tokens are drawn with: all of its 64 bits count.
    /// \[INT64_MIN to INT64_MAX; default 0]
    pub fn seed(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_SEED, value)
    }

    /// The logit of each token in the penalties' window (NL_OPTION_PENALTY_WINDOW) is divided by this where it is
    /// positive, else multiplied by it. 1: off. \[0.001 to 1000; default 1]
    pub fn repetition_penalty(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_REPETITION_PENALTY, value)
    }

    /// Is subtracted from a token's logit once for each time that the token stands in the penalties' window.
    /// \[-100 to 100; default 0]
    pub fn frequency_penalty(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_FREQUENCY_PENALTY, value)
    }

    /// Is subtracted once from the logit of each token in the penalties' window. \[-100 to 100; default 0]
    pub fn presence_penalty(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_PRESENCE_PENALTY, value)
    }

    /// The number of latest tokens of the context, prompt included, that the repetition, frequency and presence
    /// penalties look at. Drawing a token takes time in proportion to it. \[1 to 2147483647; default 64]
    pub fn penalty_window(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_PENALTY_WINDOW, value)
    }

    /// A token, a colon, and what is added to the token's logit, from -1000000 to 1000000: "198:-2.5" or "13:100". Each
    /// token once.
    /// \[each 3 to 64 bytes; default none]
    pub fn biased_token(self, value: impl AsRef<str>) -> Self {
        self.set_text(sys::NL_OPTION_BIASED_TOKEN, value.as_ref())
    }

    /// Tokens that are never drawn. \[each 0 to 2147483647; default none]
    pub fn banned_token(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_BANNED_TOKEN, value)
    }

    /// The only tokens that may be drawn. An end token is drawn only if it is one of them. None: all may be drawn.
    /// \[each 0 to 2147483647; default none]
    pub fn allowed_token(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_ALLOWED_TOKEN, value)
    }

    /// DRY ("don't repeat yourself"), as llama.cpp defines it. Where the context's latest n tokens occurred earlier in
    /// it, the token that followed them there would continue a repetition: multiplier \* base ^ (n - allowed length) is
    /// subtracted from its logit, for the largest such n, if that is at least the allowed length. 0: off.
    /// \[0 (default) to 1000000]
    pub fn dry_multiplier(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_DRY_MULTIPLIER, value)
    }

    /// The factor by which DRY's penalty grows with each further repeated token. \[1 to 100; default 1.75]
    pub fn dry_base(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_DRY_BASE, value)
    }

    /// The least number of repeated tokens that DRY penalises. \[1 to 2147483647; default 2]
    pub fn dry_allowed_length(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_DRY_ALLOWED_LENGTH, value)
    }

    /// The number of latest tokens of the context that DRY looks at. Drawing a token takes time in proportion to it.
    /// llama.cpp's default is the whole context. \[1 to 2147483647; default 1024]
    pub fn dry_window(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_DRY_WINDOW, value)
    }

    /// Texts that end a repetition: DRY counts no tokens from before the last of them. If none is given they are a
    /// newline, ":", "\"" and "\*"; one empty text alone means no breakers. Models without a tokenizer have none.
    /// \[each 0 to 40 bytes; default none]
    pub fn dry_breaker(self, value: impl AsRef<str>) -> Self {
        self.set_text(sys::NL_OPTION_DRY_BREAKER, value.as_ref())
    }

    /// XTC ("exclude top choices"), as llama.cpp defines it: with this probability a draw drops, of the tokens that are
    /// at least as probable as the threshold, all but the least probable one. 0: off. \[0 (default) to 1]
    pub fn xtc_probability(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_XTC_PROBABILITY, value)
    }

    /// XTC's threshold, a probability. Above 0.5 nothing is dropped. \[1e-30 to 1; default 0.1]
    pub fn xtc_threshold(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_XTC_THRESHOLD, value)
    }

    /// Keeps the tokens whose surprise, -log(probability), is nearest to the mean surprise, until their share reaches
    /// this number. 1 keeps all.
    /// \[1e-30 to 1 (default)]
    pub fn typical_p(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_TYPICAL_P, value)
    }

    /// Mirostat 2 (Basu et al., Mirostat, 2021): keeps the tokens whose surprise, -log2(probability), is at most a
    /// bound, or else the most probable one. This option is the surprise in bits that it aims at. The bound begins at
    /// twice that; after each draw it falls by eta \* (surprise of the token - this target). It begins anew when sampling
    /// options are set, and when the cache is truncated or loaded; a fork continues with its cache's bound. 0: off.
    /// \[0 (default) to 1000]
    pub fn mirostat_tau(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_MIROSTAT_TAU, value)
    }

    /// How fast Mirostat's bound follows the surprise of the tokens drawn. \[1e-30 to 1; default 0.1]
    pub fn mirostat_eta(self, value: f64) -> Self {
        self.set_float(sys::NL_OPTION_MIROSTAT_ETA, value)
    }

    /// The order in which filters are applied: NL_FILTER_\*, each once at most. A filter that is left out must be off.
    /// None: temperature, top-k, typical-p, top-p, min-p, XTC. \[each 1 to 6; default none]
    pub fn filter(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_FILTER, value)
    }
}

impl GenerationOptions {
    /// Most tokens to draw; 0: until the context is full. \[0 (default) to 2147483647]
    pub fn max_tokens(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_MAX_TOKENS, value)
    }

    /// The least number of tokens to draw. Until so many are drawn, end tokens and stop tokens can't be drawn, and stop
    /// texts do not end it. A constrained text that can only end does so all the same. \[0 (default) to 2147483647]
    pub fn min_tokens(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_MIN_TOKENS, value)
    }

    /// Tokens that end it, beside the model's end tokens. \[each 0 to 2147483647; default none]
    pub fn stop_token(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_STOP_TOKEN, value)
    }

    /// 1: the model's own end tokens (nl_engine_is_end_token) end it. \[0 or 1 (default)]
    pub fn end_tokens(self, value: bool) -> Self {
        self.set_int(sys::NL_OPTION_END_TOKENS, i64::from(value))
    }

    /// Texts that end it; the text that it gives ends before them. \[each 1 to 1024 bytes; default none]
    pub fn stop_text(self, value: impl AsRef<str>) -> Self {
        self.set_text(sys::NL_OPTION_STOP_TEXT, value.as_ref())
    }

    /// Milliseconds from its start after which it ends; 0: none. \[0 (default) to 2147483647]
    pub fn deadline_ms(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_DEADLINE_MS, value)
    }

    /// Higher ones are served first. \[-100 to 100; default 0]
    pub fn priority(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_PRIORITY, value)
    }

    /// Tokens that wait for nl_generation_next before the generation pauses. \[1 to 1048576; default 1024]
    pub fn buffer_tokens(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_BUFFER_TOKENS, value)
    }

    /// 1: tokens are turned into text. 0: they are not, and stop texts are not allowed. \[0 or 1 (default)]
    pub fn text(self, value: bool) -> Self {
        self.set_int(sys::NL_OPTION_TEXT, i64::from(value))
    }

    /// 1: the log-probability of each token drawn is kept, for nl_generation_logprobs. \[0 (default) or 1]
    pub fn logprobs(self, value: bool) -> Self {
        self.set_int(sys::NL_OPTION_LOGPROBS, i64::from(value))
    }

    /// How many most probable tokens are kept with their log-probabilities for each token drawn, for
    /// nl_generation_top_logprobs. More than 0 needs NL_OPTION_LOGPROBS to be 1. \[0 (default) to 20]
    pub fn top_logprobs(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_TOP_LOGPROBS, value)
    }

    /// The text is one of these texts. \[each 1 to 65536 bytes; default none]
    pub fn choice(self, value: impl AsRef<str>) -> Self {
        self.set_text(sys::NL_OPTION_CHOICE, value.as_ref())
    }

    /// The whole text matches this regular expression, in ECMAScript's syntax. \[0 to 1048576 bytes; default "", none]
    pub fn regex(self, value: impl AsRef<str>) -> Self {
        self.set_text(sys::NL_OPTION_REGEX, value.as_ref())
    }

    /// The text is JSON that satisfies this JSON schema. \[0 to 1048576 bytes; default "", none]
    pub fn json_schema(self, value: impl AsRef<str>) -> Self {
        self.set_text(sys::NL_OPTION_JSON_SCHEMA, value.as_ref())
    }

    /// 1: the text is a JSON object. \[0 (default) or 1]
    pub fn json_object(self, value: bool) -> Self {
        self.set_int(sys::NL_OPTION_JSON_OBJECT, i64::from(value))
    }

    /// The whole text is derived from the rule `root` of this grammar, in llama.cpp's EBNF.
    /// \[0 to 1048576 bytes; default "", none]
    pub fn grammar(self, value: impl AsRef<str>) -> Self {
        self.set_text(sys::NL_OPTION_GRAMMAR, value.as_ref())
    }

    /// How many of the cache's last tokens are the beginning of the constrained text; the generation continues that
    /// text. The tokens given to nl_generation_start are appended to the cache first, and can be part of the beginning.
    /// It may be what an earlier generation drew before it ended early, in the same cache or in a fork of it, or words
    /// that the caller wants the text to begin with. NL_ERROR_INVALID_ARGUMENT if the constraint does not allow this
    /// beginning, or allows no token after it. \[0 (default) to 2147483647]
    pub fn constrained_tokens(self, value: i64) -> Self {
        self.set_int(sys::NL_OPTION_CONSTRAINED_TOKENS, value)
    }

    /// 1: where the constraint leaves only one way to continue the text, such as the rest of a property's name, the
    /// model does not draw these characters. The tokenizer encodes them, and one step appends their tokens to the
    /// cache: at most 256, even if NL_OPTION_BUFFER_TOKENS is less. The model might have spelled the same characters
    /// with other tokens. Unless the text ends with these characters, the last of their tokens is not appended but
    /// drawn by the model, because a longer token may begin with the same characters. The logits callback is called
    /// for tokens that the model draws, not for those that are appended. NL_ERROR_INVALID_ARGUMENT if
    /// NL_OPTION_LOGPROBS is 1. \[0 (default) or 1]
    pub fn jump_ahead(self, value: bool) -> Self {
        self.set_int(sys::NL_OPTION_JUMP_AHEAD, i64::from(value))
    }
}
