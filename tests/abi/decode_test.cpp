// Conversations through the ABI: decoding, sampling, forking and truncating, and failures that change nothing.
#include <algorithm>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

int32_t best(const std::vector<float>& logits) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void set_sampling(nl_cache* cache, float temperature, int32_t top_k, float top_p, float min_p, uint64_t seed) {
    const OptionsHandle options = make_options(NL_OPTIONS_SAMPLING);
    NL_CHECK(nl_options_set_float(options.get(), NL_OPTION_TEMPERATURE, temperature));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_TOP_K, top_k));
    NL_CHECK(nl_options_set_float(options.get(), NL_OPTION_TOP_P, top_p));
    NL_CHECK(nl_options_set_float(options.get(), NL_OPTION_MIN_P, min_p));
    NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_SEED, seed));
    NL_CHECK(nl_cache_set_sampling(cache, options.get()));
}

class Decode : public testing::Test {
  protected:
    CacheHandle cache_with(const Tokens& tokens) {
        CacheHandle cache = make_cache(engine_.get());
        extend(cache.get(), tokens);
        return cache;
    }

    TinyModel model_;
    EngineHandle engine_ = make_engine(model_);
};

TEST_F(Decode, GreedyTakesTheHighestLogitAndAppendsIt) {
    const CacheHandle cache = cache_with(some_tokens(10));
    Tokens expected = some_tokens(10);
    for (int i = 0; i < 20; ++i) {
        const int32_t highest = best(logits_of(cache.get()));
        EXPECT_EQ(decode(cache.get()), highest);
        expected.push_back(highest);
    }
    EXPECT_EQ(tokens_of(cache.get()), expected);
    // The model is random, but it must not be degenerate: else the tests below would prove little.
    std::sort(expected.begin(), expected.end());
    EXPECT_GT(std::unique(expected.begin(), expected.end()) - expected.begin(), 12);
}

TEST_F(Decode, ABatchGivesWhatSingleStepsGive) {
    std::vector<CacheHandle> together;
    std::vector<Tokens> expected;
    for (int i = 0; i < 5; ++i) {
        const CacheHandle alone = cache_with(some_tokens(3 + 9 * i, i));
        expected.push_back(decode(alone.get(), 12));
        together.push_back(cache_with(some_tokens(3 + 9 * i, i)));
    }
    std::vector<Tokens> drawn(5);
    std::vector<nl_cache*> handles;
    for (const auto& cache : together) handles.push_back(cache.get());
    for (int step = 0; step < 12; ++step) {
        int32_t tokens[5];
        NL_CHECK(nl_decode_step(handles.data(), 5, tokens));
        for (size_t i = 0; i < 5; ++i) drawn[i].push_back(tokens[i]);
    }
    EXPECT_EQ(drawn, expected);
}

TEST_F(Decode, FiltersThatKeepOneTokenAreGreedy) {
    const CacheHandle greedy = cache_with(some_tokens(10));
    const Tokens expected = decode(greedy.get(), 15);
    const CacheHandle top_k = cache_with(some_tokens(10));
    set_sampling(top_k.get(), 2, 1, 1, 0, 5);
    EXPECT_EQ(decode(top_k.get(), 15), expected);
    const CacheHandle top_p = cache_with(some_tokens(10));
    set_sampling(top_p.get(), 2, 0, 1e-6F, 0, 5);
    EXPECT_EQ(decode(top_p.get(), 15), expected);
    const CacheHandle min_p = cache_with(some_tokens(10));
    set_sampling(min_p.get(), 2, 0, 1, 1, 5);
    EXPECT_EQ(decode(min_p.get(), 15), expected);
}

TEST_F(Decode, TheSeedDecides) {
    std::vector<Tokens> drawn;
    for (const uint64_t seed : {uint64_t{1}, uint64_t{1}, uint64_t{2}}) {
        const CacheHandle cache = cache_with(some_tokens(10));
        set_sampling(cache.get(), 3, 0, 1, 0, seed);
        drawn.push_back(decode(cache.get(), 15));
    }
    EXPECT_EQ(drawn[0], drawn[1]);
    EXPECT_NE(drawn[0], drawn[2]);
}

TEST_F(Decode, TopKKeepsOnlyTheBest) {
    const CacheHandle cache = cache_with(some_tokens(10));
    std::vector<float> sorted = logits_of(cache.get());
    const std::vector<float> logits = sorted;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    Tokens seen;
    for (uint64_t seed = 0; seed < 60; ++seed) {
        set_sampling(cache.get(), 5, 3, 1, 0, seed);
        const int32_t token = decode(cache.get());
        EXPECT_GE(logits[token], sorted[2]);
        seen.push_back(token);
        NL_CHECK(nl_cache_truncate(cache.get(), 10));
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::unique(seen.begin(), seen.end()) - seen.begin(), 3);
}

