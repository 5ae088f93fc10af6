// What chunks, forks, truncation and batching promise: the same numbers as a conversation that was computed whole.
#include <chrono>
#include <cmath>
#include <thread>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_EQ(a.size(), b.size());
    float difference = 0;
    for (size_t i = 0; i < a.size(); ++i) difference = std::max(difference, std::abs(a[i] - b[i]));
    return difference;
}

// float32 rounding in another order, for logits of this model's size.
constexpr float kRounding = 1e-4F;

class CompositionTest : public testing::Test {
  protected:
    struct Expected {
        std::vector<float> logits;
        Tokens continuation;
    };
    // The whole context computed in one cache without chunks.
    Expected full(const Tokens& tokens) {
        const CacheHandle cache = make_cache(engine.get());
        extend(cache.get(), tokens);
        return {logits_of(cache.get()), decode(cache.get(), 8)};
    }
    static void expect_same(nl_cache* cache, const Expected& expected) {
        EXPECT_LT(largest_difference(logits_of(cache), expected.logits), kRounding);
        EXPECT_EQ(decode(cache, 8), expected.continuation);
    }

    TinyModel model;
    EngineHandle engine = make_engine(model, {.num_pages = 256});
};

TEST_F(CompositionTest, ExactEqualsFullPrefillAtEverySplit) {
    const Tokens tokens = some_tokens(70);
    const Expected expected = full(tokens);
    for (size_t split = 1; split < tokens.size(); ++split) {
        SCOPED_TRACE(split);
        const auto middle = tokens.begin() + split;
        const ChunkHandle first = make_chunk(engine.get(), Tokens(tokens.begin(), middle), 0);
        const ChunkHandle second = make_chunk(engine.get(), Tokens(middle, tokens.end()), 1);
        const CacheHandle cache = make_cache(engine.get(), {first.get(), second.get()}, NL_COMPOSE_EXACT);
        expect_same(cache.get(), expected);
    }
}

TEST_F(CompositionTest, ExactSharesCommonBeginnings) {
    const ChunkHandle a = make_chunk(engine.get(), some_tokens(20, 1));
    const ChunkHandle b = make_chunk(engine.get(), some_tokens(20, 2));
    const ChunkHandle c = make_chunk(engine.get(), some_tokens(20, 3));
    const CacheHandle abc = make_cache(engine.get(), {a.get(), b.get(), c.get()}, NL_COMPOSE_EXACT);
    EXPECT_EQ(fact(abc.get(), NL_CACHE_TOKENS_COMPUTED), 40);
    EXPECT_EQ(fact(abc.get(), NL_CACHE_TOKENS_REUSED), 20);
    const CacheHandle abc_again = make_cache(engine.get(), {a.get(), b.get(), c.get()}, NL_COMPOSE_EXACT);
    EXPECT_EQ(fact(abc_again.get(), NL_CACHE_TOKENS_COMPUTED), 0);
    const CacheHandle abb = make_cache(engine.get(), {a.get(), b.get(), b.get()}, NL_COMPOSE_EXACT);
    EXPECT_EQ(fact(abb.get(), NL_CACHE_TOKENS_COMPUTED), 20);
    const CacheHandle bac = make_cache(engine.get(), {b.get(), a.get(), c.get()}, NL_COMPOSE_EXACT);
    EXPECT_EQ(fact(bac.get(), NL_CACHE_TOKENS_COMPUTED), 40);
}

TEST_F(CompositionTest, IndependentComputesNothingAndDiffersFromExact) {
    const ChunkHandle a = make_chunk(engine.get(), some_tokens(20, 1));
    const ChunkHandle b = make_chunk(engine.get(), some_tokens(20, 2));
    const CacheHandle independent = make_cache(engine.get(), {a.get(), b.get()}, NL_COMPOSE_INDEPENDENT);
    EXPECT_EQ(fact(independent.get(), NL_CACHE_TOKENS_COMPUTED), 0);
    const CacheHandle exact = make_cache(engine.get(), {a.get(), b.get()}, NL_COMPOSE_EXACT);
    EXPECT_GT(largest_difference(logits_of(independent.get()), logits_of(exact.get())), 100 * kRounding);
}

TEST_F(CompositionTest, IndependentBehindItsPredecessorIsExact) {
    const Tokens system = some_tokens(33, 1);
    const Tokens document = some_tokens(30, 2);
    const ChunkHandle a = make_chunk(engine.get(), system, 0);
    const ChunkHandle b = make_chunk(engine.get(), document, 1, {a.get()});
    const CacheHandle cache = make_cache(engine.get(), {a.get(), b.get()}, NL_COMPOSE_INDEPENDENT);
    Tokens all = system;
    all.insert(all.end(), document.begin(), document.end());
    expect_same(cache.get(), full(all));
}

