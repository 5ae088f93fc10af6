#include "model/rope.h"

#include <cmath>
#include <numbers>
#include <set>

#include "support/model_files.h"

namespace nanolith {
namespace {

using testing::expect_error;
using testing::fresh_seed;

constexpr double kTwoPi = 2.0 * std::numbers::pi;

Result<ModelRope> read_rope(const std::string& text, const RopeDefaults& defaults = {.max_context = 4096}) {
    NL_ASSIGN(const Json json, parse_json_object(text, "FILE"));
    return read_rope(JsonFields(json, "FILE"), defaults);
}

RopeConfig config_of(double theta, double rotated_share = 1.0, RopeScaling scaling = RopeScaling::none,
                     double factor = 1.0) {
    RopeConfig rope;
    rope.theta = theta;
    rope.rotated_share = rotated_share;
    rope.scaling = scaling;
    rope.factor = factor;
    return rope;
}

TEST(Rope, ReadsBothLayouts) {
    const auto plain = read_rope("{}", {.theta = 500.0});
    ASSERT_TRUE(plain.ok());
    EXPECT_EQ(plain->full.theta, 500.0);
    EXPECT_EQ(plain->full.scaling, RopeScaling::none);
    EXPECT_EQ(plain->full.rotated_share, 1.0);
    EXPECT_FALSE(plain->windowed);

    for (const char* text :
         {R"({"rope_theta": 500000, "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})",
          R"({"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32, "low_freq_factor": 1,
              "high_freq_factor": 4, "original_max_position_embeddings": 8192}, "rope_scaling": null})"}) {
        const auto rope = read_rope(text);
        ASSERT_TRUE(rope.ok()) << rope.error().message;
        EXPECT_EQ(rope->full.theta, 500000.0);
        EXPECT_EQ(rope->full.scaling, RopeScaling::llama3);
        EXPECT_EQ(rope->full.factor, 32.0);
        EXPECT_EQ(rope->full.low_frequency_factor, 1.0);
        EXPECT_EQ(rope->full.high_frequency_factor, 4.0);
        EXPECT_EQ(rope->full.original_context, 8192.0);
    }
    const auto linear = read_rope(R"({"rope_scaling": {"type": "linear", "factor": 2.5}})");
    ASSERT_TRUE(linear.ok()) << linear.error().message;
    EXPECT_EQ(linear->full.scaling, RopeScaling::linear);
    EXPECT_EQ(linear->full.factor, 2.5);
    const auto standard = read_rope(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}})");
    ASSERT_TRUE(standard.ok());
    EXPECT_EQ(standard->full.theta, 1e6);
    for (const char* text : {R"({"partial_rotary_factor": 0.75})",
                             R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.75}})"}) {
        const auto partial = read_rope(text, {.is_phi = true});
        ASSERT_TRUE(partial.ok()) << partial.error().message;
        EXPECT_EQ(partial->full.rotated_share, 0.75);
    }
}

TEST(Rope, LayersWithAWindowMayHaveTheirOwn) {
    const RopeDefaults gemma = {.theta = 1e6, .local_theta = 1e4, .max_context = 4096};
    const auto defaults = read_rope("{}", gemma);
    ASSERT_TRUE(defaults.ok() && defaults->windowed);
    EXPECT_EQ(defaults->full.theta, 1e6);
    EXPECT_EQ(defaults->windowed->theta, 1e4);
    // Scaling is of the layers that see everything.
    const auto old = read_rope(
        R"({"rope_theta": 5e5, "rope_local_base_freq": 2e4, "rope_scaling": {"rope_type": "linear", "factor": 8}})",
        gemma);
    ASSERT_TRUE(old.ok() && old->windowed) << old.error().message;
    EXPECT_EQ(old->full.theta, 5e5);
    EXPECT_EQ(old->full.scaling, RopeScaling::linear);
    EXPECT_EQ(old->windowed->theta, 2e4);
    EXPECT_EQ(old->windowed->scaling, RopeScaling::none);
    const auto by_type = read_rope(R"({"rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 5e5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}})",
                                   gemma);
    ASSERT_TRUE(by_type.ok() && by_type->windowed) << by_type.error().message;
    EXPECT_EQ(by_type->full.theta, 5e5);
    EXPECT_EQ(by_type->full.scaling, RopeScaling::linear);
    EXPECT_EQ(by_type->full.factor, 8);
    EXPECT_EQ(by_type->windowed->theta, 2e4);
    EXPECT_EQ(by_type->windowed->scaling, RopeScaling::none);
    const auto one = read_rope(R"({"rope_parameters": {"full_attention": {"rope_type": "default"}}})", gemma);
    ASSERT_TRUE(one.ok() && one->windowed);
    EXPECT_EQ(one->full.theta, 1e6);
    EXPECT_EQ(one->windowed->theta, 1e4);
}

