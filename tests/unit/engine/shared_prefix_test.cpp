// Conversations that begin alike: pages that one has filled are another's too, without being asked for, and nobody's
// answer changes by it. The device of these tests notices every page with other tokens than those that a row must see.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "unit/engine/fake_engine.h"

namespace nanolith::testing {
namespace {

constexpr int32_t kPage = 16;

Tokens text_of(int32_t count, int32_t first = 1) {
    Tokens tokens(static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) tokens[i] = (first + i) % 900;
    return tokens;
}

class SharedPrefix : public ::testing::Test {
  protected:
    static FakeSettings settings(bool shares = true) {
        FakeSettings settings;
        settings.options.page_size = kPage;
        settings.options.share_prefixes = shares;
        return settings;
    }
    std::unique_ptr<Cache> begin(const Tokens& tokens, std::span<const std::shared_ptr<Chunk>> chunks = {},
                                 int32_t composition = NL_COMPOSE_EXACT) {
        auto cache = std::move(*engine_->create_cache({}, {.composition = composition}, chunks));
        EXPECT_TRUE(engine_->extend(*cache, tokens).ok());
        return cache;
    }
    int64_t reused(const Cache& cache) { return engine_->facts(cache).reused; }
    int64_t computed(const Cache& cache) { return engine_->facts(cache).computed; }
    int32_t draw(Cache& cache) {
        Cache* const caches[] = {&cache};
        int32_t token = -1;
        EXPECT_TRUE(engine_->decode_step(caches, {&token, 1}).ok());
        return token;
    }
    void release(std::unique_ptr<Cache> cache) { engine_->release(std::move(cache)); }

