// Blended composition on every device, over random models and chunks: with a share of everything it is exact
// composition, with less the chosen pages alone are the conversation's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>

#include "engine/engine.h"
#include "support/random_model.h"

namespace nanolith::testing {
namespace {

struct Family {
    const char* name;
    RandomShape shape;
};

std::vector<Family> families() {
    RandomShape plain{.num_layers = 3};
    RandomShape windows{.num_layers = 4};
    windows.layers = {{0, 0}, {0, 24}, {0, 0}, {0, 24}};
    RandomShape gemma{.num_layers = 4, .qk_norm = true, .post_norms = true};
    gemma.numbers.attention_softcap = 20;
    gemma.ropes = {{plain_frequencies(10000, 32), {}}, {plain_frequencies(1e6, 32), {}}};
    gemma.layers = {{0, 30}, {1, 0}, {0, 30}, {1, 0}};
    RandomShape biased{.num_layers = 2, .qkv_bias = true, .output_bias = true, .mlp_bias = true};
    RandomShape without_rotation{.num_layers = 3};
    without_rotation.ropes = {{plain_frequencies(10000, 32), {}}, {std::vector<float>(16, 0.0F), {}}};
    without_rotation.layers = {{0, 0}, {1, 0}, {0, 0}};
    return {{"plain", plain},
            {"windows", windows},
            {"gemma", gemma},
            {"biased", biased},
            {"without rotation", without_rotation}};
}

class BlendTest : public ::testing::TestWithParam<bool> {
  protected:
    using Tokens = std::vector<int32_t>;

    void SetUp() override {
        if (GetParam()) {
            const auto backend = open_cuda_backend(0);
            if (!backend.ok()) GTEST_SKIP() << "no GPU: " << backend.error().message;
        }
        const uint32_t seed = std::random_device{}();
        std::printf("seed %u\n", seed);
        random_.seed(seed);
    }
    int32_t below(int32_t limit) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(limit)); }
    Tokens some(int32_t count) {
        Tokens tokens(static_cast<size_t>(count));
        for (int32_t& token : tokens) token = below(model_->spec.vocab_size);
        return tokens;
    }

    void make_engine(const RandomShape& shape) {
        engine_.reset();
        model_ = std::make_unique<RandomModel>(shape, DType::f32, static_cast<uint64_t>(random_()));
        auto model = std::make_unique<Model>();
        model->spec = model_->spec;
        model->weights = model_->weights;
        EngineOptions options{
            .dtype = NL_DTYPE_F32, .page_size = 16, .num_pages = 400, .max_batch_tokens = 8 + below(90)};
        auto backend = GetParam() ? open_cuda_backend(0) : open_cpu_backend(1);
        ASSERT_TRUE(backend.ok()) << backend.error().message;
        auto engine =
            Engine::create(std::move(model), Error{NL_ERROR_NOT_FOUND, "no tokenizer"}, std::move(*backend), options);
        ASSERT_TRUE(engine.ok()) << engine.error().message;
        engine_ = std::move(*engine);
    }

    std::vector<std::shared_ptr<Chunk>> some_chunks() {
        std::vector<std::shared_ptr<Chunk>> chunks;
        for (int32_t i = 2 + below(3); i > 0; --i) {
            auto made = engine_->prefill({}, some(1 + below(80)), 1, {});
            EXPECT_TRUE(made.ok());
            chunks.push_back(made->chunk);
        }
        return chunks;
    }

    std::unique_ptr<Cache> cache(const CacheOptions& options, const std::vector<std::shared_ptr<Chunk>>& chunks) {
        auto made = engine_->create_cache({}, options, chunks);
        EXPECT_TRUE(made.ok()) << made.error().message;
        return std::move(*made);
    }

    std::vector<float> logits(Cache& cache) {
        std::vector<float> logits(static_cast<size_t>(model_->spec.vocab_size));
        EXPECT_TRUE(engine_->logits(cache, logits).ok());
        return logits;
    }

    Tokens decode(Cache& cache, int32_t count) {
        Tokens tokens;
        Cache* const caches[] = {&cache};
        for (int32_t i = 0; i < count; ++i) {
            int32_t token = 0;
            EXPECT_TRUE(engine_->decode_step(caches, {&token, 1}).ok());
            tokens.push_back(token);
        }
        return tokens;
    }

    static float difference(const std::vector<float>& a, const std::vector<float>& b) {
        float most = 0;
        for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
        return most;
    }

    std::mt19937 random_;
    std::unique_ptr<RandomModel> model_;
    std::shared_ptr<Engine> engine_;
};

constexpr float kRounding = 2e-4F;  // of float32 sums in another order, for logits of a few units

