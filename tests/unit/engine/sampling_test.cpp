// Options to draws: the distribution that many draws of a conversation have, against probabilities computed here in
// float64 from the definitions of the options, by a chi-squared test.
#include "engine/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "backend/cpu/sampling.h"
#include "kv/page_pool.h"
#include "support/draw_definition.h"

namespace nanolith::testing {
namespace {

constexpr int32_t kVocabulary = 60;
constexpr int32_t kNumDraws = 20000;

class SamplingTest : public ::testing::Test {
  protected:
    void SetUp() override {
        seed_ = std::random_device{}();
        std::printf("seed %u\n", seed_);
        random_.seed(seed_);
    }

    std::vector<float> random_logits() {
        std::normal_distribution<float> normal(0, 2);
        std::vector<float> logits(kVocabulary);
        for (float& logit : logits) logit = normal(random_);
        return logits;
    }

    std::vector<int32_t> random_tokens(int32_t count, int32_t vocabulary = kVocabulary) {
        std::vector<int32_t> tokens;
        for (int32_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(random_() % vocabulary));
        return tokens;
    }

    // What biases, bans and penalties make of logits, from their definitions in nanolith.h.
    static std::vector<float> penalised(std::vector<float> logits, const SamplingOptions& options,
                                        const std::vector<int32_t>& history) {
        for (const LogitBias& bias : options.biases) logits[bias.token] += bias.bias;
        std::map<int32_t, int> counts;
        const size_t window = std::min(history.size(), static_cast<size_t>(options.penalty_window));
        for (size_t i = history.size() - window; i < history.size(); ++i) ++counts[history[i]];
        for (const auto& [token, count] : counts) {
            float& logit = logits[token];
            logit = logit > 0 ? logit / options.repetition_penalty : logit * options.repetition_penalty;
            logit -= static_cast<float>(count) * options.frequency_penalty + options.presence_penalty;
        }
        for (const int32_t token : options.banned) logits[token] = -INFINITY;
        for (int32_t token = 0; token < kVocabulary; ++token) {
            const bool allowed = std::ranges::find(options.allowed, token) != options.allowed.end();
            if (!options.allowed.empty() && !allowed) logits[token] = -INFINITY;
        }
        return logits;
    }

    // The probability of each token. XTC applies to a share of the draws: a mean of those with and without it.
    static std::vector<double> expected(const std::vector<float>& logits, const SamplingOptions& options) {
        SampleParams params = sample_params(options, 0);
        params.xtc_threshold = 1;
        std::vector<double> p = DrawDefinition(logits, params).probabilities();
        if (options.xtc_probability <= 0) return p;
        params.xtc_threshold = options.xtc_threshold;
        const std::vector<double> with_xtc = DrawDefinition(logits, params).probabilities();
        for (size_t i = 0; i < p.size(); ++i)
            p[i] += static_cast<double>(options.xtc_probability) * (with_xtc[i] - p[i]);
        return p;
    }

    // Tokens that are expected less than five times count as one.
    static void expect_distribution(const std::vector<int>& counts, const std::vector<double>& p,
                                    const std::string& what) {
        double statistic = 0;
        double rare = 0;
        int rare_count = 0;
        int cells = 0;
        const auto add = [&](double expected, int count) {
            statistic += (count - expected) * (count - expected) / expected;
            ++cells;
        };
        for (size_t i = 0; i < p.size(); ++i) {
            if (p[i] == 0) {
                EXPECT_EQ(counts[i], 0) << what << ": token " << i;
            }
            if (p[i] * kNumDraws >= 5) {
                add(p[i] * kNumDraws, counts[i]);
            } else {
                rare += p[i] * kNumDraws;
                rare_count += counts[i];
            }
        }
        if (rare >= 5) add(rare, rare_count);
        // The cube root of chi-squared / n is nearly normal (Wilson and Hilferty, 1931); 5.5 deviations: 2e-8.
        const double n = std::max(cells - 1, 1);
        const double bound = n * std::pow(1 - 2 / (9 * n) + 5.5 * std::sqrt(2 / (9 * n)), 3);
        EXPECT_LT(statistic, bound) << what << ": " << cells << " cells";
    }

