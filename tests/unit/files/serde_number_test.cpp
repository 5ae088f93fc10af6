// Numbers as serde_json reads them: what the tokenizers package 0.23.3, which is built upon it, made of the same texts
// as scores of a Unigram model.
#include "files/serde_number.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nanolith {
namespace {

struct Case {
    const char* text;
    double expected;
};

constexpr Case kCases[] = {
    // clang-format off
    {"-1.5", -0x1.8000000000000p+0},
    {"0.1", 0x1.999999999999ap-4},
    {"-3.4583122730255127", -0x1.baa9fa0000000p+1},
    {"123456789012345678901234567890.5", 0x1.8ee90ff6c373ep+96},
    {"-123456789012345678901234567890", -0x1.8ee90ff6c373ep+96},
    {"18446744073709551615.9", 0x1.0000000000000p+64},
    {"18446744073709551616", 0x1.0000000000000p+64},
    {"1.7976931348623157e308", 0x1.fffffffffffffp+1023},
    {"2.2250738585072014e-308", 0x1.0000000000000p-1022},
    {"4.9e-324", 0x0.0000000000001p-1022},
    {"1e-400", 0x0.0p+0},
    {"1234567890123456789e-330", 0x0.0003a2df7e0c6p-1022},
    {"12345678901234567891234e-5", 0x1.b69b4ba630f34p+56},
    {"0.000000000000000000012345678901234567", 0x1.d2681472afff9p-67},
    {"1E+5", 0x1.86a0000000000p+16},
    {"-0.0", -0x0.0p+0},
    {"9007199254740993.0", 0x1.0000000000001p+53},
    {"1844674407370955161.55", 0x1.999999999999ap+60},
    {"1844674407370955161.56", 0x1.999999999999ap+60},
    {"0.18446744073709551619", 0x1.79ca10c924224p-3},
    {"1e22", 0x1.0f0cf064dd592p+73},
    {"1e23", 0x1.52d02c7e14af6p+76},
    {"-12.982908554684185", -0x1.9f73fca42a786p+3},
    {"-12.013631564778425", -0x1.806fab769d551p+3},
    {"-12.846008495951335", -0x1.9b128068c7f8fp+3},
    {"-14.864844673032227", -0x1.dbaccebc59623p+3},
    {"-13.570439767683549", -0x1.b2410ae6513cdp+3},
    {"-12.809137326340203", -0x1.99e473f653547p+3},
    {"-14.977634180636647", -0x1.df48c77a29284p+3},
    {"-0.47066643262976604", -0x1.e1f6619de11bdp-2},
    {"-13.449894621414023", -0x1.ae658967b3d34p+3},
    {"-7.6054022391848966", -0x1.e6bee9088e5aep+2},
    {"-10.804668782162075", -0x1.59bfd8beeff1dp+3},
    {"-10.189220970571629", -0x1.460e19230a521p+3}
    // clang-format on
};

TEST(SerdeNumber, ReadsAsThePackageDoes) {
    for (const Case& one : kCases) {
        const double number = serde_number(one.text);
        EXPECT_EQ(number, one.expected) << one.text << std::hexfloat << ": " << number;
        EXPECT_EQ(std::signbit(number), std::signbit(one.expected)) << one.text;
    }
}

TEST(SerdeNumber, IsWhatJsonHas) {
    const auto json = parse_json_like_serde(R"({"v":[-12.982908554684185,7,-7]})", "FILE", 1000);
    ASSERT_TRUE(json.ok());
    const auto& list = *json->find("v")->as<Json::Array>();
    EXPECT_EQ(*list[0].as<double>(), -0x1.9f73fca42a786p+3);
    EXPECT_EQ(*list[1].as<uint64_t>(), 7U);
    EXPECT_EQ(*list[2].as<int64_t>(), -7);
    const auto rounded = parse_json_object(R"({"v":-12.982908554684185})", "FILE");
    EXPECT_EQ(*rounded->find("v")->as<double>(), -12.982908554684185);
}

}  // namespace
}  // namespace nanolith
