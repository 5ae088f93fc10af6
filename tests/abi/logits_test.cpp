// Callbacks that change the logits of a generation before its tokens are drawn.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <thread>

#include "abi/generation_fixtures.h"

namespace nanolith::test {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// A callback's user data: what it does, and what it saw.
struct Hook {
    std::function<int32_t(const Tokens&, std::span<float>)> change = [](const Tokens&, std::span<float>) { return 0; };
    std::vector<Tokens> seen;

    static int32_t call(void* user_data, const int32_t* tokens, size_t num_tokens, float* logits, size_t num_logits) {
        auto& hook = *static_cast<Hook*>(user_data);
        hook.seen.emplace_back(tokens, tokens + num_tokens);
        return hook.change(hook.seen.back(), {logits, num_logits});
    }
};

// Leaves one token to draw.
void force(std::span<float> logits, int32_t token) {
    std::ranges::fill(logits, kNever);
    logits[static_cast<size_t>(token)] = 0;
}

class LogitsTest : public GenerationFixture {
  protected:
    static void hook_in(const OptionsHandle& options, Hook& hook) {
        EXPECT_EQ(nl_options_set_logits(options.get(), Hook::call, &hook), NL_OK) << nl_last_error();
    }
    // Reads to the end, which must be an error.
    static nl_status error_of(nl_generation* generation) {
        int32_t end = NL_END_NONE;
        nl_status status = NL_OK;
        while (status == NL_OK && end == NL_END_NONE)
            status = nl_generation_next(generation, -1, nullptr, 0, nullptr, nullptr, 0, nullptr, &end);
        EXPECT_EQ(end, NL_END_ERROR);
        return status;
    }
};

TEST_F(LogitsTest, TheCallbackChoosesAndSeesTheWholeContext) {
    const Tokens document = some_tokens(40);
    const ChunkHandle chunk = make_chunk(engine_.get(), document);
    const CacheHandle cache = make_cache(engine_.get(), {chunk.get()});
    Hook hook;
    hook.change = [](const Tokens& tokens, std::span<float> logits) {
        force(logits, static_cast<int32_t>(tokens.size() % 300));
        return 0;
    };
    const OptionsHandle options = tokens_only(20);
    hook_in(options, hook);
    const Tokens drawn = read(start(cache.get(), prompt_, options).get());
    Tokens context = document;
    context.insert(context.end(), prompt_.begin(), prompt_.end());
    ASSERT_EQ(drawn.size(), 20U);
    ASSERT_EQ(hook.seen.size(), 20U);
    for (size_t i = 0; i < drawn.size(); ++i) {
        EXPECT_EQ(hook.seen[i], context);
        EXPECT_EQ(drawn[i], static_cast<int32_t>(context.size() % 300));
        context.push_back(drawn[i]);
    }
    EXPECT_EQ(tokens_of(cache.get()), context);
}

TEST_F(LogitsTest, TheCallbackSeesTheLogitsOfTheModel) {
    const CacheHandle cache = make_cache(engine_.get());
    const CacheHandle beside = make_cache(engine_.get());
    extend(beside.get(), prompt_);
    Hook hook;
    std::vector<std::vector<float>> seen;
    hook.change = [&](const Tokens&, std::span<float> logits) {
        seen.emplace_back(logits.begin(), logits.end());
        return 0;
    };
    const OptionsHandle options = tokens_only(6);
    hook_in(options, hook);
    const Tokens drawn = read(start(cache.get(), prompt_, options).get());
    ASSERT_EQ(seen.size(), 6U);
    for (size_t i = 0; i < seen.size(); ++i) {
        const auto expected = logits_of(beside.get());
        ASSERT_EQ(seen[i].size(), expected.size());
        for (size_t token = 0; token < expected.size(); ++token) ASSERT_NEAR(seen[i][token], expected[token], 2e-2);
        extend(beside.get(), {drawn[i]});
    }
}

// Seeds, filters and penalties go on as without it, also for the conversation beside it.
TEST_F(LogitsTest, ACallbackThatChangesNothingChangesNothing) {
    const OptionsHandle sampling = make_options(NL_OPTIONS_SAMPLING);
    set_float(sampling.get(), NL_OPTION_TEMPERATURE, 1.5);
    set_float(sampling.get(), NL_OPTION_TOP_P, 0.9);
    set_float(sampling.get(), NL_OPTION_REPETITION_PENALTY, 1.3);
    set_int(sampling.get(), NL_OPTION_SEED, 77);
    Tokens expected[2];
    for (const bool hooked : {false, true}) {
        const CacheHandle first = make_cache(engine_.get());
        const CacheHandle second = make_cache(engine_.get());
        use(first.get(), sampling);
        use(second.get(), sampling);
        Hook hook;
        const OptionsHandle plain = tokens_only(40);
        const OptionsHandle options = tokens_only(40);
        if (hooked) hook_in(options, hook);
        const GenerationHandle a = start(first.get(), prompt_, options);
        const GenerationHandle b = start(second.get(), some_tokens(31), plain);
        const Tokens tokens[2] = {read(a.get()), read(b.get())};
        for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(tokens[i].size(), 40U);
            if (hooked) {
                EXPECT_EQ(tokens[i], expected[i]);
            }
            expected[i] = tokens[i];
        }
        EXPECT_EQ(hook.seen.size(), hooked ? 40U : 0U);
    }
}