    // Draws kNumDraws tokens, at positions where the same history repeats in the context, and compares how often each
    // token was drawn with its probability.
    void check(const std::string& what, SamplingOptions options) {
        options.temperature = options.temperature == 0 ? 1 : options.temperature;
        options.seed = random_();
        const std::vector<float> logits = random_logits();
        const std::vector<int32_t> history = random_tokens(12, 20);
        const auto sampling = Sampling::make(options, kVocabulary, nullptr);
        ASSERT_TRUE(sampling.ok()) << what << ": " << sampling.error().message;
        PagePool pool(1);
        Context context(pool, {});
        for (int32_t i = 0; i < kNumDraws; ++i) context.append(history);
        cpu::SampleScratch scratch;
        std::vector<int> counts(kVocabulary);
        for (int32_t i = 1; i <= kNumDraws; ++i) {
            Batch batch;
            batch.sampling.push_back(
                (*sampling)->add_draw(context, i * static_cast<int32_t>(history.size()), {}, 0, batch));
            ++counts[cpu::sample(logits, draw_rule(batch, 0, kVocabulary), scratch).token];
        }
        std::vector<int32_t> repeated;
        while (repeated.size() < static_cast<size_t>(options.penalty_window))
            repeated.insert(repeated.end(), history.begin(), history.end());
        expect_distribution(counts, expected(penalised(logits, options, repeated), options), what);
    }

