// Hidden states and scores of candidates through the public header.
#include <cmath>
#include <thread>

#include "abi/abi_fixtures.h"

namespace nanolith::test {
namespace {

class EmbedTest : public testing::Test {
  protected:
    [[nodiscard]] size_t hidden() const { return static_cast<size_t>(model_.shape().hidden_size); }
    // All numbers that the call gives.
    std::vector<float> embed(nl_cache* cache, const Tokens& tokens, int32_t pooling, uint32_t flags = 0) {
        std::vector<float> vectors(hidden() * std::max<size_t>(tokens.size(), 1));
        size_t count = 0;
        EXPECT_EQ(
            nl_cache_embed(cache, tokens.data(), tokens.size(), pooling, flags, vectors.data(), vectors.size(), &count),
            NL_OK)
            << nl_last_error();
        EXPECT_EQ(count, pooling == NL_POOLING_NONE ? hidden() * tokens.size() : hidden());
        vectors.resize(count);
        return vectors;
    }
    static void expect_near(const std::vector<float>& found, const std::vector<double>& expected,
                            const std::string& what) {
        ASSERT_EQ(found.size(), expected.size()) << what;
        for (size_t i = 0; i < found.size(); ++i) {
            const auto value = static_cast<double>(found[i]);
            ASSERT_NEAR(value, expected[i], 1e-4 * (1 + std::fabs(expected[i]))) << what << ", number " << i;
        }
    }
    static std::vector<double> wide(const std::vector<float>& numbers) { return {numbers.begin(), numbers.end()}; }

    TinyModel model_;
    EngineHandle engine_ = make_engine(model_);
    Tokens text_ = some_tokens(75);
};

// The states of a text that comes token by token are those of all its tokens at once, and pooled ones follow from them.
TEST_F(EmbedTest, PoolingIsArithmeticOfTheTokensStates) {
    const CacheHandle stepwise = make_cache(engine_.get());
    std::vector<double> each;
    std::vector<double> mean(hidden());
    for (const int32_t token : text_) {
        const auto state = wide(embed(stepwise.get(), {token}, NL_POOLING_LAST));
        each.insert(each.end(), state.begin(), state.end());
        for (size_t i = 0; i < hidden(); ++i) mean[i] += state[i] / static_cast<double>(text_.size());
    }
    const std::vector<double> last(each.end() - static_cast<std::ptrdiff_t>(hidden()), each.end());
    const CacheHandle all = make_cache(engine_.get());
    expect_near(embed(all.get(), text_, NL_POOLING_NONE), each, "each");
    expect_near(embed(all.get(), {}, NL_POOLING_LAST), last, "the last again");
    expect_near(embed(make_cache(engine_.get()).get(), text_, NL_POOLING_MEAN), mean, "mean");
    expect_near(embed(make_cache(engine_.get()).get(), text_, NL_POOLING_LAST), last, "last");
    EXPECT_EQ(tokens_of(all.get()), text_);
    EXPECT_EQ(decode(all.get(), 5), decode(stepwise.get(), 5)) << "it goes on as after nl_cache_extend";
    const CacheHandle extended = make_cache(engine_.get());
    extend(extended.get(), text_);
    EXPECT_EQ(tokens_of(all.get()).back(), decode(extended.get(), 5).back());
}

TEST_F(EmbedTest, NormalizedVectorsHaveLengthOne) {
    for (const int32_t pooling : {NL_POOLING_LAST, NL_POOLING_MEAN, NL_POOLING_NONE}) {
        const auto plain = embed(make_cache(engine_.get()).get(), text_, pooling);
        const auto normalized = embed(make_cache(engine_.get()).get(), text_, pooling, NL_EMBED_NORMALIZED);
        std::vector<double> expected = wide(plain);
        for (size_t at = 0; at < expected.size(); at += hidden()) {
            double squares = 0;
            for (size_t i = at; i < at + hidden(); ++i) squares += expected[i] * expected[i];
            for (size_t i = at; i < at + hidden(); ++i) expected[i] /= std::sqrt(squares);
        }
        expect_near(normalized, expected, "pooling " + std::to_string(pooling));
    }
}

TEST_F(EmbedTest, ChunksAreInViewAndAreNotComputedAgain) {
    const Tokens document = some_tokens(40, 3);
    const ChunkHandle chunk = make_chunk(engine_.get(), document);
    Tokens both = document;
    both.insert(both.end(), text_.begin(), text_.end());
    const auto whole = embed(make_cache(engine_.get()).get(), both, NL_POOLING_NONE);
    const CacheHandle behind = make_cache(engine_.get(), {chunk.get()});
    const std::vector<double> rest(whole.begin() + static_cast<std::ptrdiff_t>(40 * hidden()), whole.end());
    expect_near(embed(behind.get(), text_, NL_POOLING_NONE), rest, "behind a chunk");
    EXPECT_EQ(fact(behind.get(), NL_CACHE_TOKENS_COMPUTED), 75);
    const CacheHandle only = make_cache(engine_.get(), {chunk.get()});
    expect_near(embed(only.get(), {}, NL_POOLING_LAST),
                {whole.begin() + static_cast<std::ptrdiff_t>(39 * hidden()),
                 whole.begin() + static_cast<std::ptrdiff_t>(40 * hidden())},
                "a chunk's last token");
    for (const float share : {0.05F, 0.2F}) {
        const CacheHandle blended = make_blend(engine_.get(), {chunk.get()}, static_cast<double>(share));
        expect_near(embed(blended.get(), text_, NL_POOLING_NONE), rest, "of one chunk a blend changes nothing");
    }
}

TEST_F(EmbedTest, ThreadsShareSteps) {
    std::vector<std::vector<float>> alone;
    for (int i = 0; i < 6; ++i)
        alone.push_back(embed(make_cache(engine_.get()).get(), some_tokens(20 + 9 * i, 50 + i), NL_POOLING_MEAN));
    std::vector<std::vector<float>> together(6);
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) {
        threads.emplace_back([&, i] {
            together[static_cast<size_t>(i)] =
                embed(make_cache(engine_.get()).get(), some_tokens(20 + 9 * i, 50 + i), NL_POOLING_MEAN);
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < 6; ++i) expect_near(together[i], wide(alone[i]), "text " + std::to_string(i));
}

// The same to the bit, however long the steps are that it is cut into.
TEST_F(EmbedTest, InvariantEnginesGiveTheSameBits) {
    std::vector<std::vector<float>> found;
    for (const int64_t rows : {7, 32, 100}) {
        const OptionsHandle options = make_options(NL_OPTIONS_ENGINE);
        NL_CHECK(set_device(options.get(), test_device()));
        NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_BATCH_INVARIANT, 1));
        NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_NUM_PAGES, 64));
        NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_MAX_BATCH_TOKENS, rows));
        NL_CHECK(nl_options_set_int(options.get(), NL_OPTION_THREADS, 1));
        nl_engine* made = nullptr;
        NL_CHECK(nl_engine_create(model_.path().data(), model_.path().size(), options.get(), &made));
        const EngineHandle engine(made);
        found.push_back(embed(make_cache(engine.get()).get(), text_, NL_POOLING_MEAN, NL_EMBED_NORMALIZED));
    }
    EXPECT_EQ(found[1], found[0]);
    EXPECT_EQ(found[2], found[0]);
}

