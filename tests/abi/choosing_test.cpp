// How tokens are chosen and what they scored, through the public header: sampling options that change the choice,
// log-probabilities of generations, and scores of given tokens.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "abi/generation_fixtures.h"

namespace nanolith::test {
namespace {

double logprob(const std::vector<float>& logits, int32_t token) {
    const double highest = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit) - highest);
    return static_cast<double>(logits[static_cast<size_t>(token)]) - highest - std::log(total);
}

class ChoosingTest : public GenerationFixture {
  protected:
    std::vector<float> score(nl_cache* cache, const Tokens& tokens) {
        std::vector<float> scores(tokens.size());
        size_t count = 0;
        EXPECT_EQ(nl_cache_score(cache, tokens.data(), tokens.size(), scores.data(), scores.size(), &count), NL_OK)
            << nl_last_error();
        EXPECT_EQ(count, tokens.size());
        return scores;
    }
};

TEST_F(ChoosingTest, GivenTokensAreScoredAsTheirLogitsSay) {
    const Tokens tokens = some_tokens(75);
    const CacheHandle stepwise = make_cache(engine_.get());
    std::vector<double> expected = {std::nan("")};
    for (size_t i = 0; i < tokens.size(); ++i) {
        extend(stepwise.get(), {tokens[i]});
        if (i + 1 < tokens.size()) expected.push_back(logprob(logits_of(stepwise.get()), tokens[i + 1]));
    }
    for (const size_t first : {size_t{0}, size_t{1}, size_t{16}, size_t{33}, size_t{74}}) {
        const CacheHandle cache = make_cache(engine_.get());
        extend(cache.get(), Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(first)));
        const auto scores =
            score(cache.get(), Tokens(tokens.begin() + static_cast<std::ptrdiff_t>(first), tokens.end()));
        for (size_t i = 0; i < scores.size(); ++i) {
            const auto found = static_cast<double>(scores[i]);
            EXPECT_TRUE(first + i == 0 ? std::isnan(found) : std::fabs(found - expected[first + i]) < 1e-3)
                << first << ", " << i << ": " << found << ", expected " << expected[first + i];
        }
        EXPECT_EQ(tokens_of(cache.get()), tokens);
        EXPECT_EQ(decode(cache.get(), 5), decode(stepwise.get(), 5)) << "it goes on as after nl_cache_extend";
        NL_CHECK(nl_cache_truncate(stepwise.get(), tokens.size()));
    }
}

TEST_F(ChoosingTest, TokensBehindChunksAndDrawnTokensAreScored) {
    const Tokens document = some_tokens(40, 3);
    const ChunkHandle chunk = make_chunk(engine_.get(), document);
    const CacheHandle cache = make_cache(engine_.get(), {chunk.get()});
    const CacheHandle other = make_cache(engine_.get(), {chunk.get()});
    EXPECT_NEAR(static_cast<double>(score(cache.get(), prompt_)[0]), logprob(logits_of(other.get()), prompt_[0]), 1e-3);
    extend(other.get(), prompt_);
    EXPECT_EQ(decode(cache.get(), 3), decode(other.get(), 3));  // the row of the last one is not computed yet
    EXPECT_NEAR(static_cast<double>(score(cache.get(), {7, 8})[0]), logprob(logits_of(other.get()), 7), 1e-3);
    EXPECT_EQ(score(cache.get(), {}).size(), 0U);
}

TEST_F(ChoosingTest, ScoringRefusesWhatDoesNotFit) {
    const CacheHandle cache = make_cache(engine_.get());
    std::vector<float> scores(20);
    size_t count = 0;
    const auto call = [&](const Tokens& tokens, size_t capacity) {
        return nl_cache_score(cache.get(), tokens.data(), tokens.size(), scores.data(), capacity, &count);
    };
    EXPECT_INVALID("cache", nl_cache_score(nullptr, prompt_.data(), 5, scores.data(), 5, &count));
    EXPECT_INVALID("tokens", nl_cache_score(cache.get(), nullptr, 5, scores.data(), 5, &count));
    EXPECT_INVALID("buffer is NULL", nl_cache_score(cache.get(), prompt_.data(), 5, nullptr, 5, &count));
    EXPECT_INVALID("count", nl_cache_score(cache.get(), prompt_.data(), 5, scores.data(), 5, nullptr));
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "19", call(prompt_, 19));
    EXPECT_EQ(count, 20U);
    EXPECT_INVALID("tokens[1] is -1", call({1, -1}, 20));
    EXPECT_TRUE(tokens_of(cache.get()).empty());
}

