// Where the system's Unicode tables and those of the tokenizers package differ: for characters that are newer than one
// of them. docs/RELIABILITY.md says so; here is what may come out, and nothing else.
#include "text/unicode.h"

#include <gtest/gtest.h>

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
    std::u32string_view other;    // what other versions of Unicode do
};

template <typename Change>
void expect_one_of_both(const Case& one, Change&& change) {
    const std::string changed = change(text_of(one.text));
    EXPECT_TRUE(changed == text_of(one.package) || changed == text_of(one.other)) << text_of(one.text) << changed;
}

// The package's normal forms are those of Unicode 9.
TEST(Unicode, DecomposesNewerCharactersAsTheSystemDoes) {
    for (const Case& one : {Case{U"\u32FF", U"\u32FF", U"\u4EE4\u548C"}, Case{U"\uA7F2", U"\uA7F2", U"C"},
                            Case{U"\uAB69", U"\uAB69", U"\u028D"}, Case{U"\U00010781", U"\U00010781", U"\u02D0"},
                            Case{U"\U0001F16C", U"\U0001F16C", U"MR"}, Case{U"\U0001FBF0", U"\U0001FBF0", U"0"}})
        expect_one_of_both(one, [](const std::string& text) { return normalize_unicode(text, NormalForm::nfkd); });
    expect_one_of_both({U"\U00011938", U"\U00011938", U"\U00011935\U00011930"},
                       [](const std::string& text) { return normalize_unicode(text, NormalForm::nfd); });
}

// The package's lower case is that of Unicode 17.
TEST(Unicode, LowersNewerCharactersAsTheSystemDoes) {
    for (const Case& one :
         {Case{U"\u1C89", U"\u1C8A", U"\u1C89"}, Case{U"\uA7CB", U"\u0264", U"\uA7CB"},
          Case{U"\U00010D50", U"\U00010D70", U"\U00010D50"}, Case{U"\U00016EA0", U"\U00016EBB", U"\U00016EA0"}})
        expect_one_of_both(one, lower_case);
}

// These come from the package itself, whatever the system knows: U+07FD is a mark since Unicode 11, U+0890 a format
// character since 14.
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
