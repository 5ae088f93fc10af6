// The CPU backend's routing of rows to experts and its row-wise activations, against float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "backend/cpu/norm_rope.h"
#include "backend/cpu/routing.h"
#include "support/model_files.h"
#include "support/random_model.h"

namespace nanolith::cpu {
namespace {

using testing::fresh_seed;
using testing::Random;

TEST(Routing, ByHand) {
    const float logits[] = {
        0.0F,           std::log(3.0F), 0.0F,            // shares 1/5, 3/5, 1/5
        std::log(2.0F), std::log(6.0F), std::log(8.0F),  // 1/8, 3/8, 1/2
    };
    Routing routing;
    routing.choose({3, 2, 1, false}, logits, 2);
    ASSERT_EQ(routing.rows_of(0).size(), 1U);  // the first of equal ones
    EXPECT_EQ(routing.rows_of(0)[0].row, 0);
    EXPECT_FLOAT_EQ(routing.rows_of(0)[0].share, 0.2F);
    ASSERT_EQ(routing.rows_of(1).size(), 2U);
    EXPECT_FLOAT_EQ(routing.rows_of(1)[0].share, 0.6F);
    EXPECT_EQ(routing.rows_of(1)[1].row, 1);
    EXPECT_FLOAT_EQ(routing.rows_of(1)[1].share, 0.375F);
    ASSERT_EQ(routing.rows_of(2).size(), 1U);
    EXPECT_FLOAT_EQ(routing.rows_of(2)[0].share, 0.5F);

    routing.choose({3, 2, 1, true}, logits, 2);
    EXPECT_FLOAT_EQ(routing.rows_of(0)[0].share, 0.25F);
    EXPECT_FLOAT_EQ(routing.rows_of(1)[0].share, 0.75F);
    EXPECT_FLOAT_EQ(routing.rows_of(1)[1].share, 3.0F / 7);
    EXPECT_FLOAT_EQ(routing.rows_of(2)[0].share, 4.0F / 7);
}

TEST(Routing, RandomRowsAgainstFloat64) {
    Random random(fresh_seed());
    Routing routing;  // used again: nothing of the batch before stays
    for (int round = 0; round < 200; ++round) {
        ExpertSpec experts{1 + random.below(40), 0, 8, random.below(2) == 1};
        experts.top_k = 1 + random.below(experts.count);
        const int64_t rows = 1 + random.below(30);
        const auto count = static_cast<size_t>(experts.count);
        std::vector<float> logits(static_cast<size_t>(rows) * count);
        const float size = random.below(4) == 0 ? 60.0F : 2.0F;  // far apart too: exp of it would overflow unscaled
        for (float& logit : logits) logit = size * random.centered();
        // Some equal ones.
        for (size_t i = 1; i < logits.size(); i += 7) logits[i] = logits[i - 1];
        routing.choose(experts, logits.data(), rows);

        std::vector<std::vector<Route>> expected(count);
        for (int64_t row = 0; row < rows; ++row) {
            const float* const scores = logits.data() + static_cast<size_t>(row) * count;
            std::vector<size_t> order(count);
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
            const auto top_k = static_cast<size_t>(experts.top_k);
            double total = 0;
            const auto mass = [&](size_t expert) {
                return std::exp(static_cast<double>(scores[expert]) - static_cast<double>(scores[order[0]]));
            };
            for (size_t i = 0; i < (experts.normalized ? top_k : count); ++i) total += mass(order[i]);
            for (size_t i = 0; i < top_k; ++i)
                expected[order[i]].push_back({row, static_cast<float>(mass(order[i]) / total)});
        }
        for (int32_t expert = 0; expert < experts.count; ++expert) {
            const auto routes = routing.rows_of(expert);
            const auto& wanted = expected[expert];
            ASSERT_EQ(routes.size(), wanted.size());
            for (size_t i = 0; i < routes.size(); ++i) {
                EXPECT_EQ(routes[i].row, wanted[i].row);
                EXPECT_NEAR(routes[i].share, wanted[i].share, 1e-5 * static_cast<double>(wanted[i].share) + 1e-30);
            }
        }
    }
}

// Every remainder of a vector's lanes, values from tiny to far beyond where exp overflows.
std::vector<float> spread(Random& random, size_t size, float largest) {
    std::vector<float> values(size);
    for (float& value : values)
        value = random.centered() / std::sqrt(3.0F) * std::exp2(static_cast<float>(random.below(20) - 16)) * largest;
    if (size > 3) {
        values[0] = 0;
        values[1] = largest;
        values[2] = -largest;
    }
    return values;
}

// exp is a polynomial of a few units in the last place, and x^3 and the quotient round; where the result vanishes
// the error is of what is subtracted.
TEST(CpuRows, GeluTanhMulAgainstFloat64) {
    Random random(fresh_seed());
    for (size_t size = 1; size < 70; ++size) {
        for (const float largest : {4.0F, 300.0F}) {
            const std::vector<float> gate = spread(random, size, largest);
            const std::vector<float> up = spread(random, size, 3.0F);
            std::vector<float> h(size + 1, 77.0F);
            std::vector<BFloat16> narrow(size + 1, to_bfloat16(77.0F));
            gelu_tanh_mul(gate.data(), up.data(), static_cast<int64_t>(size), h.data());
            gelu_tanh_mul(gate.data(), up.data(), static_cast<int64_t>(size), narrow.data());
            EXPECT_EQ(h[size], 77.0F);
            EXPECT_EQ(to_float(narrow[size]), 77.0F);
            for (size_t i = 0; i < size; ++i) {
                const auto x = static_cast<double>(gate[i]);
                const double gelu =
                    0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
                const double expected = gelu * static_cast<double>(up[i]);
                const double room = std::fabs(x * static_cast<double>(up[i]));
                EXPECT_NEAR(h[i], expected, 2e-6 * std::fabs(expected) + 1e-7 * room) << x;
                EXPECT_NEAR(to_float(narrow[i]), expected, 0x1p-8 * std::fabs(expected) + 1e-7 * room) << x;
            }
        }
    }
}

TEST(CpuRows, SoftCapAgainstFloat64) {
    Random random(fresh_seed());
    for (size_t size = 1; size < 70; ++size) {
        for (const float cap : {0.5F, 30.0F, 50.0F}) {
            for (const float largest : {1.0F, 1000.0F, 1e30F}) {
                const std::vector<float> x = spread(random, size, largest);
                std::vector<float> y = x;
                y.push_back(77.0F);
                softcap(y.data(), static_cast<int64_t>(size), cap);
                EXPECT_EQ(y[size], 77.0F);
                for (size_t i = 0; i < size; ++i) {
                    const auto wide = static_cast<double>(cap);
                    const double expected = wide * std::tanh(static_cast<double>(x[i]) / wide);
                    EXPECT_NEAR(y[i], expected, 4e-7 * wide) << x[i] << " capped at " << cap;
                    EXPECT_LE(std::fabs(y[i]), cap);
                }
            }
        }
    }
}

}  // namespace
}  // namespace nanolith::cpu
