#include "model/safetensors.h"

#include "support/model_files.h"

namespace nanolith {
namespace {

using testing::expect_error;
using testing::fresh_seed;
using testing::safetensors_bytes;
using testing::safetensors_file;

// What it gives points into `file`.
Result<TensorMap> parse(const std::string& file) {
    return parse_safetensors(std::as_bytes(std::span(file)), "FILE");
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

// A file whose only tensor is `body`.
std::string one_tensor(const std::string& body, const std::string& data = "01234567") {
    return safetensors_bytes(R"({"t":)" + body + "}", data);
}

TEST(Safetensors, ReadsShapesDtypesAndBytes) {
    const std::string file = safetensors_file(
        {{"a", "F32", {2, 1}, "01234567"}, {"b", "BF16", {3}, "abcdef"}, {"s", "I64", {}, "scalar!!"}});
    const auto tensors = parse(file);
    ASSERT_TRUE(tensors.ok()) << tensors.error().message;
    ASSERT_EQ(tensors->size(), 3U);
    const Tensor& b = tensors->at("b");
    EXPECT_EQ(b.dtype, "BF16");
    EXPECT_EQ(b.shape, std::vector<int64_t>({3}));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(b.bytes.data()), b.bytes.size()), "abcdef");
    EXPECT_EQ(tensors->at("a").shape, std::vector<int64_t>({2, 1}));
    EXPECT_TRUE(tensors->at("s").shape.empty());
}

TEST(Safetensors, ReadsTensorsInAnyOrderEmptyOnesAndPadding) {
    const std::string header = R"({"late":)" + entry("U8", "[4]", "[4,8]") + R"(,"none":)" +
                               entry("F32", "[0,9223372036854775807]", "[4,4]") + R"(,"early":)" +
                               entry("U8", "[4]", "[0,4]") + "}      ";
    const std::string file = safetensors_bytes(header, "01234567");
    const auto tensors = parse(file);
    ASSERT_TRUE(tensors.ok()) << tensors.error().message;
    EXPECT_EQ(tensors->at("none").bytes.size(), 0U);
    EXPECT_EQ(std::to_integer<char>(tensors->at("late").bytes[0]), '4');
    EXPECT_TRUE(parse(safetensors_bytes("{}", "")).ok());
}

TEST(Safetensors, LeavesDtypesItDoesNotKnowAlone) {
    const auto tensors = parse(one_tensor(entry("F4", "[16]", "[0,8]")));
    ASSERT_TRUE(tensors.ok()) << tensors.error().message;
    EXPECT_EQ(tensors->at("t").dtype, "F4");
}

TEST(Safetensors, RefusesHeaderLengthsThatAreNotTrue) {
    expect_error(parse(""), NL_ERROR_BAD_MODEL, {"FILE", "0 bytes"});
    expect_error(parse("1234567"), NL_ERROR_BAD_MODEL, {"7 bytes"});
    std::string file = one_tensor(entry("U8", "[8]", "[0,8]"));
    for (size_t i = 0; i < 8; ++i) file[i] = '\xff';
    expect_error(parse(file), NL_ERROR_BAD_MODEL, {"18446744073709551615"});
    // One byte more than there is, and a length that would fit if the sum overflowed.
    const std::string header = R"({"t":)" + entry("U8", "[0]", "[0,0]") + "}";
    std::string longer = safetensors_bytes(header, "");
    longer[0] = static_cast<char>(longer[0] + 1);
    expect_error(parse(longer), NL_ERROR_BAD_MODEL, {std::to_string(header.size() + 1)});
    std::string huge = safetensors_bytes("{}" + std::string(17U << 20, ' '), "");
    expect_error(parse(huge), NL_ERROR_BAD_MODEL, {"16777216"});
}

TEST(Safetensors, RefusesHeadersThatAreNotJsonObjects) {
    for (const char* header : {"", " ", "{", "}", "[]", "null", "1", "\"x\"", "{\"t\":}", "{\"t\" 1}", "{} {}",
                               "{\"t\":NaN}", "{\"t\":1e999}", "{\"\xff\":{}}"}) {
        expect_error(parse(safetensors_bytes(header, "")), NL_ERROR_BAD_MODEL, {"FILE"});
    }
}

TEST(Safetensors, RefusesDeepNesting) {
    for (const size_t depth : {65U, 1000U, 1000000U}) {
        for (const char* bracket : {"[", "{\"a\":"}) {
            std::string header = "{\"t\":";
            for (size_t i = 0; i < depth; ++i) header += bracket;
            expect_error(parse(safetensors_bytes(header, "")), NL_ERROR_BAD_MODEL, {"nested"});
        }
    }
    // Brackets inside of strings do not nest.
    const std::string name = std::string(1000, '[') + "\\\"" + std::string(1000, '{');
    EXPECT_TRUE(parse(safetensors_bytes("{\"" + name + "\":" + entry("U8", "[2]", "[0,2]") + "}", "xy")).ok());
}

TEST(Safetensors, RefusesANameTwice) {
    const std::string body = entry("U8", "[4]", "[0,4]");
    expect_error(parse(safetensors_bytes(R"({"t":)" + body + R"(,"t":)" + body + "}", "0123")), NL_ERROR_BAD_MODEL,
                 {"\"t\"", "twice"});
    // Also inside of a tensor's own fields, and written in another way.
    expect_error(parse(one_tensor(R"({"dtype":"U8","shape":[8],"data_offsets":[0,8],"sh\u0061pe":[8]})")),
                 NL_ERROR_BAD_MODEL, {"shape", "twice"});
}

TEST(Safetensors, RefusesFieldsOfTheWrongKind) {
    for (const std::string& body : std::vector<std::string>{"1",
                                                            "[]",
                                                            "null",
                                                            "\"F32\"",
                                                            "{}",
                                                            R"({"dtype":"U8","shape":[8]})",
                                                            R"({"dtype":"U8","data_offsets":[0,8]})",
                                                            R"({"shape":[8],"data_offsets":[0,8]})",
                                                            R"({"dtype":8,"shape":[8],"data_offsets":[0,8]})",
                                                            entry("U8", "8", "[0,8]"),
                                                            entry("U8", "[8.0]", "[0,8]"),
                                                            entry("U8", "[-8]", "[0,8]"),
                                                            entry("U8", "[\"8\"]", "[0,8]"),
                                                            entry("U8", "[[8]]", "[0,8]"),
                                                            entry("U8", "[18446744073709551615]", "[0,8]"),
                                                            entry("U8", "[8]", "8"),
                                                            entry("U8", "[8]", "[]"),
                                                            entry("U8", "[8]", "[0]"),
                                                            entry("U8", "[8]", "[0,8,8]"),
                                                            entry("U8", "[8]", "[-8,0]"),
                                                            entry("U8", "[8]", "[0.0,8.0]"),
                                                            entry("U8", "[8]", "[null,8]")}) {
        expect_error(parse(one_tensor(body)), NL_ERROR_BAD_MODEL, {"FILE", "\"t\""});
    }
    expect_error(parse(safetensors_bytes(R"({"__metadata__":[]})", "")), NL_ERROR_BAD_MODEL, {"__metadata__"});
}

TEST(Safetensors, RefusesSpansOutsideOfTheFile) {
    expect_error(parse(one_tensor(entry("U8", "[9]", "[0,9]"))), NL_ERROR_BAD_MODEL, {"\"t\"", "[0, 9]", "8 bytes"});
    expect_error(parse(one_tensor(entry("U8", "[1]", "[8,9]"))), NL_ERROR_BAD_MODEL, {"[8, 9]"});
    expect_error(parse(one_tensor(entry("U8", "[8]", "[8,0]"))), NL_ERROR_BAD_MODEL, {"[8, 0]"});
    expect_error(parse(one_tensor(entry("U8", "[8]", "[9223372036854775799,9223372036854775807]"))), NL_ERROR_BAD_MODEL,
                 {"9223372036854775807"});
    expect_error(parse(one_tensor(entry("U8", "[8]", "[0,18446744073709551615]"))), NL_ERROR_BAD_MODEL,
                 {"data_offsets"});
}

TEST(Safetensors, RefusesSpansThatAreNotTheShape) {
    expect_error(parse(one_tensor(entry("F32", "[3]", "[0,8]"))), NL_ERROR_BAD_MODEL,
                 {"\"t\"", "8 bytes", "12", "[3]"});
    expect_error(parse(one_tensor(entry("BF16", "[2,1]", "[0,8]"))), NL_ERROR_BAD_MODEL, {"8 bytes", "4", "[2, 1]"});
    // Products that come to 8 modulo 2^64.
    expect_error(parse(one_tensor(entry("U8", "[4294967296,4294967296,8]", "[0,8]"))), NL_ERROR_BAD_MODEL, {"64 bits"});
    expect_error(parse(one_tensor(entry("F64", "[2305843009213693953]", "[0,8]"))), NL_ERROR_BAD_MODEL, {"64 bits"});
}

TEST(Safetensors, RefusesOverlapsAndGaps) {
    const auto two = [](const std::string& a, const std::string& b) {
        return safetensors_bytes(R"({"a":)" + a + R"(,"b":)" + b + "}", "01234567");
    };
    expect_error(parse(two(entry("U8", "[5]", "[0,5]"), entry("U8", "[4]", "[4,8]"))), NL_ERROR_BAD_MODEL,
                 {"\"b\"", "overlap"});
    expect_error(parse(two(entry("U8", "[8]", "[0,8]"), entry("U8", "[8]", "[0,8]"))), NL_ERROR_BAD_MODEL, {"overlap"});
    expect_error(parse(two(entry("U8", "[3]", "[0,3]"), entry("U8", "[4]", "[4,8]"))), NL_ERROR_BAD_MODEL,
                 {"\"b\"", "gap"});
    expect_error(parse(one_tensor(entry("U8", "[4]", "[4,8]"))), NL_ERROR_BAD_MODEL, {"gap"});
    expect_error(parse(one_tensor(entry("U8", "[4]", "[0,4]"))), NL_ERROR_BAD_MODEL, {"4 bytes", "8 bytes"});
}

TEST(Safetensors, MessagesStayShortAndPrintable) {
    const std::string name(100000, 'n');
    const auto tensors = parse(safetensors_bytes("{\"\\u0000\\u001b" + name + "\":1}", ""));
    ASSERT_FALSE(tensors.ok());
    EXPECT_LT(tensors.error().message.size(), 400U);
    for (const char c : tensors.error().message) EXPECT_TRUE(c >= ' ' && c <= '~') << int{c};
}

// Every span that a parse gives must lie inside of the file.
void expect_inside(const Result<TensorMap>& tensors, const std::string& file) {
    if (!tensors.ok()) {
        EXPECT_EQ(tensors.error().status, NL_ERROR_BAD_MODEL);
        EXPECT_FALSE(tensors.error().message.empty());
        return;
    }
    const auto all = std::as_bytes(std::span(file));
    for (const auto& [name, tensor] : *tensors) {
        if (tensor.bytes.empty()) continue;
        EXPECT_GE(tensor.bytes.data(), all.data());
        EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), all.data() + all.size());
    }
}

