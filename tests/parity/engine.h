// The public ABI with owners, for the parity tests. A call that fails throws with the library's own sentence.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "nanolith/nanolith.h"

namespace nanolith::parity {

struct Free {
    void operator()(nl_options* handle) const { nl_options_free(handle); }
    void operator()(nl_engine* handle) const { nl_engine_free(handle); }
    void operator()(nl_chunk* handle) const { nl_chunk_free(handle); }
    void operator()(nl_cache* handle) const { nl_cache_free(handle); }
};
using EngineOptions = std::unique_ptr<nl_options, Free>;
using Engine = std::unique_ptr<nl_engine, Free>;
using Chunk = std::unique_ptr<nl_chunk, Free>;
using Cache = std::unique_ptr<nl_cache, Free>;

inline void check(nl_status status) {
    if (status != NL_OK) throw std::runtime_error(std::string(nl_status_name(status)) + ": " + nl_last_error());
}

// Null where `device` is "cuda" and there is none here.
inline Engine open_engine(const std::string& folder, const std::string& device, int32_t dtype, size_t max_context) {
    nl_options* raw_options = nullptr;
    check(nl_options_create(NL_OPTIONS_ENGINE, &raw_options));
    const EngineOptions options(raw_options);
    check(nl_options_set_text(raw_options, NL_OPTION_DEVICE, device.data(), device.size()));
    check(nl_options_set_int(raw_options, NL_OPTION_DTYPE, dtype));
    // Small pages and batches, so that short prompts cross the borders of both.
    check(nl_options_set_int(raw_options, NL_OPTION_PAGE_SIZE, 16));
    check(nl_options_set_int(raw_options, NL_OPTION_NUM_PAGES, 256));
    check(nl_options_set_int(raw_options, NL_OPTION_MAX_BATCH_TOKENS, 48));
    check(nl_options_set_int(raw_options, NL_OPTION_MAX_CONTEXT, static_cast<int64_t>(max_context)));
    nl_engine* engine = nullptr;
    const nl_status status = nl_engine_create(folder.data(), folder.size(), raw_options, &engine);
    if (device == "cuda" && status == NL_ERROR_NOT_FOUND) return nullptr;
    check(status);
    return Engine(engine);
}

inline Chunk prefill(const Engine& engine, std::span<const int32_t> tokens, int32_t level) {
    nl_chunk* chunk = nullptr;
    check(nl_chunk_prefill(engine.get(), tokens.data(), tokens.size(), level, nullptr, 0, &chunk));
    return Chunk(chunk);
}

// Composed exactly, the default.
inline Cache make_cache(const Engine& engine, const std::vector<const nl_chunk*>& chunks = {}) {
    nl_cache* cache = nullptr;
    check(nl_cache_create(engine.get(), nullptr, chunks.data(), chunks.size(), &cache));
    return Cache(cache);
}

inline void extend(const Cache& cache, std::span<const int32_t> tokens) {
    check(nl_cache_extend(cache.get(), tokens.data(), tokens.size()));
}

inline std::vector<float> logits_of(const Cache& cache, size_t vocab_size) {
    std::vector<float> logits(vocab_size);
    size_t count = 0;
    check(nl_cache_logits(cache.get(), logits.data(), logits.size(), &count));
    if (count != vocab_size) throw std::runtime_error("the engine has " + std::to_string(count) + " logits a token");
    return logits;
}

inline std::vector<float> embed(const Cache& cache, std::span<const int32_t> tokens, int32_t pooling,
                                size_t hidden_size) {
    std::vector<float> vector(hidden_size);
    size_t count = 0;
    check(nl_cache_embed(cache.get(), tokens.data(), tokens.size(), pooling, 0, vector.data(), vector.size(), &count));
    if (count != hidden_size) throw std::runtime_error("a hidden state has " + std::to_string(count) + " numbers");
    return vector;
}

inline std::vector<int32_t> decode(const Cache& cache, size_t num_tokens) {
    std::vector<int32_t> tokens(num_tokens);
    nl_cache* raw = cache.get();
    for (int32_t& token : tokens) check(nl_decode_step(&raw, 1, &token));
    return tokens;
}

}  // namespace nanolith::parity