// A blend tells what it recomputed, and is composed exactly where it would recompute most of the chunks.
TEST_F(CompositionTest, BlendedRecomputesAShare) {
    const Tokens a = some_tokens(90, 1);
    const Tokens b = some_tokens(90, 2);
    const ChunkHandle first = make_chunk(engine.get(), a);
    const ChunkHandle second = make_chunk(engine.get(), b);
    const CacheHandle blended = make_blend(engine.get(), {first.get(), second.get()}, 0.5);
    EXPECT_EQ(fact(blended.get(), NL_CACHE_COMPOSITION), NL_COMPOSE_BLENDED);
    EXPECT_EQ(fact(blended.get(), NL_CACHE_TOKENS_BLENDED), 0);  // nothing is asked yet
    const Tokens question = some_tokens(8, 3);
    extend(blended.get(), question);
    EXPECT_GT(fact(blended.get(), NL_CACHE_TOKENS_BLENDED), 45 - 4);  // whole groups of four tokens
    EXPECT_LE(fact(blended.get(), NL_CACHE_TOKENS_BLENDED), 45);
    EXPECT_EQ(fact(blended.get(), NL_CACHE_TOKENS_COMPUTED), fact(blended.get(), NL_CACHE_TOKENS_BLENDED) + 8);
    const CacheHandle independent = make_cache(engine.get(), {first.get(), second.get()}, NL_COMPOSE_INDEPENDENT);
    extend(independent.get(), question);
    Tokens all = a;
    all.insert(all.end(), b.begin(), b.end());
    all.insert(all.end(), question.begin(), question.end());
    EXPECT_EQ(tokens_of(blended.get()), all);
    EXPECT_NE(logits_of(blended.get()), logits_of(independent.get()));

    const CacheHandle exact = make_blend(engine.get(), {first.get(), second.get()}, 0.6);
    EXPECT_EQ(fact(exact.get(), NL_CACHE_COMPOSITION), NL_COMPOSE_EXACT);
    extend(exact.get(), question);
    expect_same(exact.get(), full(all));
}

// Which pages a question recomputes does not depend on how soon it comes after drawing.
TEST_F(CompositionTest, BlendedIsTheSameHoweverSoonTheQuestionComes) {
    const ChunkHandle first = make_chunk(engine.get(), some_tokens(90, 1));
    const ChunkHandle second = make_chunk(engine.get(), some_tokens(90, 2));
    const CacheHandle cache = make_blend(engine.get(), {first.get(), second.get()}, 0.5);
    decode(cache.get(), 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    // The row of the token that was drawn last is computed with the question.
    EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS_COMPUTED) - fact(cache.get(), NL_CACHE_TOKENS_BLENDED), 3);
    extend(cache.get(), some_tokens(8, 3));
    EXPECT_EQ(fact(cache.get(), NL_CACHE_TOKENS_COMPUTED) - fact(cache.get(), NL_CACHE_TOKENS_BLENDED), 12);
}

// One stored chunk twice in a context, the second time at another base: its tokens have not seen the first, so the
// numbers are not a full prefill's, which the version computed after the first gives.
TEST_F(CompositionTest, ARepeatedChunkIsUsedAtBothPlaces) {
    const Tokens tokens = some_tokens(18, 1);
    const ChunkHandle alone = make_chunk(engine.get(), tokens);
    const ChunkHandle after = make_chunk(engine.get(), tokens, 1, {alone.get()});
    const CacheHandle twice = make_cache(engine.get(), {alone.get(), after.get()}, NL_COMPOSE_INDEPENDENT);
    Tokens all = tokens;
    all.insert(all.end(), tokens.begin(), tokens.end());
    expect_same(twice.get(), full(all));
    const CacheHandle moved = make_cache(engine.get(), {alone.get(), alone.get()}, NL_COMPOSE_INDEPENDENT);
    EXPECT_EQ(tokens_of(moved.get()), all);
    EXPECT_GT(largest_difference(logits_of(moved.get()), full(all).logits), 100 * kRounding);
}

TEST_F(CompositionTest, ABatchEqualsSingleRuns) {
    std::vector<Tokens> single;
    std::vector<CacheHandle> caches;
    std::vector<nl_cache*> batch;
    for (const int length : {1, 15, 16, 17, 31, 32, 33, 90}) {
        const CacheHandle alone = make_cache(engine.get());
        extend(alone.get(), some_tokens(length, length));
        single.push_back(decode(alone.get(), 20));
        caches.push_back(make_cache(engine.get()));
        extend(caches.back().get(), some_tokens(length, length));
        batch.push_back(caches.back().get());
    }
    for (size_t step = 0; step < 20; ++step) {
        Tokens drawn(batch.size());
        NL_CHECK(nl_decode_step(batch.data(), batch.size(), drawn.data()));
        for (size_t i = 0; i < batch.size(); ++i) EXPECT_EQ(drawn[i], single[i][step]) << i << " at step " << step;
    }
}

