// Draws against a plain float64 implementation of the same rules: sort, cut, walk.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <random>

#include "backend/cpu/sampling.h"

namespace nanolith::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

int32_t draw(const std::vector<float>& logits, const SampleParams& params) {
    cpu::SampleScratch scratch;
    return cpu::sample(logits, {params, {}, {}}, scratch).token;
}

struct Kept {
    std::vector<double> masses;  // by token; 0: not kept
    double nearest_cut = 1;      // how close (in share) top-p's running mass came to its bound
};

// Probabilities in descending order; each filter keeps a beginning of that order, and what ties with its end.
Kept keep(const std::vector<float>& logits, const SampleParams& params) {
    const double highest = *std::max_element(logits.begin(), logits.end());
    std::vector<size_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    const auto mass = [&](size_t id) {
        return std::exp((logits[id] - highest) / static_cast<double>(params.temperature));
    };
    size_t count = order.size();
    const auto extend_over_ties = [&](size_t end, size_t limit) {
        while (end > 0 && end < limit && logits[order[end]] == logits[order[end - 1]]) ++end;
        return end;
    };
    if (params.top_k > 0 && static_cast<size_t>(params.top_k) < count)
        count = extend_over_ties(static_cast<size_t>(params.top_k), count);
    Kept kept;
    if (params.top_p < 1) {
        double total = 0;
        for (size_t i = 0; i < count; ++i) total += mass(order[i]);
        double running = 0;
        size_t end = 0;
        while (end < count && running / total < static_cast<double>(params.top_p)) {
            running += mass(order[end++]);
            kept.nearest_cut =
                std::min(kept.nearest_cut, std::fabs(running / total - static_cast<double>(params.top_p)));
        }
        count = extend_over_ties(end, count);
    }
    kept.masses.assign(logits.size(), 0);
    for (size_t i = 0; i < count; ++i) {
        if (mass(order[i]) >= static_cast<double>(params.min_p)) kept.masses[order[i]] = mass(order[i]);
    }
    return kept;
}

TEST(Sampling, AgreesWithThePlainRules) {
    const unsigned seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 3);
    std::uniform_real_distribution<double> uniform(0, 1);
    int compared = 0;
    for (int round = 0; round < 3000; ++round) {
        std::vector<float> logits(1 + random() % 300);
        const bool ties = round % 3 == 0;  // whole numbers: many equal logits
        for (float& logit : logits) logit = ties ? std::round(normal(random)) : normal(random);
        SampleParams params;
        params.temperature = static_cast<float>(0.2 + 2 * uniform(random));
        if (round % 2 == 0) params.top_k = static_cast<int32_t>(random() % 320);
        if (round % 5 < 3) params.top_p = static_cast<float>(0.05 + 0.94 * uniform(random));
        if (round % 7 < 3) params.min_p = static_cast<float>(uniform(random) * uniform(random));
        params.uniform = uniform(random);
        const Kept kept = keep(logits, params);
        if (kept.nearest_cut < 1e-9) continue;  // the order of a sum decides: both answers are right
        const double total = std::accumulate(kept.masses.begin(), kept.masses.end(), 0.0);
        const auto token = static_cast<size_t>(draw(logits, params));
        ASSERT_LT(token, logits.size());
        ASSERT_GT(kept.masses[token], 0) << "round " << round << ": token " << token << " is not kept";
        const double below = std::accumulate(kept.masses.begin(), kept.masses.begin() + token, 0.0);
        EXPECT_LE(below / total, params.uniform + 1e-9) << "round " << round;
        EXPECT_GE((below + kept.masses[token]) / total, params.uniform - 1e-9) << "round " << round;
        ++compared;
    }
    EXPECT_GT(compared, 2900);
}

TEST(Sampling, FollowsTheDistribution) {
    const std::vector<float> logits = {0.0F, 1.0F, -1.0F, 2.0F};
    SampleParams params;
    params.temperature = 1;
    std::vector<int> counts(4);
    constexpr int kDraws = 100000;  // evenly spaced: the counts are exact to one
    for (int i = 0; i < kDraws; ++i) {
        params.uniform = (i + 0.5) / kDraws;
        ++counts[draw(logits, params)];
    }
    double total = 0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit));
    for (size_t i = 0; i < 4; ++i)
        EXPECT_NEAR(counts[i], kDraws * std::exp(static_cast<double>(logits[i])) / total, 1.0) << i;
}

TEST(Sampling, GreedyTakesTheLowestIdOfTheHighest) {
    EXPECT_EQ(draw({1, 3, 2, 3}, {}), 1);
    EXPECT_EQ(draw({5}, {}), 0);
    EXPECT_EQ(draw({-kInfinity, -kInfinity, -2}, {}), 2);
    EXPECT_EQ(draw({kNan, 1, 2, kNan}, {}), kNoToken);
    EXPECT_EQ(draw({-kInfinity, -kInfinity}, {}), kNoToken);
}

TEST(Sampling, TiesAtTheCutAreKept) {
    SampleParams params;
    params.temperature = 1;
    params.top_k = 1;
    params.uniform = 0.99;
    EXPECT_EQ(draw({3, 1, 3, 3}, params), 3);
    params.top_k = 0;
    params.top_p = 0.01F;
    EXPECT_EQ(draw({3, 1, 3, 3}, params), 3);
    params.uniform = 0;
    EXPECT_EQ(draw({1, 1, 3, 3}, params), 2);
}

TEST(Sampling, SurvivesWhatIsNoNumber) {
    for (const float top_p : {1.0F, 0.5F}) {
        for (const int32_t top_k : {0, 2}) {
            for (const double uniform : {0.0, 0.5, 0.999999999}) {
                const SampleParams params{1.0F, top_k, top_p, 0.1F, uniform};
                EXPECT_EQ(draw({kNan, kNan, kNan}, params), kNoToken);
                EXPECT_EQ(draw({4.0F, -kInfinity, 5.0F, kNan}, params), kNoToken);
                EXPECT_EQ(draw({1.0F, kInfinity, kNan, 4.0F}, params), kNoToken);
                EXPECT_EQ(draw({1.0F, kInfinity, 4.0F, -kInfinity}, params), 1);
                EXPECT_EQ(draw({-kInfinity, -kInfinity}, params), kNoToken);
                EXPECT_EQ(draw({-3e38F, 3e38F, 0.0F}, params), 1);
            }
        }
    }
}

TEST(Sampling, ExtremeTemperatures) {
    const std::vector<float> logits = {0.0F, 1.0F, 0.5F};
    EXPECT_EQ(draw(logits, {1e-30F, 0, 1, 0, 0.999}), 1);
    EXPECT_EQ(draw(logits, {1e30F, 0, 1, 0, 0.999}), 2);
    EXPECT_EQ(draw(logits, {1e30F, 0, 1, 0, 0.0}), 0);
}

}  // namespace
}  // namespace nanolith::testing