TEST(Rope, RefusesScalingsItDoesNotComputeByName) {
    for (const char* type : {"dynamic", "mrope", "ntk", ""}) {
        const std::string quoted = "\"" + std::string(type) + "\"";
        expect_error(read_rope(R"({"rope_scaling": {"factor": 2, "type": )" + quoted + "}}"), NL_ERROR_UNSUPPORTED,
                     {"FILE", "rope_scaling.type", quoted, "llama3", "yarn", "longrope"});
        expect_error(read_rope(R"({"rope_parameters": {"factor": 2, "rope_type": )" + quoted + "}}"),
                     NL_ERROR_UNSUPPORTED, {"rope_parameters.rope_type", quoted});
        expect_error(read_rope(R"({"rope_parameters": {"full_attention": {"rope_type": )" + quoted + "}}}"),
                     NL_ERROR_UNSUPPORTED, {"rope_parameters.full_attention.rope_type", quoted});
    }
}

TEST(Rope, RefusesFieldsThatAreWrong) {
    const auto wrong = [](const std::string& text, const std::vector<std::string>& parts) {
        SCOPED_TRACE(text);
        expect_error(read_rope(text), NL_ERROR_BAD_MODEL, parts);
    };
    wrong(R"({"rope_theta": "big"})", {"rope_theta", "\"big\""});
    wrong(R"({"rope_theta": 0})", {"rope_theta is 0"});
    wrong(R"({"rope_theta": -1.5})", {"rope_theta is -1.5"});
    wrong(R"({"rope_theta": 1e300})", {"rope_theta"});
    wrong(R"({"partial_rotary_factor": 0})", {"partial_rotary_factor is 0", "above 0 and at most 1"});
    wrong(R"({"partial_rotary_factor": 1.5})", {"partial_rotary_factor is 1.5", "above 0 and at most 1"});
    wrong(R"({"rope_scaling": []})", {"rope_scaling is []", "object"});
    wrong(R"({"rope_scaling": "linear"})", {"rope_scaling"});
    wrong(R"({"rope_scaling": {"type": 1}})", {"rope_scaling.type is 1"});
    wrong(R"({"rope_parameters": {"full_attention": 3}})", {"rope_parameters.full_attention is 3", "object"});
    wrong(R"({"rope_scaling": {"type": "linear"}})", {"rope_scaling.factor", "missing"});
    wrong(R"({"rope_scaling": {"type": "linear", "factor": 0}})", {"factor is 0"});
    const std::string llama3 = R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
                                   "original_max_position_embeddings": 64, "high_freq_factor": )";
    wrong(llama3 + "4}}", {"high_freq_factor is 4", "low_freq_factor"});
    wrong(llama3 + "null}}", {"high_freq_factor is missing"});
    const std::string yarn = R"({"rope_scaling": {"type": "yarn", )";
    wrong(yarn + R"("factor": -4}})", {"rope_scaling.factor is -4"});
    wrong(yarn + R"("factor": 4, "beta_fast": 0}})", {"rope_scaling.beta_fast is 0"});
    wrong(yarn + R"("factor": 4, "truncate": 1}})", {"rope_scaling.truncate is 1", "true or false"});
    wrong(yarn + R"("factor": 4, "original_max_position_embeddings": 0}})", {"original_max_position_embeddings is 0"});
    wrong(yarn + R"("factor": 4, "attention_factor": -1}})", {"attention_factor is -1"});
    wrong(yarn + R"("factor": 4, "mscale": -1, "mscale_all_dim": 1}})", {"mscale is -1"});
    wrong(yarn + R"("factor": 4, "rope_theta": 1}})", {"rope_theta is 1", "more than 1"});
    const std::string longrope = R"({"rope_scaling": {"type": "longrope", "short_factor": [1, 2], )";
    wrong(longrope + R"("factor": 4}})", {"rope_scaling.long_factor is missing", "list of numbers"});
    wrong(longrope + R"("long_factor": 3}})", {"long_factor is 3", "list of numbers"});
    wrong(longrope + R"("long_factor": [1, 0]}})", {"long_factor is [1,0]", "above 0"});
    wrong(longrope + R"("long_factor": [1, "2"]}})", {"long_factor"});
}