TEST_F(ChoosingTest, GenerationsGiveLogprobs) {
    const CacheHandle cache = make_cache(engine_.get());
    const CacheHandle stepwise = make_cache(engine_.get());
    const OptionsHandle sampling = make_options(NL_OPTIONS_SAMPLING);
    set_float(sampling.get(), NL_OPTION_TEMPERATURE, 3);
    set_float(sampling.get(), NL_OPTION_REPETITION_PENALTY, 1.3);
    set_int(sampling.get(), NL_OPTION_SEED, 11);
    use(cache.get(), sampling);
    extend(cache.get(), prompt_);  // draws a token whose log-probability nobody has asked for yet
    extend(stepwise.get(), prompt_);
    const OptionsHandle options = tokens_only(12);
    set_int(options.get(), NL_OPTION_LOGPROBS, 1);
    set_int(options.get(), NL_OPTION_TOP_LOGPROBS, 3);
    const GenerationHandle generation = start(cache.get(), {}, options);
    size_t read = 0;
    for (int32_t end = NL_END_NONE; end == NL_END_NONE;) {
        int32_t tokens[2];
        size_t count = 0;
        NL_CHECK(nl_generation_next(generation.get(), -1, tokens, 2, &count, nullptr, 0, nullptr, &end));
        float logprobs[2];
        int32_t top[6];
        float top_logprobs[6];
        size_t given = 99;
        NL_CHECK(nl_generation_logprobs(generation.get(), logprobs, 2, &given));
        EXPECT_EQ(given, count);
        NL_CHECK(nl_generation_top_logprobs(generation.get(), top, top_logprobs, 6, &given));
        EXPECT_EQ(given, 3 * count);
        for (size_t i = 0; i < count; ++i, ++read) {
            std::vector<float> logits = logits_of(stepwise.get());
            EXPECT_NEAR(static_cast<double>(logprobs[i]), logprob(logits, tokens[i]), 1e-3);
            for (size_t rank = 0; rank < 3; ++rank) {
                const auto best = std::max_element(logits.begin(), logits.end());
                EXPECT_EQ(top[3 * i + rank], best - logits.begin());
                *best = -std::numeric_limits<float>::infinity();
            }
            EXPECT_GE(top_logprobs[3 * i], top_logprobs[3 * i + 1]);
            EXPECT_GE(top_logprobs[3 * i], logprobs[i]);
            extend(stepwise.get(), {tokens[i]});
        }
    }
    EXPECT_EQ(read, 12U);
}

TEST_F(ChoosingTest, LogprobsMustBeAskedForAtTheStart) {
    const CacheHandle cache = make_cache(engine_.get());
    const GenerationHandle generation = start(cache.get(), prompt_, tokens_only(3));
    float logprobs[3];
    int32_t top[3];
    size_t count = 0;
    EXPECT_INVALID("NL_OPTION_LOGPROBS", nl_generation_logprobs(generation.get(), logprobs, 3, &count));
    EXPECT_INVALID("NL_OPTION_LOGPROBS", nl_generation_top_logprobs(generation.get(), top, logprobs, 3, &count));
    EXPECT_INVALID("generation", nl_generation_logprobs(nullptr, logprobs, 3, &count));
    EXPECT_INVALID("count", nl_generation_logprobs(generation.get(), logprobs, 3, nullptr));
    EXPECT_INVALID("generation", nl_generation_top_logprobs(nullptr, top, logprobs, 3, &count));
    EXPECT_INVALID("count", nl_generation_top_logprobs(generation.get(), top, logprobs, 3, nullptr));
    read(generation.get());
    const OptionsHandle options = tokens_only(3);
    set_int(options.get(), NL_OPTION_TOP_LOGPROBS, 2);
    nl_generation* made = nullptr;
    EXPECT_INVALID("NL_OPTION_TOP_LOGPROBS is 2", nl_generation_start(cache.get(), nullptr, 0, options.get(), &made));
    set_int(options.get(), NL_OPTION_LOGPROBS, 1);
    const GenerationHandle asked = start(cache.get(), {}, options);
    int32_t end = 0;
    NL_CHECK(nl_generation_next(asked.get(), -1, top, 1, &count, nullptr, 0, nullptr, &end));
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "", nl_generation_logprobs(asked.get(), nullptr, 0, &count));
    EXPECT_EQ(count, 1U);
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "", nl_generation_top_logprobs(asked.get(), top, logprobs, 1, &count));
    EXPECT_EQ(count, 2U);
}