TEST_F(EmbedTest, EmbeddingRefusesWhatDoesNotFit) {
    const CacheHandle cache = make_cache(engine_.get());
    std::vector<float> vectors(hidden() * 20, -5);
    const Tokens tokens = some_tokens(20);
    size_t count = 99;
    const auto call = [&](nl_cache* of, const int32_t* data, size_t num, int32_t pooling, uint32_t flags, float* to,
                          size_t capacity) {
        return nl_cache_embed(of, data, num, pooling, flags, to, capacity, &count);
    };
    const auto size = hidden();
    EXPECT_INVALID("cache", call(nullptr, tokens.data(), 20, NL_POOLING_LAST, 0, vectors.data(), size));
    EXPECT_INVALID("tokens is NULL", call(cache.get(), nullptr, 20, NL_POOLING_LAST, 0, vectors.data(), size));
    for (const int32_t pooling : {-1, 0, 4})
        EXPECT_INVALID("pooling is " + std::to_string(pooling),
                       call(cache.get(), tokens.data(), 20, pooling, 0, vectors.data(), size));
    EXPECT_INVALID("flags is 0x2", call(cache.get(), tokens.data(), 20, NL_POOLING_LAST, 2, vectors.data(), size));
    EXPECT_INVALID("buffer is NULL", call(cache.get(), tokens.data(), 20, NL_POOLING_LAST, 0, nullptr, size));
    EXPECT_INVALID("count",
                   nl_cache_embed(cache.get(), tokens.data(), 20, NL_POOLING_LAST, 0, vectors.data(), size, nullptr));
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, std::to_string(size - 1),
                 call(cache.get(), tokens.data(), 20, NL_POOLING_MEAN, 0, vectors.data(), size - 1));
    EXPECT_EQ(count, size);
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, std::to_string(20 * size),
                 call(cache.get(), tokens.data(), 20, NL_POOLING_NONE, 0, vectors.data(), 20 * size - 1));
    EXPECT_EQ(count, 20 * size);
    EXPECT_INVALID("num_tokens", call(cache.get(), tokens.data(), SIZE_MAX, NL_POOLING_NONE, 0, vectors.data(), size));
    EXPECT_INVALID("num_tokens is " + std::to_string(SIZE_MAX / 16),
                   call(cache.get(), tokens.data(), SIZE_MAX / 16, NL_POOLING_NONE, 0, vectors.data(), size));
    const Tokens bad = {1, -1};
    EXPECT_INVALID("tokens[1] is -1", call(cache.get(), bad.data(), 2, NL_POOLING_LAST, 0, vectors.data(), size));
    EXPECT_INVALID("num_tokens is 0", call(cache.get(), nullptr, 0, NL_POOLING_MEAN, 0, vectors.data(), size));
    EXPECT_INVALID("cache is empty", call(cache.get(), nullptr, 0, NL_POOLING_LAST, 0, vectors.data(), size));
    NL_CHECK(call(cache.get(), nullptr, 0, NL_POOLING_NONE, 0, nullptr, 0));
    EXPECT_EQ(count, 0U);
    const Tokens long_text = some_tokens(600);
    EXPECT_FAILS(NL_ERROR_CONTEXT_FULL, "600",
                 call(cache.get(), long_text.data(), 600, NL_POOLING_LAST, 0, vectors.data(), size));
    EXPECT_EQ(vectors, std::vector<float>(hidden() * 20, -5));
    EXPECT_TRUE(tokens_of(cache.get()).empty());
}

