#include "files/gguf.h"

#include <gtest/gtest.h>

#include "support/gguf_writer.h"
#include "support/model_files.h"

namespace nanolith::testing {
namespace {

using test::GgufWriter;
using test::raw;

GgufWriter small_gguf() {
    GgufWriter writer;
    writer.add_text("general.architecture", "llama").add_u32("a.count", 7).add_f32("a.number", 0.5F);
    writer.add("a.flag", 7, raw(uint8_t{1})).add_texts("a.texts", {"one", "", "three"});
    writer.add_numbers<int32_t>("a.types", 5, {1, -2, 3}).add("a.large", 10, raw(UINT64_MAX));
    writer.add_floats("x", {3, 2}, {1, 2, 3, 4, 5, 6});
    return writer;
}

TEST(Gguf, ReadsValuesAndTensors) {
    for (const uint32_t version : {2U, 3U}) {
        const std::string bytes = small_gguf().finish(version);
        const auto header = GgufHeader::parse(bytes, "FILE");
        ASSERT_TRUE(header.ok()) << header.error().message;
        EXPECT_EQ(header->version(), version);
        EXPECT_EQ(**header->string("general.architecture"), "llama");
        EXPECT_EQ(**header->integer("a.count", 0, 10), 7);
        EXPECT_EQ(**header->number("a.number"), 0.5);
        EXPECT_EQ(**header->number("a.count"), 7.0);
        EXPECT_TRUE(**header->boolean("a.flag"));
        EXPECT_EQ(*header->strings("a.texts"), (std::vector<std::string_view>{"one", "", "three"}));
        EXPECT_EQ(*header->integers("a.types", -2, 3), (std::vector<int64_t>{1, -2, 3}));
        EXPECT_EQ(*header->integers("a.count", 0, 10), std::vector<int64_t>{7});
        EXPECT_FALSE(header->integer("none", 0, 1)->has_value());
        EXPECT_FALSE(header->has("none"));
        ASSERT_EQ(header->tensors().size(), 1U);
        EXPECT_EQ(header->tensors()[0].name, "x");
        EXPECT_EQ(header->tensors()[0].shape, (std::vector<int64_t>{2, 3}));
        EXPECT_EQ(header->data_offset(), bytes.size() - 6 * sizeof(float));
    }
}

TEST(Gguf, NamesTheKeyAndTheValueThatAreWrong) {
    const auto header = *GgufHeader::parse(small_gguf().finish(), "FILE");
    expect_error(header.integer("a.count", 8, 10), NL_ERROR_BAD_MODEL, {"FILE", "a.count is 7", "from 8 to 10"});
    expect_error(header.integer("a.large", 0, INT64_MAX), NL_ERROR_BAD_MODEL, {"a.large is"});
    expect_error(header.integer("a.texts", 0, 1), NL_ERROR_BAD_MODEL, {"a.texts is an array of 3", "an integer"});
    expect_error(header.string("a.count"), NL_ERROR_BAD_MODEL, {"a.count is 7", "a string"});
    expect_error(header.boolean("general.architecture"), NL_ERROR_BAD_MODEL, {"\"llama\"", "true or false"});
    expect_error(header.strings("a.types"), NL_ERROR_BAD_MODEL, {"a.types", "strings"});
    expect_error(header.integers("a.types", 0, 3), NL_ERROR_BAD_MODEL, {"a.types", "from 0 to 3"});
    expect_error(header.numbers("a.texts"), NL_ERROR_BAD_MODEL, {"a.texts", "finite numbers"});
    const auto huge = *GgufHeader::parse(small_gguf().add("a.huge", 12, raw(1e300)).finish(), "FILE");
    expect_error(huge.numbers("a.huge"), NL_ERROR_BAD_MODEL, {"a.huge is", "finite numbers"});
}

Result<GgufHeader> parse_gguf(const GgufWriter& writer) {
    return GgufHeader::parse(writer.finish(), "FILE");
}

TEST(Gguf, RefusesWhatIsNoGguf) {
    expect_error(GgufHeader::parse("", "FILE"), NL_ERROR_BAD_MODEL, {"FILE", "no GGUF file"});
    expect_error(GgufHeader::parse("GGML" + std::string(100, '\0'), "FILE"), NL_ERROR_BAD_MODEL, {"no GGUF file"});
    for (const uint32_t version : {0U, 1U, 4U})
        expect_error(GgufHeader::parse(small_gguf().finish(version), "FILE"), NL_ERROR_UNSUPPORTED,
                     {"of version " + std::to_string(version)});
    expect_error(GgufHeader::parse(small_gguf().finish(3U << 24U), "FILE"), NL_ERROR_UNSUPPORTED, {"big-endian"});
}

TEST(Gguf, RefusesEachBeginningOfAHeader) {
    const std::string bytes = small_gguf().finish();
    const size_t header = GgufHeader::parse(bytes, "FILE")->data_offset();
    // Up to 31 bytes of the last ones are padding.
    for (size_t size = 0; size + 32 < header; ++size)
        expect_error(GgufHeader::parse(bytes.substr(0, size), "FILE"), NL_ERROR_BAD_MODEL, {"FILE"});
}

TEST(Gguf, RefusesCountsLengthsAndOffsets) {
    constexpr auto kMany = uint64_t{1} << 62U;
    const auto with_counts = [](uint64_t tensors, uint64_t values) {
        return GgufHeader::parse("GGUF" + raw(uint32_t{3}) + raw(tensors) + raw(values) + std::string(64, '\0'),
                                 "FILE");
    };
    expect_error(with_counts(kMany, 0), NL_ERROR_BAD_MODEL, {"tensors", std::to_string(kMany)});
    expect_error(with_counts(0, kMany), NL_ERROR_BAD_MODEL, {"metadata", std::to_string(kMany)});
    expect_error(parse_gguf(small_gguf().add("b", 8, raw(kMany))), NL_ERROR_BAD_MODEL,
                 {"a string", std::to_string(kMany)});
    expect_error(parse_gguf(small_gguf().add("b", 9, raw(uint32_t{4}) + raw(kMany))), NL_ERROR_BAD_MODEL,
                 {"\"b\"", "elements"});
    expect_error(parse_gguf(small_gguf().add("b", 9, raw(uint32_t{8}) + raw(kMany))), NL_ERROR_BAD_MODEL,
                 {"\"b\"", "elements"});
    expect_error(parse_gguf(small_gguf().add("b", 9, raw(uint32_t{9}) + raw(uint64_t{1}))), NL_ERROR_BAD_MODEL,
                 {"\"b\"", "array of arrays"});
    expect_error(parse_gguf(small_gguf().add("b", 13, raw(uint64_t{1}))), NL_ERROR_BAD_MODEL, {"\"b\"", "type 13"});
    expect_error(parse_gguf(small_gguf().add_u32("a.count", 1)), NL_ERROR_BAD_MODEL, {"\"a.count\"", "twice"});
    expect_error(parse_gguf(small_gguf().add_entry("x", {32}, 0, 0)), NL_ERROR_BAD_MODEL, {"tensor \"x\"", "twice"});
    expect_error(parse_gguf(small_gguf().add_entry("y", {1, 1, 1, 1, 1}, 0, 0)), NL_ERROR_BAD_MODEL, {"5 dimensions"});
    expect_error(parse_gguf(small_gguf().add_entry("y", {4, 0}, 0, 0)), NL_ERROR_BAD_MODEL,
                 {"tensor \"y\"", "dimension of 0"});
    expect_error(parse_gguf(small_gguf().add_entry("y", {kMany, 4}, 0, 0)), NL_ERROR_BAD_MODEL,
                 {"tensor \"y\"", "2^63"});
    expect_error(parse_gguf(small_gguf().add_entry("y", {4}, 0, 16)), NL_ERROR_BAD_MODEL,
                 {"tensor \"y\"", "multiple of 32"});
    for (const uint32_t alignment : {0U, 3U, 48U, 1U << 30U})
        expect_error(parse_gguf(small_gguf().add_u32("general.alignment", alignment)), NL_ERROR_BAD_MODEL,
                     {"general.alignment is " + std::to_string(alignment)});
    EXPECT_TRUE(parse_gguf(small_gguf().add_u32("general.alignment", 8).add_entry("y", {4}, 0, 8)).ok());
}

}  // namespace
}  // namespace nanolith::testing