TEST_F(ChoosingTest, OnlyAllowedTokensAreDrawn) {
    const CacheHandle cache = make_cache(engine_.get());
    const OptionsHandle options = make_options(NL_OPTIONS_SAMPLING);
    for (const int32_t token : {5, 40, 41, 42}) set_int(options.get(), NL_OPTION_ALLOWED_TOKEN, token);
    set_int(options.get(), NL_OPTION_BANNED_TOKEN, 41);
    for (const double temperature : {0.0, 2.0}) {
        set_float(options.get(), NL_OPTION_TEMPERATURE, temperature);
        use(cache.get(), options);
        const Tokens drawn = read(start(cache.get(), prompt_, tokens_only(30)).get());
        EXPECT_EQ(drawn.size(), 30U);
        for (const int32_t token : drawn) EXPECT_TRUE(token == 5 || token == 40 || token == 42) << token;
    }
    set_int(options.get(), NL_OPTION_BANNED_TOKEN, 1'000'000);
    EXPECT_INVALID("NL_OPTION_BANNED_TOKEN[1] is 1000000", nl_cache_set_sampling(cache.get(), options.get()));
}

TEST_F(ChoosingTest, BiasAndPenaltiesChangeGreedyTokens) {
    const CacheHandle cache = make_cache(engine_.get());
    extend(cache.get(), prompt_);
    const OptionsHandle options = make_options(NL_OPTIONS_SAMPLING);
    set_text(options.get(), NL_OPTION_BIASED_TOKEN, "33:1000");
    use(cache.get(), options);
    EXPECT_EQ(decode(cache.get(), 3), (Tokens{33, 33, 33}));
    // Each token is drawn once alone.
    set_float(options.get(), NL_OPTION_PRESENCE_PENALTY, 100);
    set_float(options.get(), NL_OPTION_FREQUENCY_PENALTY, 100);
    NL_CHECK(nl_options_reset(options.get(), NL_OPTION_BIASED_TOKEN));
    use(cache.get(), options);
    const Tokens drawn = read(start(cache.get(), {}, tokens_only(40)).get());
    EXPECT_EQ(std::set<int32_t>(drawn.begin(), drawn.end()).size(), drawn.size());

    for (const char* const wrong : {"33", "33:", ":2", "33:x", "33:1 ", "33:nan", "33:1e7", " 33:1", "33:-inf"}) {
        NL_CHECK(nl_options_reset(options.get(), NL_OPTION_BIASED_TOKEN));
        if (std::string(wrong).size() < 3) continue;
        set_text(options.get(), NL_OPTION_BIASED_TOKEN, "1:0.5");
        set_text(options.get(), NL_OPTION_BIASED_TOKEN, wrong);
        EXPECT_INVALID(std::string("NL_OPTION_BIASED_TOKEN[1] is \"") + wrong,
                       nl_cache_set_sampling(cache.get(), options.get()));
    }
}

TEST_F(ChoosingTest, EndTokensAreNotDrawnTooSoon) {
    const CacheHandle cache = make_cache(engine_.get());
    const Tokens greedy = [&] {
        extend(cache.get(), prompt_);
        const CacheHandle fork = [&] {
            nl_cache* made = nullptr;
            EXPECT_EQ(nl_cache_fork(cache.get(), &made), NL_OK);
            return CacheHandle(made);
        }();
        return decode(fork.get(), 1);
    }();
    OptionsHandle options = tokens_only(50);
    set_int(options.get(), NL_OPTION_STOP_TOKEN, greedy[0]);
    set_int(options.get(), NL_OPTION_MIN_TOKENS, 10);
    const Tokens drawn = read(start(cache.get(), {}, options).get());  // the known next token is a stop token
    ASSERT_GE(drawn.size(), 10U);
    EXPECT_EQ(std::count(drawn.begin(), drawn.begin() + 10, greedy[0]), 0);

    const OptionsHandle only_end = make_options(NL_OPTIONS_SAMPLING);
    set_int(only_end.get(), NL_OPTION_ALLOWED_TOKEN, greedy[0]);
    use(cache.get(), only_end);
    nl_generation* made = nullptr;
    EXPECT_INVALID("NL_OPTION_MIN_TOKENS is 10", nl_generation_start(cache.get(), nullptr, 0, options.get(), &made));
}