TEST(Rope, FrequenciesFallFromOneToTheInverseOfTheta) {
    // theta 16 and 8 elements: 16^0, 16^-1/4, 16^-1/2, 16^-3/4.
    const RopeSpec rope = make_rope(config_of(16.0), 8, false);
    EXPECT_EQ(rope.frequencies, std::vector<float>({1.0F, 0.5F, 0.25F, 0.125F}));
    EXPECT_TRUE(rope.magnitudes.empty());
}

TEST(Rope, PartialRotationTurnsTheFirstElementsAlone) {
    RopeConfig rope = config_of(16.0, 0.5);
    EXPECT_EQ(rotated_elements(rope, 16), 8);
    EXPECT_EQ(make_rope(rope, 16, false).frequencies, std::vector<float>({1, 0.5F, 0.25F, 0.125F, 0, 0, 0, 0}));
    rope.magnitude = 1.5;
    EXPECT_EQ(make_rope(rope, 16, false).magnitudes, std::vector<float>({1.5F, 1.5F, 1.5F, 1.5F, 1, 1, 1, 1}));
    rope.rotated_share = 0.75;
    EXPECT_EQ(rotated_elements(rope, 80), 60);
    rope.rotated_share = 0.4;
    EXPECT_EQ(rotated_elements(rope, 18), 6);  // 7.2 elements make 3 pairs
}

TEST(Rope, LinearScalingDividesAll) {
    const RopeConfig rope = config_of(16.0, 1.0, RopeScaling::linear, 4.0);
    EXPECT_EQ(make_rope(rope, 8, false).frequencies, std::vector<float>({0.25F, 0.125F, 0.0625F, 0.03125F}));
}

TEST(Rope, Llama3KeepsFastStretchesSlowAndBlendsBetween) {
    // Frequencies 1, 1/2, 1/4, 1/8; over an original context of 8 pi those turn 4, 2, 1 and 1/2 times.
    RopeConfig rope = config_of(16.0, 1.0, RopeScaling::llama3, 8.0);
    rope.low_frequency_factor = 0.75;
    rope.high_frequency_factor = 3.25;
    rope.original_context = 4.0 * kTwoPi;
    const auto frequencies = make_rope(rope, 8, false).frequencies;
    ASSERT_EQ(frequencies.size(), 4U);
    EXPECT_FLOAT_EQ(frequencies[0], 1.0F);  // 4 > 3.25: kept
    // (2 - 0.75) / 2.5 = 0.5 and (1 - 0.75) / 2.5 = 0.1 of the way from a division by 8 to none.
    EXPECT_FLOAT_EQ(frequencies[1], 0.5F * (0.5F + 0.5F / 8));
    EXPECT_FLOAT_EQ(frequencies[2], 0.25F * (0.1F + 0.9F / 8));
    EXPECT_FLOAT_EQ(frequencies[3], 0.125F / 8);  // 1/2 < 0.75: divided
}

// Pair i of 16 has the frequency 2^-i, so over a context of 1024 * 2 pi it turns 2^(10 - i) times. 24 turns are those
// of pair 10 - log2(24) = 5.415, 1.5 turns those of pair 10 - log2(1.5) = 9.415.
RopeConfig yarn_of_powers() {
    RopeConfig rope = config_of(65536.0, 1.0, RopeScaling::yarn, 4.0);
    rope.original_context = 1024.0 * kTwoPi;
    rope.beta_fast = 24.0;
    rope.beta_slow = 1.5;
    return rope;
}