TEST(Safetensors, EveryTruncationIsAnError) {
    const std::string file = safetensors_file({{"a", "F32", {2, 1}, "01234567"}, {"b", "BF16", {3}, "abcdef"}});
    ASSERT_TRUE(parse(file).ok());
    for (size_t size = 0; size < file.size(); ++size) {
        EXPECT_FALSE(parse(file.substr(0, size)).ok()) << size;
    }
    EXPECT_FALSE(parse(file + "x").ok());
}

TEST(Safetensors, RandomDamageNeverGivesSpansOutsideOfTheFile) {
    const std::string good = safetensors_file({{"a", "F32", {2, 1}, "01234567"}, {"b", "BF16", {3}, "abcdef"}});
    std::mt19937 random(fresh_seed());
    const std::string likely = "0123456789{}[],:\"-.eE\\";
    int refused = 0;
    for (int round = 0; round < 20000; ++round) {
        std::string file = good;
        const int changes = 1 + static_cast<int>(random() % 4);
        for (int i = 0; i < changes; ++i) {
            char& byte = file[random() % file.size()];
            byte = random() % 2 == 0 ? static_cast<char>(random()) : likely[random() % likely.size()];
        }
        const auto tensors = parse(file);
        expect_inside(tensors, file);
        refused += tensors.ok() ? 0 : 1;
    }
    EXPECT_GT(refused, 1000);  // else the damage was none
}

}  // namespace
}  // namespace nanolith
