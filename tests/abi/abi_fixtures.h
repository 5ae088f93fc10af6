// What the ABI tests share: handles that free themselves, and an engine on a tiny model. They use the public header
// and the shared library alone.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "abi/tiny_model.h"
#include "nanolith/nanolith.h"

namespace nanolith::test {

template <typename T, void (*kFree)(T*)>
struct HandleDeleter {
    void operator()(T* handle) const { kFree(handle); }
};
template <typename T, void (*kFree)(T*)>
using Handle = std::unique_ptr<T, HandleDeleter<T, kFree>>;

using OptionsHandle = Handle<nl_options, nl_options_free>;
using EngineHandle = Handle<nl_engine, nl_engine_free>;
using TokenizerHandle = Handle<nl_tokenizer, nl_tokenizer_free>;
using TextStreamHandle = Handle<nl_text_stream, nl_text_stream_free>;
using ChunkHandle = Handle<nl_chunk, nl_chunk_free>;
using CacheHandle = Handle<nl_cache, nl_cache_free>;
using GenerationHandle = Handle<nl_generation, nl_generation_free>;

using Tokens = std::vector<int32_t>;

// A call that must succeed.
#define NL_CHECK(call) ASSERT_EQ(call, NL_OK) << nl_last_error()

// A call that must fail with `status` and a sentence that holds `text`.
#define EXPECT_FAILS(status, text, call)                                                      \
    do {                                                                                      \
        EXPECT_EQ(call, status) << #call;                                                     \
        EXPECT_NE(std::string(nl_last_error()).find(text), std::string::npos)                 \
            << #call << " said \"" << nl_last_error() << "\", expected \"" << (text) << "\""; \
    } while (0)
#define EXPECT_INVALID(text, call) EXPECT_FAILS(NL_ERROR_INVALID_ARGUMENT, text, call)

struct EngineSettings {
    int64_t num_pages = 64;
    int32_t page_size = 16;
    int32_t max_batch_tokens = 32;  // so that prefills of a few dozen tokens come in slices
    int64_t max_context = 0;
};

// The device that the suites run on: the CPU unless NANOLITH_TEST_DEVICE names another.
inline std::string test_device() {
    const char* const device = std::getenv("NANOLITH_TEST_DEVICE");
    return device != nullptr ? device : "cpu";
}

inline OptionsHandle make_options(int32_t kind) {
    nl_options* made = nullptr;
    EXPECT_EQ(nl_options_create(kind, &made), NL_OK) << nl_last_error();
    return OptionsHandle(made);
}

inline nl_status set_device(nl_options* options, const std::string& device) {
    return nl_options_set_text(options, NL_OPTION_DEVICE, device.data(), device.size());
}

inline EngineHandle make_engine(const TinyModel& model, const EngineSettings& settings = {}) {
    const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
    EXPECT_EQ(set_device(options.get(), test_device()), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_THREADS, 1), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_NUM_PAGES, settings.num_pages), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_PAGE_SIZE, settings.page_size), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_MAX_BATCH_TOKENS, settings.max_batch_tokens), NL_OK);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_MAX_CONTEXT, settings.max_context), NL_OK);
    nl_engine* engine = nullptr;
    EXPECT_EQ(nl_engine_create(model.path().data(), model.path().size(), options.get(), &engine), NL_OK)
        << nl_last_error();
    return EngineHandle(engine);
}

inline ChunkHandle make_chunk(nl_engine* engine, const Tokens& tokens, int32_t level = 1,
                              const std::vector<const nl_chunk*>& before = {}) {
    nl_chunk* chunk = nullptr;
    EXPECT_EQ(nl_chunk_prefill(engine, tokens.data(), tokens.size(), level, before.data(), before.size(), &chunk),
              NL_OK)
        << nl_last_error();
    return ChunkHandle(chunk);
}

inline CacheHandle make_cache(nl_engine* engine, const std::vector<const nl_chunk*>& chunks = {},
                              int32_t composition = NL_COMPOSE_INDEPENDENT) {
    const OptionsHandle options = make_options(NL_OPTIONS_CACHE);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_COMPOSITION, composition), NL_OK);
    nl_cache* cache = nullptr;
    EXPECT_EQ(nl_cache_create(engine, options.get(), chunks.data(), chunks.size(), &cache), NL_OK) << nl_last_error();
    return CacheHandle(cache);
}