    unsigned seed_ = 0;
    std::mt19937 random_;
};

TEST_F(SamplingTest, EachOptionHasItsDistribution) {
    check("temperature", {.temperature = 0.7F});
    check("top-k", {.top_k = 9});
    check("top-p", {.top_p = 0.8F});
    check("min-p", {.min_p = 0.1F});
    check("typical-p", {.typical_p = 0.6F});
    check("XTC", {.xtc_probability = 0.4F, .xtc_threshold = 0.05F});
    check("repetition", {.repetition_penalty = 1.8F, .penalty_window = 5});
    check("frequency", {.frequency_penalty = 0.7F, .penalty_window = 7});
    check("presence", {.presence_penalty = 1.5F, .penalty_window = 9});
    check("bias", {.biases = {{3, 2.5F}, {17, -1.5F}}});
    check("banned", {.banned = {1, 5, 5, 33}});
    check("allowed", {.allowed = {0, 2, 31, 32, 59}});
}

TEST_F(SamplingTest, MixesHaveTheirs) {
    check("all", {.temperature = 1.3F,
                  .top_k = 40,
                  .top_p = 0.95F,
                  .min_p = 0.01F,
                  .repetition_penalty = 1.2F,
                  .frequency_penalty = 0.1F,
                  .presence_penalty = 0.3F,
                  .penalty_window = 8,
                  .biases = {{7, 1}, {8, -1}},
                  .banned = {9},
                  .xtc_probability = 0.5F,
                  .xtc_threshold = 0.06F,
                  .typical_p = 0.97F});
    for (int round = 0; round < 8; ++round) {
        SamplingOptions options{.temperature = 0.5F + static_cast<float>(random_() % 100) / 60,
                                .top_k = static_cast<int32_t>(random_() % 40),
                                .top_p = 0.5F + static_cast<float>(random_() % 50) / 100,
                                .min_p = static_cast<float>(random_() % 10) / 100,
                                .xtc_probability = 0.3F,
                                .xtc_threshold = 0.08F,
                                .typical_p = 0.5F + static_cast<float>(random_() % 50) / 100};
        options.order = {Filter::temperature, Filter::top_k, Filter::typical_p,
                         Filter::top_p,       Filter::min_p, Filter::xtc};
        std::ranges::shuffle(options.order, random_);
        check("shuffled " + std::to_string(round), options);
    }
}

// A draw depends on its own conversation alone: beside others in a batch it is the same.
TEST_F(SamplingTest, OtherRowsChangeNothing) {
    SamplingOptions options{
        .temperature = 1, .seed = 7, .repetition_penalty = 1.5F, .banned = {1}, .allowed = {2, 3, 4}};
    const auto sampling = Sampling::make(options, kVocabulary, nullptr);
    options.allowed = {5, 6};
    const auto other = Sampling::make(options, kVocabulary, nullptr);
    PagePool pool(1);
    Context context(pool, {});
    context.append(random_tokens(100));
    const std::vector<float> logits = random_logits();
    cpu::SampleScratch scratch;
    for (int32_t position = 1; position <= 100; ++position) {
        Batch alone;
        alone.sampling.push_back((*sampling)->add_draw(context, position, {}, 0, alone));
        Batch beside;
        beside.sampling.push_back((*other)->add_draw(context, 50, {}, 0, beside));
        beside.sampling.push_back((*sampling)->add_draw(context, position, {}, 0, beside));
        EXPECT_EQ(cpu::sample(logits, draw_rule(alone, 0, kVocabulary), scratch).token,
                  cpu::sample(logits, draw_rule(beside, 1, kVocabulary), scratch).token);
    }
}

// Mirostat 2 as Basu and others define it: what a token surprises beyond the target lowers the bound.
TEST_F(SamplingTest, MirostatReachesItsTarget) {
    for (const float tau : {1.5F, 3.0F}) {
        const auto sampling =
            Sampling::make({.temperature = 1, .seed = random_(), .mirostat_tau = tau}, kVocabulary, nullptr);
        ASSERT_TRUE(sampling.ok());
        PagePool pool(1);
        Context context(pool, {});
        cpu::SampleScratch scratch;
        float bound = (*sampling)->first_surprise_bound();
        EXPECT_EQ(bound, 2 * tau);
        double sum = 0;
        constexpr int kTokens = 4000;
        for (int i = 0; i < kTokens; ++i) {
            const std::vector<float> logits = random_logits();
            Batch batch;
            batch.sampling.push_back((*sampling)->add_draw(context, i + 1, {}, bound, batch));
            context.append(std::vector<int32_t>{0});
            const cpu::Drawn drawn = cpu::sample(logits, draw_rule(batch, 0, kVocabulary), scratch);
            const auto p = DrawDefinition(logits, draw_rule(batch, 0, kVocabulary)).probabilities();
            EXPECT_NEAR(static_cast<double>(drawn.surprise), -std::log2(p[static_cast<size_t>(drawn.token)]), 1e-4);
            bound = (*sampling)->next_surprise_bound(bound, drawn.surprise);
            sum += static_cast<double>(drawn.surprise);
        }
        EXPECT_NEAR(sum / kTokens, static_cast<double>(tau), 0.1);
    }
}

TEST_F(SamplingTest, WhatDoesNotFitIsRefusedWithASentence) {
    const auto message = [](const SamplingOptions& options) {
        const auto made = Sampling::make(options, kVocabulary, nullptr);
        return made.ok() ? std::string() : made.error().message;
    };
    EXPECT_EQ(message({.banned = {3, 60}}), "NL_OPTION_BANNED_TOKEN[1] is 60: expected an id from 0 to 59");
    EXPECT_EQ(message({.allowed = {-1}}), "NL_OPTION_ALLOWED_TOKEN[0] is -1: expected an id from 0 to 59");
    EXPECT_EQ(message({.biases = {{61, 0}}}), "NL_OPTION_BIASED_TOKEN[0] is 61: expected an id from 0 to 59");
    EXPECT_EQ(message({.biases = {{4, 1}, {5, 1}, {4, 2}}}),
              "NL_OPTION_BIASED_TOKEN has token 4 twice: expected it once");
    EXPECT_EQ(message({.banned = {3, 4}, .allowed = {3}}),
              "NL_OPTION_BANNED_TOKEN has 2 elements: expected that a token is left to draw");
    EXPECT_EQ(message({.temperature = 1, .top_p = 0.9F, .order = {Filter::top_k}}),
              "NL_OPTION_FILTER does not name NL_FILTER_TOP_P: expected it there, since NL_OPTION_TOP_P is set");
    EXPECT_EQ(message({.dry_multiplier = 1, .dry_breakers = {"x"}}),
              "NL_OPTION_DRY_BREAKER needs text: expected a model with a tokenizer");
    EXPECT_EQ(message({.dry_multiplier = 1}), "");
    EXPECT_EQ(message({.temperature = 1, .top_k = 3, .order = {Filter::top_k}}), "");
}

}  // namespace
}  // namespace nanolith::testing