// The cache's options and log-probabilities are about what the callback leaves.
TEST_F(LogitsTest, BansAndLogprobsComeAfterIt) {
    const CacheHandle cache = make_cache(engine_.get());
    const OptionsHandle sampling = make_options(NL_OPTIONS_SAMPLING);
    set_int(sampling.get(), NL_OPTION_BANNED_TOKEN, 9);
    use(cache.get(), sampling);
    Hook hook;
    hook.change = [](const Tokens&, std::span<float> logits) {
        force(logits, 9);
        logits[11] = std::log(0.25F);
        return 0;
    };
    const OptionsHandle options = tokens_only(1);
    set_int(options.get(), NL_OPTION_LOGPROBS, 1);
    hook_in(options, hook);
    const GenerationHandle generation = start(cache.get(), prompt_, options);
    int32_t token = 0;
    int32_t end = NL_END_NONE;
    size_t count = 0;
    NL_CHECK(nl_generation_next(generation.get(), -1, &token, 1, &count, nullptr, 0, nullptr, &end));
    ASSERT_EQ(count, 1U);
    EXPECT_EQ(token, 11);
    float found = 0;
    NL_CHECK(nl_generation_logprobs(generation.get(), &found, 1, &count));
    EXPECT_NEAR(found, std::log(0.2F), 1e-4);
}

TEST_F(LogitsTest, TheCallbackEndsItsGeneration) {
    const CacheHandle cache = make_cache(engine_.get());
    Hook hook;
    hook.change = [](const Tokens& tokens, std::span<float> logits) {
        force(logits, 5);
        return tokens.size() == 23 ? 1 : 0;
    };
    const OptionsHandle options = tokens_only(0);
    hook_in(options, hook);
    const GenerationHandle generation = start(cache.get(), prompt_, options);
    EXPECT_EQ(read(generation.get()), Tokens(3, 5));
    EXPECT_EQ(fact(generation.get(), NL_GENERATION_END), NL_END_CANCELLED);
    EXPECT_EQ(tokens_of(cache.get()).size(), 23U);
    EXPECT_EQ(decode(cache.get(), 3).size(), 3U) << "the cache goes on";
}

TEST_F(LogitsTest, WhatCannotBeDrawnFromIsAnError) {
    const float nothing = std::numeric_limits<float>::quiet_NaN();
    const struct {
        float all, one;
        const char* message;
    } cases[] = {{0, nothing, "the logit of token 17 nan"},
                 {0, -kNever, "the logit of token 17 inf"},
                 {kNever, kNever, "all logits minus infinity"}};
    for (const auto& wrong : cases) {
        const CacheHandle cache = make_cache(engine_.get());
        Hook hook;
        hook.change = [&](const Tokens& tokens, std::span<float> logits) {
            if (tokens.size() < 22) return 0;
            std::ranges::fill(logits, wrong.all);
            logits[17] = wrong.one;
            return 0;
        };
        const OptionsHandle options = tokens_only(9);
        hook_in(options, hook);
        const GenerationHandle generation = start(cache.get(), prompt_, options);
        EXPECT_EQ(error_of(generation.get()), NL_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(std::string(nl_last_error()).find(wrong.message), std::string::npos) << nl_last_error();
        EXPECT_NE(std::string(nl_last_error()).find("position 22"), std::string::npos) << nl_last_error();
        EXPECT_EQ(tokens_of(cache.get()).size(), 22U);
    }
}

// nl_generation_free waits for the call, and none comes after it.
TEST_F(LogitsTest, FreeingWaitsForACallUnderWay) {
    const CacheHandle cache = make_cache(engine_.get());
    std::atomic<bool> inside = false;
    std::atomic<bool> leaves = false;
    auto hook = std::make_unique<Hook>();
    hook->change = [&](const Tokens&, std::span<float>) {
        inside = true;
        while (!leaves) std::this_thread::yield();
        return 0;
    };
    const OptionsHandle options = tokens_only(0);
    hook_in(options, *hook);
    GenerationHandle generation = start(cache.get(), prompt_, options);
    while (!inside) std::this_thread::yield();
    std::atomic<bool> freed = false;
    std::thread other([&] {
        generation.reset();
        freed = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(freed);
    leaves = true;
    other.join();
    hook.reset();  // a later call would read freed memory
    EXPECT_EQ(read(start(make_cache(engine_.get()).get(), prompt_, tokens_only(9)).get()).size(), 9U);
}

TEST_F(LogitsTest, OnlyGenerationsHaveACallback) {
    for (const int32_t kind : {NL_OPTIONS_ENGINE, NL_OPTIONS_CACHE, NL_OPTIONS_SAMPLING})
        EXPECT_INVALID("options are of", nl_options_set_logits(make_options(kind).get(), Hook::call, nullptr));
    EXPECT_INVALID("options", nl_options_set_logits(nullptr, Hook::call, nullptr));
    const OptionsHandle options = tokens_only(3);
    Hook hook;
    hook_in(options, hook);
    NL_CHECK(nl_options_set_logits(options.get(), nullptr, nullptr));
    EXPECT_EQ(read(start(make_cache(engine_.get()).get(), prompt_, options).get()).size(), 3U);
    EXPECT_TRUE(hook.seen.empty());
}

}  // namespace
}  // namespace nanolith::test