TEST(Rope, YarnBlendsBetweenThePairsOfItsTwoTurns) {
    RopeConfig rope = yarn_of_powers();
    const double low = 10 - std::log2(24.0);
    for (const bool truncated : {true, false}) {
        rope.truncated = truncated;
        const RopeSpec spec = make_rope(rope, 32, false);
        ASSERT_EQ(spec.frequencies.size(), 16U);
        for (int i = 0; i < 16; ++i) {
            // Truncated: the border goes out to whole pairs, 5 and 10. Else it is 4 pairs wide, log2(24 / 1.5).
            const double way = truncated ? (i - 5) / 5.0 : (i - low) / 4.0;
            const double stretched = std::min(std::max(way, 0.0), 1.0);
            const double expected = std::exp2(-i) * (1 - stretched + stretched / 4);
            EXPECT_NEAR(spec.frequencies[i], expected, expected * 1e-6) << i << truncated;
        }
        EXPECT_TRUE(spec.magnitudes.empty());  // the config's magnitude is 1
    }
}

TEST(Rope, YarnOfAPartOfTheHeadCountsItsOwnPairs) {
    RopeConfig rope = yarn_of_powers();
    rope.rotated_share = 0.5;
    const RopeSpec half = make_rope(rope, 64, false);
    rope.rotated_share = 1.0;
    const RopeSpec whole = make_rope(rope, 32, false);
    ASSERT_EQ(half.frequencies.size(), 32U);
    for (size_t i = 0; i < 32; ++i) EXPECT_EQ(half.frequencies[i], i < 16 ? whole.frequencies[i] : 0.0F);
}

TEST(Rope, ReadsYarnAndItsMagnitude) {
    const auto yarn = [](const std::string& more) {
        return read_rope(R"({"rope_theta": 1e6, "rope_scaling": {"rope_type": "yarn")" + more + "}}");
    };
    const auto qwen = yarn(R"(, "factor": 4.0, "original_max_position_embeddings": 32768)");
    ASSERT_TRUE(qwen.ok()) << qwen.error().message;
    EXPECT_EQ(qwen->full.scaling, RopeScaling::yarn);
    EXPECT_EQ(qwen->full.factor, 4.0);
    EXPECT_EQ(qwen->full.original_context, 32768.0);
    EXPECT_EQ(qwen->full.beta_fast, 32.0);
    EXPECT_EQ(qwen->full.beta_slow, 1.0);
    EXPECT_TRUE(qwen->full.truncated);
    EXPECT_NEAR(qwen->full.magnitude, 1.138629436111989, 1e-12);  // 0.1 ln 4 + 1
    EXPECT_EQ(make_rope(qwen->full, 8, false).magnitudes, std::vector<float>(4, 1.13862944F));
    // The scores' factor of (0.1 * 0.707 ln 4 + 1) over itself.
    EXPECT_NEAR(yarn(R"(, "factor": 4, "mscale": 0.707, "mscale_all_dim": 0.707)")->full.magnitude, 1.0, 1e-12);
    // (0.2 ln 4 + 1) / (0.05 ln 4 + 1)
    EXPECT_NEAR(yarn(R"(, "factor": 4, "mscale": 2, "mscale_all_dim": 0.5)")->full.magnitude, 1.19446487610871, 1e-12);
    // One of the two alone, or with 0, does nothing.
    EXPECT_NEAR(yarn(R"(, "factor": 4, "mscale": 2)")->full.magnitude, 1.138629436111989, 1e-12);
    EXPECT_NEAR(yarn(R"(, "factor": 4, "mscale": 2, "mscale_all_dim": 0)")->full.magnitude, 1.138629436111989, 1e-12);
    EXPECT_EQ(yarn(R"(, "factor": 4, "attention_factor": 0.75)")->full.magnitude, 0.75);
    EXPECT_EQ(yarn(R"(, "factor": 0.5)")->full.magnitude, 1.0);  // no longer than it was
    // Left out, the factor is how much longer the context is than the original one.
    const auto stretched = yarn(R"(, "original_max_position_embeddings": 512, "beta_fast": 16, "truncate": false)");
    ASSERT_TRUE(stretched.ok()) << stretched.error().message;
    EXPECT_EQ(stretched->full.factor, 8.0);
    EXPECT_EQ(stretched->full.beta_fast, 16.0);
    EXPECT_FALSE(stretched->full.truncated);
}