TEST_P(BlendTest, AShareOfEverythingIsExactComposition) {
    for (const Family& family : families()) {
        float most = 0;  // difference that blending has to undo
        for (int run = 0; run < 4; ++run) {
            SCOPED_TRACE(family.name);
            make_engine(family.shape);
            const auto chunks = some_chunks();
            const auto blended =
                cache({.composition = NL_COMPOSE_BLENDED, .blend_share = 1, .blend_falls_back = false}, chunks);
            const auto exact = cache({}, chunks);
            const auto independent = cache({.composition = NL_COMPOSE_INDEPENDENT}, chunks);
            const Tokens question = some(1 + below(100));
            for (const auto& each : {blended.get(), exact.get(), independent.get()})
                EXPECT_TRUE(engine_->extend(*each, question).ok());
            const auto expected = logits(*exact);
            EXPECT_LT(difference(logits(*blended), expected), kRounding);
            most = std::max(most, difference(logits(*independent), expected));
            int64_t after_first = 0;
            for (size_t i = 1; i < chunks.size(); ++i) after_first += chunks[i]->num_tokens();
            EXPECT_EQ(engine_->facts(*blended).blended, after_first);
            EXPECT_EQ(decode(*blended, 8), decode(*exact, 8));
        }
        EXPECT_GT(most, 10 * kRounding);
    }
}