TEST_F(Decode, ForksGoTheirOwnWay) {
    const ChunkHandle chunk = make_chunk(engine_.get(), some_tokens(40));
    const CacheHandle cache = make_cache(engine_.get(), {chunk.get()});
    extend(cache.get(), some_tokens(21, 5));  // ends inside a page
    nl_cache* made = nullptr;
    NL_CHECK(nl_cache_fork(cache.get(), &made));
    const CacheHandle fork(made);
    EXPECT_EQ(tokens_of(fork.get()), tokens_of(cache.get()));
    EXPECT_EQ(fact(fork.get(), NL_CACHE_TOKENS_REUSED), 61);
    EXPECT_EQ(fact(fork.get(), NL_CACHE_TOKENS_COMPUTED), 0);

    const CacheHandle fresh = make_cache(engine_.get(), {chunk.get()});
    extend(fresh.get(), some_tokens(21, 5));
    const Tokens expected = decode(fresh.get(), 20);
    extend(fork.get(), {9, 8, 7});  // writes to the page that both share
    EXPECT_EQ(decode(cache.get(), 20), expected);

    const CacheHandle other = make_cache(engine_.get(), {chunk.get()});
    extend(other.get(), some_tokens(21, 5));
    extend(other.get(), {9, 8, 7});
    EXPECT_EQ(decode(fork.get(), 20), decode(other.get(), 20));
}

TEST_F(Decode, TruncationForgets) {
    const ChunkHandle chunk = make_chunk(engine_.get(), some_tokens(40));
    for (const size_t keep : {60U, 48U, 41U, 40U, 33U, 7U, 1U}) {
        SCOPED_TRACE(keep);
        const CacheHandle cache = make_cache(engine_.get(), {chunk.get()}, NL_COMPOSE_EXACT);
        extend(cache.get(), some_tokens(20, 5));
        decode(cache.get(), 4);
        NL_CHECK(nl_cache_truncate(cache.get(), keep));
        Tokens kept = some_tokens(40);
        for (const int32_t token : some_tokens(20, 5)) kept.push_back(token);
        kept.resize(keep);
        EXPECT_EQ(tokens_of(cache.get()), kept);
        // A cache that never had the rest draws the same.
        const CacheHandle plain = cache_with(kept);
        EXPECT_EQ(decode(cache.get(), 10), decode(plain.get(), 10));
    }
    const CacheHandle cache = cache_with(some_tokens(20));
    NL_CHECK(nl_cache_truncate(cache.get(), 0));
    EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS), 0);
    extend(cache.get(), some_tokens(20));
    EXPECT_EQ(tokens_of(cache.get()), some_tokens(20));
}

TEST_F(Decode, AFullContextSaysSoAndStays) {
    const EngineHandle small = make_engine(model_, {.num_pages = 64, .max_context = 50});
    const CacheHandle cache = make_cache(small.get());
    const CacheHandle other = make_cache(small.get());
    extend(other.get(), some_tokens(5));
    extend(cache.get(), some_tokens(48));
    const Tokens more = {3, 4, 5};
    EXPECT_FAILS(NL_ERROR_CONTEXT_FULL, "50", nl_cache_extend(cache.get(), more.data(), 3));
    EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS), 48);
    decode(cache.get(), 2);
    nl_cache* both[] = {other.get(), cache.get()};
    int32_t tokens[2] = {77, 77};
    EXPECT_FAILS(NL_ERROR_CONTEXT_FULL, "caches[1]", nl_decode_step(both, 2, tokens));
    EXPECT_EQ(tokens[0], 77);
    EXPECT_EQ(fact(other.get(), NL_CACHE_TOKENS), 5);
    EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS), 50);
    EXPECT_EQ(logits_of(cache.get()).size(), 400U);  // still there to be read
    NL_CHECK(nl_cache_truncate(cache.get(), 40));
    decode(cache.get(), 10);

    nl_chunk* chunk = nullptr;
    const Tokens long_text = some_tokens(51);
    EXPECT_EQ(nl_chunk_prefill(small.get(), long_text.data(), 51, 1, nullptr, 0, &chunk), NL_ERROR_CONTEXT_FULL);
    const ChunkHandle thirty = make_chunk(small.get(), some_tokens(30));
    const nl_chunk* twice[] = {thirty.get(), thirty.get()};
    nl_cache* made = nullptr;
    EXPECT_EQ(nl_cache_create(small.get(), nullptr, twice, 2, &made), NL_ERROR_CONTEXT_FULL);
    EXPECT_EQ(made, nullptr);
}

