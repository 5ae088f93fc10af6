#include "model/rope.h"

#include <cmath>

#include "unit/model_files.h"

namespace nanolith {
namespace {

using testing::expect_error;

Result<RopeConfig> read(const std::string& text, double default_theta = 10000.0) {
    NL_ASSIGN(const Json json, parse_json_object(text, "FILE"));
    return read_rope(JsonFields(json, "FILE"), default_theta);
}

TEST(Rope, ReadsBothLayouts) {
    const auto plain = read("{}", 500.0);
    ASSERT_TRUE(plain.ok());
    EXPECT_EQ(plain->theta, 500.0);
    EXPECT_EQ(plain->scaling, RopeScaling::none);

    for (const char* text :
         {R"({"rope_theta": 500000, "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})",
          R"({"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32, "low_freq_factor": 1,
              "high_freq_factor": 4, "original_max_position_embeddings": 8192}, "rope_scaling": null})"}) {
        const auto rope = read(text);
        ASSERT_TRUE(rope.ok()) << rope.error().message;
        EXPECT_EQ(rope->theta, 500000.0);
        EXPECT_EQ(rope->scaling, RopeScaling::llama3);
        EXPECT_EQ(rope->factor, 32.0);
        EXPECT_EQ(rope->low_frequency_factor, 1.0);
        EXPECT_EQ(rope->high_frequency_factor, 4.0);
        EXPECT_EQ(rope->original_context, 8192.0);
    }
    const auto linear = read(R"({"rope_scaling": {"type": "linear", "factor": 2.5}})");
    ASSERT_TRUE(linear.ok()) << linear.error().message;
    EXPECT_EQ(linear->scaling, RopeScaling::linear);
    EXPECT_EQ(linear->factor, 2.5);
    const auto standard = read(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}})");
    ASSERT_TRUE(standard.ok());
    EXPECT_EQ(standard->theta, 1e6);
}

TEST(Rope, RefusesScalingsItDoesNotComputeByName) {
    for (const char* type : {"yarn", "longrope", "dynamic", "mrope", "su", ""}) {
        const std::string quoted = "\"" + std::string(type) + "\"";
        expect_error(read(R"({"rope_scaling": {"factor": 2, "type": )" + quoted + "}}"), NL_ERROR_UNSUPPORTED,
                     {"FILE", "rope_scaling.type", quoted, "llama3"});
        expect_error(read(R"({"rope_parameters": {"factor": 2, "rope_type": )" + quoted + "}}"), NL_ERROR_UNSUPPORTED,
                     {"rope_parameters.rope_type", quoted});
    }
    expect_error(read(R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})"),
                 NL_ERROR_UNSUPPORTED, {"partial_rotary_factor", "0.5"});
    expect_error(read(R"({"rope_parameters": {"full_attention": {"rope_type": "default"}}})"), NL_ERROR_UNSUPPORTED,
                 {"rope_parameters"});
}

TEST(Rope, RefusesFieldsThatAreWrong) {
    expect_error(read(R"({"rope_theta": "big"})"), NL_ERROR_BAD_MODEL, {"rope_theta", "\"big\""});
    expect_error(read(R"({"rope_theta": 0})"), NL_ERROR_BAD_MODEL, {"rope_theta is 0"});
    expect_error(read(R"({"rope_theta": -1.5})"), NL_ERROR_BAD_MODEL, {"rope_theta is -1.5"});
    expect_error(read(R"({"rope_theta": 1e300})"), NL_ERROR_BAD_MODEL, {"rope_theta"});
    expect_error(read(R"({"rope_scaling": []})"), NL_ERROR_BAD_MODEL, {"rope_scaling is []", "object"});
    expect_error(read(R"({"rope_scaling": "linear"})"), NL_ERROR_BAD_MODEL, {"rope_scaling"});
    expect_error(read(R"({"rope_scaling": {"type": 1}})"), NL_ERROR_BAD_MODEL, {"rope_scaling.type is 1"});
    expect_error(read(R"({"rope_scaling": {"type": "linear"}})"), NL_ERROR_BAD_MODEL,
                 {"rope_scaling.factor", "missing"});
    expect_error(read(R"({"rope_scaling": {"type": "linear", "factor": 0}})"), NL_ERROR_BAD_MODEL, {"factor is 0"});
    const std::string llama3 = R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
                                   "original_max_position_embeddings": 64, "high_freq_factor": )";
    expect_error(read(llama3 + "4}}"), NL_ERROR_BAD_MODEL, {"high_freq_factor is 4", "low_freq_factor"});
    expect_error(read(llama3 + "null}}"), NL_ERROR_BAD_MODEL, {"high_freq_factor is missing"});
}

TEST(Rope, FrequenciesFallFromOneToTheInverseOfTheta) {
    // theta 16 and 8 elements: 16^0, 16^-1/4, 16^-1/2, 16^-3/4.
    const auto frequencies = rope_frequencies(RopeConfig{.theta = 16.0}, 8);
    EXPECT_EQ(frequencies, std::vector<float>({1.0F, 0.5F, 0.25F, 0.125F}));
}

TEST(Rope, LinearScalingDividesAll) {
    const RopeConfig rope{.theta = 16.0, .scaling = RopeScaling::linear, .factor = 4.0};
    EXPECT_EQ(rope_frequencies(rope, 8), std::vector<float>({0.25F, 0.125F, 0.0625F, 0.03125F}));
}

TEST(Rope, Llama3KeepsFastStretchesSlowAndBlendsBetween) {
    // Frequencies 1, 1/2, 1/4, 1/8; over an original context of 8 pi those turn 4, 2, 1 and 1/2 times.
    RopeConfig rope{.theta = 16.0, .scaling = RopeScaling::llama3, .factor = 8.0};
    rope.low_frequency_factor = 0.75;
    rope.high_frequency_factor = 3.25;
    rope.original_context = 8.0 * 3.14159265358979323846;
    const auto frequencies = rope_frequencies(rope, 8);
    ASSERT_EQ(frequencies.size(), 4U);
    EXPECT_FLOAT_EQ(frequencies[0], 1.0F);  // 4 > 3.25: kept
    // (2 - 0.75) / 2.5 = 0.5 and (1 - 0.75) / 2.5 = 0.1 of the way from a division by 8 to none.
    EXPECT_FLOAT_EQ(frequencies[1], 0.5F * (0.5F + 0.5F / 8));
    EXPECT_FLOAT_EQ(frequencies[2], 0.25F * (0.1F + 0.9F / 8));
    EXPECT_FLOAT_EQ(frequencies[3], 0.125F / 8);  // 1/2 < 0.75: divided
}

}  // namespace
}  // namespace nanolith
