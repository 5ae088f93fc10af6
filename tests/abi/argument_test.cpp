// Every function with NULL, zero and huge arguments: an error that names the argument, and nothing changed.
#include <cmath>
#include <limits>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

constexpr size_t kHuge = std::numeric_limits<size_t>::max();
constexpr size_t kManyTokens = size_t{1} << 40U;  // more than a context holds: must be refused before they are read

TEST(Arguments, StatusNamesAndVersion) {
    EXPECT_STREQ(nl_version(), "0.2.0");
    EXPECT_EQ(nl_version_number(), 200);
    EXPECT_EQ(NL_VERSION_NUMBER, 200);
    EXPECT_STREQ(nl_status_name(NL_OK), "NL_OK");
    EXPECT_STREQ(nl_status_name(NL_ERROR_OUT_OF_PAGES), "NL_ERROR_OUT_OF_PAGES");
    EXPECT_STREQ(nl_status_name(NL_ERROR_INTERNAL), "NL_ERROR_INTERNAL");
    for (const nl_status status : {-1, 15, INT32_MAX, INT32_MIN}) EXPECT_NE(nl_status_name(status), nullptr);
    EXPECT_NE(nl_last_error(), nullptr);
}

TEST(Arguments, FreeingNullDoesNothing) {
    nl_options_free(nullptr);
    nl_engine_free(nullptr);
    nl_tokenizer_free(nullptr);
    nl_text_stream_free(nullptr);
    nl_chunk_free(nullptr);
    nl_cache_free(nullptr);
}

// The functions that take an engine or what is made from it.
class HandleArguments : public testing::Test {
  protected:
    TinyModel model_;
    EngineHandle engine_ = make_engine(model_);
    ChunkHandle chunk_ = make_chunk(engine_.get(), some_tokens(20));
    CacheHandle cache_ = make_cache(engine_.get(), {chunk_.get()});
    int64_t value_ = 77;
    size_t size_ = 77;
};

TEST_F(HandleArguments, Engine) {
    int32_t is_end = 77;
    EXPECT_INVALID("engine", nl_engine_query(nullptr, NL_ENGINE_VOCAB_SIZE, &value_));
    EXPECT_INVALID("value", nl_engine_query(engine_.get(), NL_ENGINE_VOCAB_SIZE, nullptr));
    for (const int32_t fact : {-1, 0, 34, INT32_MAX})
        EXPECT_INVALID("fact is " + std::to_string(fact), nl_engine_query(engine_.get(), fact, &value_));
    EXPECT_INVALID("engine", nl_engine_describe(nullptr, nullptr, 0, &size_));
    EXPECT_INVALID("length", nl_engine_describe(engine_.get(), nullptr, 0, nullptr));
    EXPECT_INVALID("engine", nl_engine_metrics(nullptr, nullptr, 0, &size_));
    EXPECT_INVALID("length", nl_engine_metrics(engine_.get(), nullptr, 0, nullptr));
    EXPECT_INVALID("engine", nl_engine_device(nullptr, nullptr, 0, &size_));
    EXPECT_INVALID("length", nl_engine_device(engine_.get(), nullptr, 0, nullptr));
    EXPECT_INVALID("engine", nl_engine_is_end_token(nullptr, 2, &is_end));
    EXPECT_INVALID("is_end", nl_engine_is_end_token(engine_.get(), 2, nullptr));
    EXPECT_INVALID("engine", nl_engine_tokenizer(nullptr, nullptr));
    EXPECT_INVALID("tokenizer", nl_engine_tokenizer(engine_.get(), nullptr));
    EXPECT_EQ(value_, 77);
    EXPECT_EQ(size_, 77U);
    EXPECT_EQ(is_end, 77);
}

