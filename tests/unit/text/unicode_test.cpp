// What happens to characters that were added to Unicode after the version that the tokenizers package knows, or after
// the version that the system's libraries (utf8proc, PCRE2) know.
#include "text/unicode.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/character_sets.h"

namespace nanolith {
namespace {

std::string text_of(std::u32string_view characters) {
    std::string text;
    for (const char32_t character : characters) append_character(text, character);
    return text;
}

struct Case {
    std::u32string_view text;
    std::u32string_view package;  // what the package 0.23.3 makes of it
};

// A character that the text's end cuts off takes the bytes that are there.
TEST(Unicode, ReadsNoByteBehindTheText) {
    const std::string text = "\xF0\x9F\x98\x80";
    for (size_t size = 1; size <= text.size(); ++size) {
        size_t length = 0;
        const std::vector<char> copy(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size));
        first_character({copy.data(), copy.size()}, length);
        EXPECT_EQ(length, size);
    }
}

// The package's normal forms are those of Unicode 9; newer versions decompose all of these, or put their marks in
// another order.
TEST(Unicode, LeavesNewerCharactersInNormalFormsAsTheyAre) {
    for (const auto text : {U"\u32FF", U"\uA7F2", U"\uAB69", U"\U00010781", U"\U0001F16C", U"\U0001FBF0"})
        EXPECT_EQ(normalize_unicode(text_of(text), NormalForm::nfkd), text_of(text));
    for (const auto text : {U"\U00011938", U"a\u07FD\u0334", U"a\u1ABF\u0323"})
        EXPECT_EQ(normalize_unicode(text_of(text), NormalForm::nfd), text_of(text));
    for (const auto text : {U"\U00011935\U00011930", U"a\u1ABF\u0301"})
        EXPECT_EQ(normalize_unicode(text_of(text), NormalForm::nfc), text_of(text));
    EXPECT_EQ(normalize_unicode(text_of(U"e\u0301\U00011935e\u0301"), NormalForm::nfc),
              text_of(U"\u00E9\U00011935\u00E9"));
}

// The package's lower case is that of Unicode 17, the library's that of the system's utf8proc: a newer character is
// lowered as the package does it or stays, and nothing else. docs/RELIABILITY.md says so.
TEST(Unicode, LowersNewerCharactersOrNot) {
    for (const Case& one : {Case{U"\u1C89", U"\u1C8A"}, Case{U"\uA7CB", U"\u0264"}, Case{U"\U00010D50", U"\U00010D70"},
                            Case{U"\U00016EA0", U"\U00016EBB"}}) {
        const std::string lower = lower_case(text_of(one.text));
        EXPECT_TRUE(lower == text_of(one.package) || lower == text_of(one.text)) << lower;
    }
}

// The sets of characters are those of the tokenizers package, whose Unicode version is 9. U+07FD became a mark in
// Unicode 11 and U+0890 a format character in Unicode 14: the package has neither, and so must the library, even where
// the system's Unicode libraries are newer.
TEST(Unicode, HasThePackagesMarks) {
    EXPECT_TRUE(is_nonspacing_mark(0x301));
    EXPECT_TRUE(is_mark(0x903));
    EXPECT_FALSE(is_nonspacing_mark(0x903));
    EXPECT_FALSE(is_mark(0x7FD));
    EXPECT_FALSE(is_nonspacing_mark(0x7FD));
    EXPECT_TRUE(is_removed_by_bert(0xAD));
    EXPECT_TRUE(is_removed_by_bert(0xFFFD));
    EXPECT_FALSE(is_removed_by_bert('\n'));
    EXPECT_FALSE(is_removed_by_bert(0x890));
}

}  // namespace
}  // namespace nanolith