TEST_F(Decode, RunningOutOfPagesChangesNothing) {
    const EngineHandle small = make_engine(model_, {.num_pages = 6});
    const ChunkHandle chunk = make_chunk(small.get(), some_tokens(40));  // 3 pages
    const CacheHandle cache = make_cache(small.get(), {chunk.get()});
    extend(cache.get(), some_tokens(16, 1));
    const CacheHandle other = make_cache(small.get());
    extend(other.get(), some_tokens(32, 2));  // the pool is full
    EXPECT_EQ(spare_pages(small.get()), 0);

    const Tokens more = some_tokens(5, 3);
    nl_chunk* no_chunk = nullptr;
    EXPECT_EQ(nl_cache_extend(cache.get(), more.data(), 5), NL_ERROR_OUT_OF_PAGES);
    EXPECT_NE(std::string(nl_last_error()), "");
    EXPECT_EQ(nl_chunk_prefill(small.get(), more.data(), 5, 1, nullptr, 0, &no_chunk), NL_ERROR_OUT_OF_PAGES);
    EXPECT_EQ(no_chunk, nullptr);
    nl_cache* both[] = {cache.get(), other.get()};
    int32_t tokens[2] = {77, 77};
    nl_status status = NL_OK;
    int steps = 0;  // the first drawn token may need no page yet
    while (steps < 3 && (status = nl_decode_step(both, 2, tokens)) == NL_OK) ++steps;
    EXPECT_EQ(status, NL_ERROR_OUT_OF_PAGES);
    EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS), 56 + steps);
    EXPECT_EQ(fact(other.get(), NL_CACHE_TOKENS), 32 + steps);
    EXPECT_EQ(spare_pages(small.get()), 0);

    // With pages again, the conversation goes on as if nothing had happened.
    NL_CHECK(nl_cache_truncate(other.get(), 0));
    NL_CHECK(nl_cache_truncate(cache.get(), 56));
    extend(cache.get(), more);
    const Tokens drawn = decode(cache.get(), 8);
    const CacheHandle fresh = make_cache(engine_.get());
    const ChunkHandle same = make_chunk(engine_.get(), some_tokens(40));
    const CacheHandle expected = make_cache(engine_.get(), {same.get()});
    extend(expected.get(), some_tokens(16, 1));
    extend(expected.get(), more);
    EXPECT_EQ(drawn, decode(expected.get(), 8));
}

TEST_F(Decode, UnusedChunksMakeRoom) {
    const EngineHandle small = make_engine(model_, {.num_pages = 6});
    for (int round = 0; round < 10; ++round) make_chunk(small.get(), some_tokens(40, round), round % 3);
    EXPECT_EQ(spare_pages(small.get()), 6);
    const CacheHandle cache = make_cache(small.get());
    extend(cache.get(), some_tokens(96));
    EXPECT_EQ(spare_pages(small.get()), 0);
}

TEST_F(Decode, ChunksAreFoundAgain) {
    const ChunkHandle first = make_chunk(engine_.get(), some_tokens(40));
    const ChunkHandle again = make_chunk(engine_.get(), some_tokens(40));
    EXPECT_EQ(fact(first.get(), NL_CHUNK_TOKENS), 40);
    EXPECT_EQ(fact(first.get(), NL_CHUNK_LEVEL), 1);
    EXPECT_EQ(fact(first.get(), NL_CHUNK_PAGES), 3);
    EXPECT_EQ(fact(first.get(), NL_CHUNK_BYTES), 3 * fact(engine_.get(), NL_ENGINE_PAGE_BYTES));
    EXPECT_EQ(fact(first.get(), NL_CHUNK_TOKENS_COMPUTED), 40);
    EXPECT_EQ(fact(again.get(), NL_CHUNK_TOKENS_COMPUTED), 0);
    EXPECT_EQ(fact(again.get(), NL_CHUNK_USERS), 2);
    const CacheHandle cache = make_cache(engine_.get(), {first.get(), again.get()});
    EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS), 80);
    EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS_REUSED), 80);
    EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS_COMPUTED), 0);
    EXPECT_EQ(fact(cache.get(), NL_CACHE_PRIVATE_PAGES), 0);
    EXPECT_EQ(spare_pages(engine_.get()), 64 - 3);
}

}  // namespace
}  // namespace nanolith::test