TEST_F(EmbedTest, PagesThatRunOutAreAnErrorAndNothingChanges) {
    const EngineHandle small = make_engine(model_, {.num_pages = 3});
    const CacheHandle cache = make_cache(small.get());
    extend(cache.get(), some_tokens(10));
    std::vector<float> vector(hidden());
    size_t count = 0;
    EXPECT_FAILS(NL_ERROR_OUT_OF_PAGES, "pages",
                 nl_cache_embed(cache.get(), text_.data(), 60, NL_POOLING_MEAN, 0, vector.data(), hidden(), &count));
    EXPECT_EQ(tokens_of(cache.get()), some_tokens(10));
    embed(cache.get(), some_tokens(20), NL_POOLING_MEAN);
}

TEST_F(EmbedTest, CandidatesAreScoredAsLogitsSay) {
    const CacheHandle stepwise = make_cache(engine_.get());
    extend(stepwise.get(), text_);
    const auto logits = logits_of(stepwise.get());
    double total = 0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit));
    const Tokens candidates = {7, 399, 0, 7};
    const CacheHandle cache = make_cache(engine_.get());
    std::vector<float> logprobs(4);
    size_t count = 0;
    const auto call = [&](const Tokens& tokens) {
        return nl_cache_score_next(cache.get(), tokens.data(), tokens.size(), candidates.data(), candidates.size(),
                                   logprobs.data(), logprobs.size(), &count);
    };
    for (const Tokens& tokens : {text_, Tokens()}) {
        NL_CHECK(call(tokens));
        EXPECT_EQ(count, 4U);
        for (size_t i = 0; i < 4; ++i) {
            const auto logit = static_cast<double>(logits[static_cast<size_t>(candidates[i])]);
            EXPECT_NEAR(static_cast<double>(logprobs[i]), logit - std::log(total), 1e-4);
        }
    }
    EXPECT_EQ(tokens_of(cache.get()), text_);
    EXPECT_EQ(decode(cache.get(), 3), decode(stepwise.get(), 3));
}

TEST_F(EmbedTest, ScoringCandidatesRefusesWhatDoesNotFit) {
    const CacheHandle cache = make_cache(engine_.get());
    const Tokens candidates = {7, 8};
    float logprobs[2] = {-5, -5};
    size_t count = 99;
    const auto call = [&](nl_cache* of, const int32_t* tokens, size_t num, const int32_t* next, float* to,
                          size_t capacity,
                          size_t* size) { return nl_cache_score_next(of, tokens, num, next, 2, to, capacity, size); };
    const int32_t* const text = text_.data();
    const int32_t* const two = candidates.data();
    EXPECT_INVALID("cache", call(nullptr, text, 5, two, logprobs, 2, &count));
    EXPECT_INVALID("tokens", call(cache.get(), nullptr, 5, two, logprobs, 2, &count));
    EXPECT_INVALID("candidates is NULL", call(cache.get(), text, 5, nullptr, logprobs, 2, &count));
    EXPECT_INVALID("buffer is NULL", call(cache.get(), text, 5, two, nullptr, 2, &count));
    EXPECT_INVALID("count", call(cache.get(), text, 5, two, logprobs, 2, nullptr));
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "1", call(cache.get(), text, 5, two, logprobs, 1, &count));
    EXPECT_EQ(count, 2U);
    const Tokens bad = {7, 400};
    EXPECT_INVALID("candidates[1] is 400", call(cache.get(), text, 5, bad.data(), logprobs, 2, &count));
    EXPECT_INVALID("tokens[1] is 400", call(cache.get(), bad.data(), 2, two, logprobs, 2, &count));
    EXPECT_INVALID("cache is empty", call(cache.get(), nullptr, 0, two, logprobs, 2, &count));
    EXPECT_EQ(logprobs[0], -5);
    EXPECT_TRUE(tokens_of(cache.get()).empty());
}

}  // namespace
}  // namespace nanolith::test