TEST_F(CompositionTest, ForksGoTheirOwnWays) {
    for (const int length : {15, 16, 17}) {
        SCOPED_TRACE(length);
        const CacheHandle origin = make_cache(engine.get());
        const Tokens beginning = some_tokens(length, 5);
        extend(origin.get(), beginning);
        nl_cache* made = nullptr;
        NL_CHECK(nl_cache_fork(origin.get(), &made));
        const CacheHandle fork(made);
        EXPECT_EQ(fact(fork.get(), NL_CACHE_TOKENS_REUSED), length);
        Tokens left = beginning;
        Tokens right = beginning;
        for (const int32_t token : some_tokens(5, 6)) left.push_back(token);
        for (const int32_t token : some_tokens(5, 7)) right.push_back(token);
        extend(fork.get(), some_tokens(5, 6));
        extend(origin.get(), some_tokens(5, 7));
        expect_same(fork.get(), full(left));
        expect_same(origin.get(), full(right));
    }
}

TEST_F(CompositionTest, AForkInTheMiddleOfAnAnswerDrawsTheSame) {
    const CacheHandle origin = make_cache(engine.get());
    extend(origin.get(), some_tokens(21));
    decode(origin.get(), 3);
    nl_cache* made = nullptr;
    NL_CHECK(nl_cache_fork(origin.get(), &made));
    const CacheHandle fork(made);
    EXPECT_EQ(tokens_of(fork.get()), tokens_of(origin.get()));
    EXPECT_EQ(decode(fork.get(), 10), decode(origin.get(), 10));
}

TEST_F(CompositionTest, TruncationForgets) {
    const Tokens first = some_tokens(24, 1);
    const Tokens second = some_tokens(20, 2);
    const ChunkHandle a = make_chunk(engine.get(), first, 0);
    const ChunkHandle b = make_chunk(engine.get(), second, 1, {a.get()});
    Tokens all = first;
    all.insert(all.end(), second.begin(), second.end());
    for (const int32_t token : some_tokens(20, 3)) all.push_back(token);
    for (const size_t length : {64U, 50U, 44U, 40U, 24U, 9U, 1U}) {
        SCOPED_TRACE(length);
        const CacheHandle cache = make_cache(engine.get(), {a.get(), b.get()});
        extend(cache.get(), some_tokens(20, 3));
        decode(cache.get(), 2);
        NL_CHECK(nl_cache_truncate(cache.get(), length));
        Tokens kept(all.begin(), all.begin() + length);
        EXPECT_EQ(tokens_of(cache.get()), kept);
        EXPECT_LT(largest_difference(logits_of(cache.get()), full(kept).logits), kRounding);
        extend(cache.get(), some_tokens(7, 9));
        for (const int32_t token : some_tokens(7, 9)) kept.push_back(token);
        expect_same(cache.get(), full(kept));
    }
}

TEST_F(CompositionTest, TokenByTokenEqualsOnePrefill) {
    const Tokens tokens = some_tokens(40);
    const CacheHandle cache = make_cache(engine.get());
    for (const int32_t token : tokens) extend(cache.get(), {token});
    expect_same(cache.get(), full(tokens));
}

TEST_F(CompositionTest, LogitsDoNotDisturbTheDraw) {
    const CacheHandle quiet = make_cache(engine.get());
    const CacheHandle asked = make_cache(engine.get());
    extend(quiet.get(), some_tokens(30));
    extend(asked.get(), some_tokens(30));
    for (int step = 0; step < 10; ++step) {
        const auto logits = logits_of(asked.get());
        const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
        const int32_t drawn = decode(asked.get());
        EXPECT_EQ(drawn, best);
        EXPECT_EQ(drawn, decode(quiet.get()));
    }
}

TEST_F(CompositionTest, ADrawDependsOnSeedAndPositionAlone) {
    const OptionsHandle sampling = make_options(NL_OPTIONS_SAMPLING);
    NL_CHECK(nl_options_set_float(sampling.get(), NL_OPTION_TEMPERATURE, 2.0F));
    NL_CHECK(nl_options_set_int(sampling.get(), NL_OPTION_SEED, 7));
    const auto run = [&](bool with_logits) {
        const CacheHandle cache = make_cache(engine.get());
        EXPECT_EQ(nl_cache_set_sampling(cache.get(), sampling.get()), NL_OK);
        extend(cache.get(), some_tokens(30));
        Tokens drawn;
        for (int step = 0; step < 30; ++step) {
            if (with_logits) logits_of(cache.get());
            drawn.push_back(decode(cache.get()));
        }
        return drawn;
    };
    const Tokens first = run(false);
    EXPECT_EQ(first, run(true));
    NL_CHECK(nl_options_set_int(sampling.get(), NL_OPTION_SEED, 8));
    EXPECT_NE(first, run(false));
}

}  // namespace
}  // namespace nanolith::test