    FakeEngine engine_{settings()};
};

TEST_F(SharedPrefix, WholePagesAreTakenOver) {
    const Tokens text = text_of(100);
    auto first = begin(text);
    auto second = begin(text);
    EXPECT_EQ(computed(*first), 100);
    EXPECT_EQ(reused(*second), 96);
    EXPECT_EQ(computed(*second), 4);
    EXPECT_EQ(draw(*second), engine_.next(text));
    EXPECT_EQ(draw(*first), engine_.next(text));
    release(std::move(first));
    release(std::move(second));
}

// The row of the last token is computed by everybody: it is what the next token is drawn from.
TEST_F(SharedPrefix, TheLastTokenIsAlwaysComputed) {
    auto first = begin(text_of(2 * kPage));
    auto second = begin(text_of(2 * kPage));
    EXPECT_EQ(reused(*second), kPage);
    EXPECT_EQ(computed(*second), kPage);
    release(std::move(first));
    release(std::move(second));
}

TEST_F(SharedPrefix, PagesOutliveTheirConversationAndCountAsFree) {
    const int64_t free_pages = engine_->page_counts().free;
    release(begin(text_of(100)));
    EXPECT_EQ(engine_->page_counts().free, free_pages);
    auto later = begin(text_of(100));
    EXPECT_EQ(reused(*later), 96);
    release(std::move(later));
}

TEST_F(SharedPrefix, WhatWasDrawnIsTakenOverToo) {
    Tokens tokens = text_of(10);
    auto first = begin(tokens);
    for (int i = 0; i < 40; ++i) tokens.push_back(draw(*first));
    auto second = begin(tokens);
    EXPECT_EQ(reused(*second), 48);
    EXPECT_EQ(draw(*second), engine_.next(tokens));
    release(std::move(first));
    release(std::move(second));
}

TEST_F(SharedPrefix, AGenerationTakesOverAndSaysSo) {
    auto first = begin(text_of(100));
    auto second = std::move(*engine_->create_cache({}, {.composition = NL_COMPOSE_EXACT}, {}));
    GenerationOptions options;
    options.max_tokens = 3;
    auto generation = *engine_->generate(*second, text_of(100), options);
    Tokens answer(3);
    size_t have = 0;
    while (have < 3) have += generation->next(1'000'000, std::span(answer).subspan(have), {})->num_tokens;
    EXPECT_EQ(answer, engine_.answer(text_of(100), {}, options).tokens);
    EXPECT_EQ(reused(*second), 96);
    release(std::move(first));
    release(std::move(second));
}

TEST_F(SharedPrefix, OnlyBehindTheSameChunks) {
    const auto a = engine_->prefill({}, text_of(20, 500), 1, {})->chunk;
    const auto b = engine_->prefill({}, text_of(20, 600), 1, {})->chunk;
    const std::shared_ptr<Chunk> both[] = {a, b};
    const std::shared_ptr<Chunk> other[] = {b, a};
    for (const int32_t composition : {NL_COMPOSE_EXACT, NL_COMPOSE_INDEPENDENT}) {
        auto first = begin(text_of(50), both, composition);
        auto same = begin(text_of(50), both, composition);
        auto turned = begin(text_of(50), other, composition);
        EXPECT_EQ(computed(*same), 2);
        EXPECT_GE(computed(*turned), 50);
        for (auto* cache : {&first, &same, &turned}) release(std::move(*cache));
    }
}

// A conversation that goes back into a page and on in another way writes a page that others may have taken over.
TEST_F(SharedPrefix, GoingBackChangesNobodyElse) {
    auto first = begin(text_of(40));
    auto second = begin(text_of(40));
    ASSERT_TRUE(engine_->truncate(*first, 20).ok());
    ASSERT_TRUE(engine_->extend(*first, text_of(20, 700)).ok());
    EXPECT_EQ(draw(*second), engine_.next(text_of(40)));
    Tokens changed = text_of(20);
    const Tokens more = text_of(20, 700);
    changed.insert(changed.end(), more.begin(), more.end());
    EXPECT_EQ(draw(*first), engine_.next(changed));
    auto third = begin(text_of(40));
    EXPECT_EQ(draw(*third), engine_.next(text_of(40)));
    for (auto* cache : {&first, &second, &third}) release(std::move(*cache));
}

// The same where nobody else holds the page: it is written in place, and forgotten.
TEST_F(SharedPrefix, GoingBackAloneForgetsThePage) {
    auto first = begin(text_of(40));
    ASSERT_TRUE(engine_->truncate(*first, 20).ok());
    ASSERT_TRUE(engine_->extend(*first, text_of(8, 700)).ok());
    auto second = begin(text_of(40));
    EXPECT_EQ(reused(*second), kPage);
    EXPECT_EQ(draw(*second), engine_.next(text_of(40)));
    release(std::move(first));
    release(std::move(second));
}

TEST_F(SharedPrefix, AFullPoolTakesTheOldestPages) {
    const auto pages = static_cast<int32_t>(engine_->page_counts().total);
    std::vector<std::unique_ptr<Cache>> caches;
    for (int32_t i = 0; i < 2; ++i) caches.push_back(begin(text_of(pages / 2 * kPage - 8, 1 + i)));
    for (auto& cache : caches) release(std::move(cache));
    caches.clear();
    for (int32_t i = 2; i < 6; ++i) {
        const Tokens text = text_of(pages / 2 * kPage - 8, 1 + i);
        auto cache = begin(text);
        EXPECT_EQ(draw(*cache), engine_.next(text));
        release(std::move(cache));
    }
    EXPECT_EQ(engine_->page_counts().free, pages);
}

// Of many that come at once, the later ones take what the first of them has computed by then.
TEST_F(SharedPrefix, ThreadsThatBeginAlike) {
    std::vector<std::thread> threads;
    std::atomic<int64_t> all_computed = 0;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 20; ++i) {
                Tokens tokens = text_of(200);
                tokens.push_back(t);
                auto cache = begin(tokens);
                EXPECT_EQ(draw(*cache), engine_.next(tokens));
                all_computed += computed(*cache);
                release(std::move(cache));
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_LT(all_computed, 160 * 201 / 2);
}

TEST(UnsharedPrefix, NothingIsTakenOver) {
    FakeSettings settings;
    settings.options.page_size = kPage;
    settings.options.share_prefixes = false;
    FakeEngine engine(settings);
    for (int i = 0; i < 2; ++i) {
        auto cache = std::move(*engine->create_cache({}, {.composition = NL_COMPOSE_EXACT}, {}));
        ASSERT_TRUE(engine->extend(*cache, text_of(100)).ok());
        EXPECT_EQ(engine->facts(*cache).computed, 100);
        EXPECT_EQ(engine->facts(*cache).reused, 0);
        engine->release(std::move(cache));
    }
}

}  // namespace
}  // namespace nanolith::testing