// One that recomputes up to `share` of the chunks' tokens.
inline CacheHandle make_blend(nl_engine* engine, const std::vector<const nl_chunk*>& chunks, double share) {
    const OptionsHandle options = make_options(NL_OPTIONS_CACHE);
    EXPECT_EQ(nl_options_set_int(options.get(), NL_OPTION_COMPOSITION, NL_COMPOSE_BLENDED), NL_OK);
    EXPECT_EQ(nl_options_set_float(options.get(), NL_OPTION_BLEND_SHARE, share), NL_OK);
    nl_cache* cache = nullptr;
    EXPECT_EQ(nl_cache_create(engine, options.get(), chunks.data(), chunks.size(), &cache), NL_OK) << nl_last_error();
    return CacheHandle(cache);
}

inline void extend(nl_cache* cache, const Tokens& tokens) {
    EXPECT_EQ(nl_cache_extend(cache, tokens.data(), tokens.size()), NL_OK) << nl_last_error();
}

inline int32_t decode(nl_cache* cache) {
    int32_t token = -1;
    EXPECT_EQ(nl_decode_step(&cache, 1, &token), NL_OK) << nl_last_error();
    return token;
}

inline Tokens decode(nl_cache* cache, int count) {
    Tokens tokens;
    while (count-- > 0) tokens.push_back(decode(cache));
    return tokens;
}

// Without the tokens that a text begins and ends with.
inline Tokens encode(const nl_engine* engine, const std::string& text) {
    nl_tokenizer* made = nullptr;
    EXPECT_EQ(nl_engine_tokenizer(engine, &made), NL_OK) << nl_last_error();
    const TokenizerHandle tokenizer(made);
    Tokens tokens(text.size() + 4);
    size_t count = 0;
    EXPECT_EQ(nl_tokenizer_encode(tokenizer.get(), text.data(), text.size(), 0, tokens.data(), tokens.size(), &count),
              NL_OK)
        << nl_last_error();
    tokens.resize(count);
    return tokens;
}

inline Tokens tokens_of(const nl_cache* cache) {
    size_t count = 0;
    nl_cache_tokens(cache, nullptr, 0, &count);
    Tokens tokens(count);
    EXPECT_EQ(nl_cache_tokens(cache, tokens.data(), tokens.size(), &count), NL_OK) << nl_last_error();
    return tokens;
}

inline std::vector<float> logits_of(nl_cache* cache) {
    size_t count = 0;
    nl_cache_logits(cache, nullptr, 0, &count);
    std::vector<float> logits(count);
    EXPECT_EQ(nl_cache_logits(cache, logits.data(), logits.size(), &count), NL_OK) << nl_last_error();
    return logits;
}

inline int64_t fact(const nl_engine* engine, int32_t which) {
    int64_t value = -1;
    EXPECT_EQ(nl_engine_query(engine, which, &value), NL_OK) << nl_last_error();
    return value;
}
inline int64_t fact(const nl_cache* cache, int32_t which) {
    int64_t value = -1;
    EXPECT_EQ(nl_cache_query(cache, which, &value), NL_OK) << nl_last_error();
    return value;
}
inline int64_t fact(const nl_chunk* chunk, int32_t which) {
    int64_t value = -1;
    EXPECT_EQ(nl_chunk_query(chunk, which, &value), NL_OK) << nl_last_error();
    return value;
}
inline int64_t fact(const nl_generation* generation, int32_t which) {
    int64_t value = -1;
    EXPECT_EQ(nl_generation_query(generation, which, &value), NL_OK) << nl_last_error();
    return value;
}

// Pages that hold nothing a handle needs.
inline int64_t spare_pages(const nl_engine* engine) {
    return fact(engine, NL_ENGINE_PAGES_FREE) + fact(engine, NL_ENGINE_PAGES_EVICTABLE);
}

// The text of nl_engine_metrics.
inline std::string metrics_of(const nl_engine* engine) {
    std::string text(1 << 16, '\0');
    size_t length = 0;
    EXPECT_EQ(nl_engine_metrics(engine, text.data(), text.size(), &length), NL_OK) << nl_last_error();
    text.resize(std::min(length, text.size()));
    return text;
}

// `count` tokens that differ with `start`.
inline Tokens some_tokens(int count, int start = 3) {
    Tokens tokens;
    for (int i = 0; i < count; ++i) tokens.push_back(3 + (start * 31 + i * 17) % 390);
    return tokens;
}

}  // namespace nanolith::test