TEST(Rope, LongRopeDividesEachPairByItsOwn) {
    for (const char* type : {"longrope", "su", "yarn"}) {  // as Phi-3 has called it
        const auto rope = read_rope(R"({"rope_theta": 16, "original_max_position_embeddings": 1024, "rope_scaling": {
            "short_factor": [1, 1.5, 2, 4], "long_factor": [2, 3, 5, 8], "type": ")" +
                                    std::string(type) + "\"}}");
        ASSERT_TRUE(rope.ok()) << rope.error().message;
        EXPECT_EQ(rope->full.scaling, RopeScaling::longrope);
        EXPECT_EQ(rope->full.original_context, 1024.0);
        EXPECT_NEAR(rope->full.magnitude, 1.0954451150103321, 1e-12);  // sqrt(1 + ln(4096 / 1024) / ln 1024) = sqrt 1.2
        const RopeSpec near = make_rope(rope->full, 8, false);
        const RopeSpec far = make_rope(rope->full, 8, true);
        EXPECT_EQ(near.frequencies, std::vector<float>({1.0F, 0.5F / 1.5F, 0.125F, 0.03125F}));
        EXPECT_EQ(far.frequencies, std::vector<float>({0.5F, 0.5F / 3, 0.25F / 5, 0.015625F}));
        EXPECT_EQ(near.magnitudes, std::vector<float>(4, 1.0954451F));
        EXPECT_EQ(far.magnitudes, near.magnitudes);
    }
    EXPECT_EQ(read_rope(R"({"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1],
                       "attention_factor": 1.25}})")
                  ->full.magnitude,
              1.25);
    // No longer than it was: nothing to make up for.
    EXPECT_EQ(
        read_rope(R"({"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1]}})")->full.magnitude,
        1.0);
}

using Vector = std::vector<double>;

// RoPE by its definition on the elements as a checkpoint has them: the first `rotated` in pairs, of neighbours or of
// halves; the others stay.
Vector turned(const Vector& x, int32_t rotated, bool interleaved, const std::vector<float>& frequencies,
              double position) {
    Vector y = x;
    for (int32_t i = 0; i < rotated / 2; ++i) {
        const auto a = static_cast<size_t>(interleaved ? 2 * i : i);
        const auto b = static_cast<size_t>(interleaved ? 2 * i + 1 : i + rotated / 2);
        const double angle = position * static_cast<double>(frequencies[i]);
        y[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
        y[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
    }
    return y;
}

double dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

// What a kernel does, halves of the whole head, on reordered queries and keys: the scores are those of the definition.
TEST(Rope, OrderKeepsTheScores) {
    std::mt19937 random(fresh_seed());
    std::normal_distribution<double> normal;
    for (const bool interleaved : {false, true}) {
        for (const auto& [head_dim, share] : std::vector<std::pair<int32_t, double>>{
                 {16, 1.0}, {16, 0.5}, {16, 0.75}, {80, 0.4}, {96, 0.75}, {128, 1.0}, {2, 1.0}, {6, 0.34}}) {
            SCOPED_TRACE(std::to_string(head_dim) + " * " + std::to_string(share) +
                         (interleaved ? " interleaved" : ""));
            const RopeConfig rope = config_of(10000.0, share);
            const int32_t rotated = rotated_elements(rope, head_dim);
            const auto order = rope_order(rotated, head_dim, interleaved);
            if (!interleaved && share == 1.0) {
                EXPECT_TRUE(order.empty());
                continue;
            }
            ASSERT_EQ(std::set<int32_t>(order.begin(), order.end()).size(), static_cast<size_t>(head_dim));
            EXPECT_EQ(*std::min_element(order.begin(), order.end()), 0);
            EXPECT_EQ(*std::max_element(order.begin(), order.end()), head_dim - 1);
            const auto frequencies = make_rope(rope, head_dim, false).frequencies;
            Vector q, k, q_ordered, k_ordered;
            for (int32_t i = 0; i < head_dim; ++i) {
                q.push_back(normal(random));
                k.push_back(normal(random));
            }
            for (const int32_t at : order) {
                q_ordered.push_back(q[at]);
                k_ordered.push_back(k[at]);
            }
            for (const auto& [p, s] : std::vector<std::pair<double, double>>{{0, 0}, {1, 0}, {7, 3}, {1000, 12}}) {
                const double expected = dot(turned(q, rotated, interleaved, frequencies, p),
                                            turned(k, rotated, interleaved, frequencies, s));
                const double score = dot(turned(q_ordered, head_dim, false, frequencies, p),
                                         turned(k_ordered, head_dim, false, frequencies, s));
                EXPECT_NEAR(score, expected, 1e-9);
            }
        }
    }
}

}  // namespace
}  // namespace nanolith