// With penalties, DRY and Mirostat on, a conversation draws the same tokens alone, step by step, and beside others.
TEST_F(ChoosingTest, ASeedGivesTheSameTokensInAnyCompany) {
    const auto options_of = [&](int64_t seed) {
        OptionsHandle options = make_options(NL_OPTIONS_SAMPLING);
        set_float(options.get(), NL_OPTION_TEMPERATURE, 2);
        set_int(options.get(), NL_OPTION_SEED, seed);
        set_float(options.get(), NL_OPTION_REPETITION_PENALTY, 1.2);
        set_float(options.get(), NL_OPTION_DRY_MULTIPLIER, 0.8);
        set_float(options.get(), NL_OPTION_XTC_PROBABILITY, 0.5);
        set_float(options.get(), NL_OPTION_TYPICAL_P, 0.97);
        if (seed % 2 == 0) set_float(options.get(), NL_OPTION_MIROSTAT_TAU, 4);
        return options;
    };
    std::vector<Tokens> alone;
    for (int64_t seed = 0; seed < 6; ++seed) {
        const CacheHandle cache = make_cache(engine_.get());
        use(cache.get(), options_of(seed));
        extend(cache.get(), prompt_);
        alone.push_back(decode(cache.get(), 20));
    }
    std::vector<CacheHandle> caches;
    std::vector<GenerationHandle> generations;
    for (int64_t seed = 0; seed < 6; ++seed) {
        caches.push_back(make_cache(engine_.get()));
        use(caches.back().get(), options_of(seed));
        generations.push_back(start(caches.back().get(), prompt_, tokens_only(20)));
    }
    for (size_t i = 0; i < generations.size(); ++i) EXPECT_EQ(read(generations[i].get()), alone[i]) << "seed " << i;
}

TEST_F(ChoosingTest, FiltersAreNamedOnceAndNoneThatIsOnIsLeftOut) {
    const CacheHandle cache = make_cache(engine_.get());
    const OptionsHandle options = make_options(NL_OPTIONS_SAMPLING);
    set_float(options.get(), NL_OPTION_TEMPERATURE, 0.5);
    set_int(options.get(), NL_OPTION_TOP_K, 5);
    set_int(options.get(), NL_OPTION_FILTER, NL_FILTER_TOP_K);
    EXPECT_INVALID("does not name NL_FILTER_TEMPERATURE", nl_cache_set_sampling(cache.get(), options.get()));
    set_int(options.get(), NL_OPTION_FILTER, NL_FILTER_TEMPERATURE);
    use(cache.get(), options);
    set_int(options.get(), NL_OPTION_FILTER, NL_FILTER_TOP_K);
    EXPECT_INVALID("NL_OPTION_FILTER[2] is 2: expected each filter once",
                   nl_cache_set_sampling(cache.get(), options.get()));
}

TEST_F(ChoosingTest, DryBreakersMayBeEmptyAndHaveFortyBytes) {
    const CacheHandle cache = make_cache(engine_.get());
    const OptionsHandle options = make_options(NL_OPTIONS_SAMPLING);
    set_float(options.get(), NL_OPTION_DRY_MULTIPLIER, 1);
    set_text(options.get(), NL_OPTION_DRY_BREAKER, "");
    set_text(options.get(), NL_OPTION_DRY_BREAKER, std::string(40, 'x'));
    EXPECT_INVALID("NL_OPTION_DRY_BREAKER has 41 bytes",
                   nl_options_set_text(options.get(), NL_OPTION_DRY_BREAKER, std::string(41, 'x').data(), 41));
    use(cache.get(), options);
    EXPECT_EQ(read(start(cache.get(), prompt_, tokens_only(10)).get()).size(), 10U);
}

}  // namespace
}  // namespace nanolith::test
