#include "text/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

namespace nanolith {
namespace {

using namespace std::string_literals;

const std::string kBad(kReplacementCharacter);

TEST(Utf8, LeavesValidTextAlone) {
    // The first and last character of each length, and the neighbours of the surrogates.
    for (const std::string& text : {""s, "a\0b"s, "\x7F"s, "\xC2\x80"s, "\xDF\xBF"s, "\xE0\xA0\x80"s, "\xED\x9F\xBF"s,
                                    "\xEE\x80\x80"s, "\xEF\xBF\xBF"s, "\xF0\x90\x80\x80"s, "\xF4\x8F\xBF\xBF"s}) {
        EXPECT_TRUE(is_valid_utf8(text)) << text;
        EXPECT_EQ(replace_invalid_utf8(text), text);
    }
}

// Tables 3-8 to 3-11 of the Unicode Standard show these sequences and their replacements.
TEST(Utf8, ReplacesMaximalSubparts) {
    auto times = [](int n) {
        std::string text;
        while (n-- > 0) text += kBad;
        return text;
    };
    EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), times(8) + "A");
    EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), times(8) + "A");
    EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), times(5) + "A" + times(2) + "B");
    EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), times(4) + "A");
    EXPECT_EQ(replace_invalid_utf8("abc\xE2\x82"), "abc" + times(1));
    EXPECT_EQ(replace_invalid_utf8("\xF5\xF8\xC1"), times(3));
}

// A decoder of its own: by code points, after the definition of UTF-8 instead of table 3-7.
bool decodes(const std::string& text) {
    for (size_t i = 0; i < text.size();) {
        const auto lead = static_cast<uint8_t>(text[i]);
        const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
        if (length == 0 || i + length > text.size()) return false;
        uint32_t code = length == 1 ? lead : lead & (0xFFU >> (length + 1));
        for (size_t k = 1; k < length; ++k) {
            const auto byte = static_cast<uint8_t>(text[i + k]);
            if (byte >> 6 != 2) return false;
            code = code << 6 | (byte & 0x3FU);
        }
        const uint32_t shortest[] = {0, 0, 0x80, 0x800, 0x10000};
        if (code < shortest[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
        i += length;
    }
    return true;
}

TEST(Utf8, RandomBytesBecomeValid) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const std::string bytes = "aZ\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF3\xF4\xF5\xFF";
    for (int round = 0; round < 20000; ++round) {
        std::string text(random() % 7, ' ');
        for (char& byte : text) byte = bytes[random() % bytes.size()];
        const std::string replaced = replace_invalid_utf8(text);
        ASSERT_EQ(is_valid_utf8(text), decodes(text));
        ASSERT_TRUE(decodes(replaced));
        ASSERT_EQ(replaced == text, decodes(text));
    }
}

TEST(Utf8, TakesOnlyWhatIsFinished) {
    std::string bytes = "a\xE2\x82";
    std::string text;
    take_finished_utf8(bytes, text);
    EXPECT_EQ(text, "a");
    EXPECT_EQ(bytes, "\xE2\x82");
    bytes += "\xAC!";
    take_finished_utf8(bytes, text);
    EXPECT_EQ(text, "a\xE2\x82\xAC!");
    EXPECT_EQ(bytes, "");
}

}  // namespace
}  // namespace nanolith