TEST_P(BlendTest, AGenerationBlendsAndAForkShares) {
    make_engine({.num_layers = 3});
    const auto chunks = some_chunks();
    const CacheOptions all{.composition = NL_COMPOSE_BLENDED, .blend_share = 1, .blend_falls_back = false};
    const auto blended = cache(all, chunks);
    const auto exact = cache({}, chunks);
    const Tokens question = some(30);
    for (const auto& each : {blended.get(), exact.get()}) {
        auto generation = engine_->generate(*each, question, {.max_tokens = 5, .text = false});
        ASSERT_TRUE(generation.ok());
        for (int32_t end = NL_END_NONE; end == NL_END_NONE;) {
            int32_t buffer[8];
            const auto piece = (*generation)->next(20'000, buffer, {});
            ASSERT_TRUE(piece.ok());
            end = piece->end;
        }
    }
    EXPECT_EQ(engine_->tokens(*blended), engine_->tokens(*exact));
    auto fork = engine_->fork(*blended);
    ASSERT_TRUE(fork.ok());
    EXPECT_EQ(engine_->facts(**fork).private_pages, engine_->facts(*blended).private_pages);
    EXPECT_EQ(decode(**fork, 8), decode(*exact, 8));
}

TEST_P(BlendTest, AShareOfNothingIsIndependentComposition) {
    make_engine({.num_layers = 3});
    const auto chunks = some_chunks();
    const auto blended =
        cache({.composition = NL_COMPOSE_BLENDED, .blend_share = 0, .blend_falls_back = false}, chunks);
    const auto independent = cache({.composition = NL_COMPOSE_INDEPENDENT}, chunks);
    const Tokens question = some(20);
    for (const auto& each : {blended.get(), independent.get()}) ASSERT_TRUE(engine_->extend(*each, question).ok());
    const auto facts = engine_->facts(*blended);
    EXPECT_EQ(facts.blended, 0);
    EXPECT_EQ(facts.private_pages, 2);  // the question's
    EXPECT_EQ(facts.composition, NL_COMPOSE_BLENDED);
    EXPECT_EQ(logits(*blended), logits(*independent));
}

TEST_P(BlendTest, FewTokensAndLargeSharesAreComposedExactly) {
    make_engine({.num_layers = 2});
    const auto of_lengths = [&](std::initializer_list<int32_t> lengths) {
        std::vector<std::shared_ptr<Chunk>> chunks;
        for (const int32_t length : lengths) chunks.push_back(engine_->prefill({}, some(length), 1, {})->chunk);
        return chunks;
    };
    const auto few = cache({.composition = NL_COMPOSE_BLENDED}, of_lengths({20, 19, 20}));  // the first stays as it is
    EXPECT_EQ(engine_->facts(*few).composition, NL_COMPOSE_EXACT);
    EXPECT_EQ(engine_->facts(*few).computed, 39);
    const auto more = cache({.composition = NL_COMPOSE_BLENDED, .blend_share = 0.5}, of_lengths({20, 20, 21}));
    EXPECT_EQ(engine_->facts(*more).composition, NL_COMPOSE_BLENDED);
    const auto large = cache({.composition = NL_COMPOSE_BLENDED, .blend_share = 0.51}, of_lengths({20, 60, 60}));
    EXPECT_EQ(engine_->facts(*large).composition, NL_COMPOSE_EXACT);
}

TEST_P(BlendTest, WhatOneConversationRecomputedOthersUse) {
    make_engine({.num_layers = 3});
    std::vector<std::shared_ptr<Chunk>> chunks;
    for (int i = 0; i < 3; ++i) chunks.push_back(engine_->prefill({}, some(160), 1, {})->chunk);
    const CacheOptions options{.composition = NL_COMPOSE_BLENDED, .blend_share = 0.3};
    const Tokens question = some(30);
    auto first = cache(options, chunks);
    ASSERT_TRUE(engine_->extend(*first, question).ok());
    const auto facts = engine_->facts(*first);
    EXPECT_EQ(facts.blended, 96);  // 0.3 of the 320 tokens that come after the first chunk
    auto second = cache(options, chunks);
    ASSERT_TRUE(engine_->extend(*second, question).ok());
    EXPECT_EQ(engine_->facts(*second).blended, 0);
    EXPECT_EQ(engine_->facts(*second).private_pages, facts.private_pages);
    EXPECT_LT(difference(logits(*second), logits(*first)), kRounding);  // their rows were in other steps
    // In another order, and where the first of them is gone, nothing of it is left to use.
    auto reversed = cache(options, {chunks[2], chunks[1], chunks[0]});
    ASSERT_TRUE(engine_->extend(*reversed, question).ok());
    EXPECT_EQ(engine_->facts(*reversed).blended, 96);
    // Both results stay, without the two pages of each question.
    const int64_t results = facts.private_pages - 2 + engine_->facts(*reversed).private_pages - 2;
    const auto counts = engine_->page_counts();
    for (auto* each : {&first, &second, &reversed}) engine_->release(std::move(*each));
    EXPECT_EQ(engine_->page_counts().evictable, counts.evictable + results);
    // Pages run short: results go before chunks.
    std::vector<std::shared_ptr<Chunk>> many;
    while (engine_->page_counts().free > 10) many.push_back(engine_->prefill({}, some(160), 1, {})->chunk);
    ASSERT_TRUE(engine_->prefill({}, some(16 * 12), 1, {}).ok());
    auto again = cache(options, chunks);
    ASSERT_TRUE(engine_->prefill({}, chunks[0]->identity->tokens, 1, {}).ok());
    ASSERT_TRUE(engine_->extend(*again, question).ok());
    EXPECT_GT(engine_->facts(*again).blended, 0);
}

TEST_P(BlendTest, WindowsRecomputeNothingThatIsNotSeen) {
    RandomShape shape{.num_layers = 3};
    shape.layers = {{0, 40}, {0, 40}, {0, 40}};
    make_engine(shape);
    std::vector<std::shared_ptr<Chunk>> chunks;
    for (int i = 0; i < 3; ++i) chunks.push_back(engine_->prefill({}, some(160), 1, {})->chunk);
    const auto blended =
        cache({.composition = NL_COMPOSE_BLENDED, .blend_share = 1, .blend_falls_back = false}, chunks);
    ASSERT_TRUE(engine_->extend(*blended, some(20)).ok());
    EXPECT_EQ(engine_->facts(*blended).blended, 40);  // the first token sees 39 before it: ten units
}

TEST_P(BlendTest, NoTokenIsRecomputedTwice) {
    make_engine({.num_layers = 3});
    std::vector<std::shared_ptr<Chunk>> chunks;
    for (int i = 0; i < 3; ++i) chunks.push_back(engine_->prefill({}, some(160), 1, {})->chunk);
    const auto blended = cache({.composition = NL_COMPOSE_BLENDED, .blend_share = 0.3}, chunks);
    int64_t before = 0;
    for (int turn = 0; turn < 4; ++turn) {
        ASSERT_TRUE(engine_->extend(*blended, some(20)).ok());
        const auto facts = engine_->facts(*blended);
        EXPECT_GE(facts.blended, before);
        EXPECT_LE(facts.blended, 0.3 * 320);
        EXPECT_LE(facts.private_pages - (20 * (turn + 1) + 15) / 16, 8);  // more than six pages fill with 96 tokens
        before = facts.blended;
    }
    EXPECT_EQ(before, 96);
}

// Documents of which the share is less than a page: some tokens of several pages are recomputed, the others copied.
TEST_P(BlendTest, ShortDocumentsAreRecomputedInUnits) {
    make_engine({.num_layers = 3});
    auto system = engine_->prefill({}, some(30), 0, {})->chunk;
    std::vector<std::shared_ptr<Chunk>> chunks{system};
    for (int i = 0; i < 5; ++i) chunks.push_back(engine_->prefill({}, some(20 + below(12)), 1, {{system}})->chunk);
    int64_t inexact = 0;
    for (size_t i = 2; i < chunks.size(); ++i) inexact += chunks[i]->num_tokens();
    const CacheOptions options{.composition = NL_COMPOSE_BLENDED, .blend_share = 0.15};
    const auto most = static_cast<int64_t>(0.15 * static_cast<double>(inexact));  // 12 to 18 tokens
    const Tokens question = some(20);
    const auto first = cache(options, chunks);
    ASSERT_TRUE(engine_->extend(*first, question).ok());
    const int64_t recomputed = engine_->facts(*first).blended;
    EXPECT_LE(recomputed, most);
    EXPECT_GT(recomputed, most - 4);
    // What another question chooses is recomputed beside it in the same pages, and what it has in common is not.
    const auto second = cache(options, chunks);
    ASSERT_TRUE(engine_->extend(*second, some(20)).ok());
    EXPECT_LE(engine_->facts(*second).blended, most);
    const auto third = cache(options, chunks);
    ASSERT_TRUE(engine_->extend(*third, question).ok());
    EXPECT_EQ(engine_->facts(*third).blended, 0);
    EXPECT_LE(engine_->facts(*third).private_pages, 8 + 2);
}

INSTANTIATE_TEST_SUITE_P(Backends, BlendTest, ::testing::Values(false, true),
                         [](const auto& test) { return std::string(test.param ? "CUDA" : "CPU"); });

}  // namespace
}  // namespace nanolith::testing