TEST_F(HandleArguments, Chunk) {
    const Tokens tokens = some_tokens(5);
    nl_chunk* out = nullptr;
    nl_engine* engine = engine_.get();
    const nl_chunk* no_chunk[] = {chunk_.get(), nullptr};
    const int64_t spare = spare_pages(engine);
    EXPECT_INVALID("engine", nl_chunk_prefill(nullptr, tokens.data(), 5, 1, nullptr, 0, &out));
    EXPECT_INVALID("tokens", nl_chunk_prefill(engine, nullptr, 5, 1, nullptr, 0, &out));
    EXPECT_INVALID("num_tokens", nl_chunk_prefill(engine, nullptr, 0, 1, nullptr, 0, &out));
    EXPECT_INVALID("num_tokens", nl_chunk_prefill(engine, tokens.data(), 0, 1, nullptr, 0, &out));
    EXPECT_INVALID("num_tokens", nl_chunk_prefill(engine, tokens.data(), kHuge, 1, nullptr, 0, &out));
    EXPECT_EQ(nl_chunk_prefill(engine, tokens.data(), kManyTokens, 1, nullptr, 0, &out), NL_ERROR_CONTEXT_FULL);
    EXPECT_INVALID("level is -1", nl_chunk_prefill(engine, tokens.data(), 5, -1, nullptr, 0, &out));
    EXPECT_INVALID("level is 3", nl_chunk_prefill(engine, tokens.data(), 5, 3, nullptr, 0, &out));
    EXPECT_INVALID("before", nl_chunk_prefill(engine, tokens.data(), 5, 1, nullptr, 1, &out));
    EXPECT_INVALID("before[1]", nl_chunk_prefill(engine, tokens.data(), 5, 1, no_chunk, 2, &out));
    EXPECT_INVALID("num_before", nl_chunk_prefill(engine, tokens.data(), 5, 1, no_chunk, kHuge, &out));
    EXPECT_INVALID("chunk", nl_chunk_prefill(engine, tokens.data(), 5, 1, nullptr, 0, nullptr));
    for (const int32_t token : {-1, 400, INT32_MAX, INT32_MIN}) {
        const Tokens wrong = {3, 4, token};
        EXPECT_INVALID("tokens[2] is " + std::to_string(token),
                       nl_chunk_prefill(engine, wrong.data(), 3, 1, nullptr, 0, &out));
    }
    EXPECT_INVALID("chunk", nl_chunk_retain(nullptr, &out));
    EXPECT_INVALID("again", nl_chunk_retain(chunk_.get(), nullptr));
    EXPECT_INVALID("chunk", nl_chunk_query(nullptr, NL_CHUNK_TOKENS, &value_));
    EXPECT_INVALID("value", nl_chunk_query(chunk_.get(), NL_CHUNK_TOKENS, nullptr));
    for (const int32_t fact : {-1, 0, 9}) EXPECT_INVALID("fact", nl_chunk_query(chunk_.get(), fact, &value_));
    EXPECT_EQ(out, nullptr);
    EXPECT_EQ(value_, 77);
    EXPECT_EQ(spare_pages(engine), spare);
}

TEST_F(HandleArguments, AChunkOfAnotherEngine) {
    const EngineHandle other = make_engine(model_);
    const ChunkHandle foreign = make_chunk(other.get(), some_tokens(5));
    const nl_chunk* chunks[] = {chunk_.get(), foreign.get()};
    const Tokens tokens = some_tokens(5);
    nl_chunk* chunk = nullptr;
    nl_cache* cache = nullptr;
    EXPECT_INVALID("before[1]", nl_chunk_prefill(engine_.get(), tokens.data(), 5, 1, chunks, 2, &chunk));
    EXPECT_INVALID("chunks[1]", nl_cache_create(engine_.get(), nullptr, chunks, 2, &cache));
    EXPECT_EQ(chunk, nullptr);
    EXPECT_EQ(cache, nullptr);
}

TEST_F(HandleArguments, Cache) {
    const Tokens tokens = some_tokens(5);
    nl_cache* out = nullptr;
    nl_engine* engine = engine_.get();
    nl_cache* cache = cache_.get();
    const nl_chunk* no_chunk[] = {nullptr};
    EXPECT_INVALID("engine", nl_cache_create(nullptr, nullptr, nullptr, 0, &out));
    EXPECT_INVALID("chunks", nl_cache_create(engine, nullptr, nullptr, 2, &out));
    EXPECT_INVALID("chunks[0]", nl_cache_create(engine, nullptr, no_chunk, 1, &out));
    EXPECT_INVALID("num_chunks", nl_cache_create(engine, nullptr, no_chunk, kHuge, &out));
    EXPECT_INVALID("cache", nl_cache_create(engine, nullptr, nullptr, 0, nullptr));
    EXPECT_INVALID("cache", nl_cache_extend(nullptr, tokens.data(), 5));
    EXPECT_INVALID("tokens", nl_cache_extend(cache, nullptr, 5));
    EXPECT_INVALID("num_tokens", nl_cache_extend(cache, tokens.data(), kHuge));
    EXPECT_EQ(nl_cache_extend(cache, tokens.data(), kManyTokens), NL_ERROR_CONTEXT_FULL);
    const Tokens wrong = {400};
    EXPECT_INVALID("tokens[0] is 400", nl_cache_extend(cache, wrong.data(), 1));
    EXPECT_INVALID("cache", nl_cache_fork(nullptr, &out));
    EXPECT_INVALID("fork", nl_cache_fork(cache, nullptr));
    EXPECT_INVALID("cache", nl_cache_truncate(nullptr, 0));
    EXPECT_INVALID("num_tokens is 21", nl_cache_truncate(cache, 21));
    EXPECT_INVALID("num_tokens", nl_cache_truncate(cache, kHuge));
    EXPECT_INVALID("cache", nl_cache_tokens(nullptr, nullptr, 0, &size_));
    EXPECT_INVALID("count", nl_cache_tokens(cache, nullptr, 0, nullptr));
    EXPECT_INVALID("cache", nl_cache_logits(nullptr, nullptr, 0, &size_));
    EXPECT_INVALID("count", nl_cache_logits(cache, nullptr, 0, nullptr));
    EXPECT_INVALID("cache", nl_cache_query(nullptr, NL_CACHE_TOKENS, &value_));
    EXPECT_INVALID("value", nl_cache_query(cache, NL_CACHE_TOKENS, nullptr));
    for (const int32_t fact : {-1, 0, 11}) EXPECT_INVALID("fact", nl_cache_query(cache, fact, &value_));
    EXPECT_INVALID("cache", nl_cache_describe(nullptr, nullptr, 0, &size_));
    EXPECT_INVALID("length", nl_cache_describe(cache, nullptr, 0, nullptr));
    EXPECT_INVALID("cache", nl_cache_set_sampling(nullptr, nullptr));
    EXPECT_INVALID("options", nl_cache_set_sampling(cache, nullptr));
    EXPECT_EQ(out, nullptr);
    EXPECT_EQ(value_, 77);
    EXPECT_EQ(size_, 77U);
    EXPECT_EQ(tokens_of(cache), some_tokens(20));
}

TEST_F(HandleArguments, ZeroTokensAreFine) {
    NL_CHECK(nl_cache_extend(cache_.get(), nullptr, 0));
    NL_CHECK(nl_decode_step(nullptr, 0, nullptr));
    EXPECT_EQ(fact(cache_.get(), NL_CACHE_TOKENS), 20);
}

TEST_F(HandleArguments, DecodeStep) {
    const EngineHandle other_engine = make_engine(model_);
    const CacheHandle other = make_cache(other_engine.get());
    extend(other.get(), {5});
    const CacheHandle second = make_cache(engine_.get(), {chunk_.get()});
    const CacheHandle empty = make_cache(engine_.get());
    int32_t tokens[2] = {77, 77};
    auto step = [&](nl_cache* first, nl_cache* last) {
        nl_cache* caches[] = {first, last};
        return nl_decode_step(caches, 2, tokens);
    };
    nl_cache* cache = cache_.get();
    EXPECT_INVALID("caches", nl_decode_step(nullptr, 1, tokens));
    EXPECT_INVALID("tokens", nl_decode_step(&cache, 1, nullptr));
    EXPECT_INVALID("num_caches", nl_decode_step(&cache, kHuge, tokens));
    EXPECT_INVALID("caches[0]", step(nullptr, cache));
    EXPECT_INVALID("caches[1]", step(cache, nullptr));
    EXPECT_INVALID("caches[1]", step(cache, cache));
    EXPECT_INVALID("caches[1]", step(cache, other.get()));
    EXPECT_INVALID("caches[1]", step(cache, empty.get()));
    EXPECT_INVALID("caches[0]", step(empty.get(), second.get()));
    EXPECT_EQ(tokens[0], 77);
    EXPECT_EQ(tokens[1], 77);
    EXPECT_EQ(fact(cache, NL_CACHE_TOKENS), 20);
    EXPECT_EQ(fact(second.get(), NL_CACHE_TOKENS), 20);
    NL_CHECK(step(cache, second.get()));
    EXPECT_EQ(tokens[0], tokens[1]);  // the same context, both greedy
}

TEST_F(HandleArguments, LogitsOfAnEmptyCache) {
    const CacheHandle empty = make_cache(engine_.get());
    std::vector<float> logits(400, 77);
    EXPECT_INVALID("cache", nl_cache_logits(empty.get(), logits.data(), logits.size(), &size_));
    EXPECT_EQ(logits, std::vector<float>(400, 77));
}

}  // namespace
}  // namespace nanolith::test
