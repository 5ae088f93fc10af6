// Regular expressions against std::regex and by hand.
#include <regex>

#include "unit/grammar/grammar_fixtures.h"

namespace nanolith::grammar::test {
namespace {

std::string random_text(std::mt19937& random, std::string_view letters, int longest) {
    std::string text;
    const auto length = static_cast<int>(random() % static_cast<uint32_t>(longest + 1));
    for (int i = 0; i < length; ++i) text += letters[random() % letters.size()];
    return text;
}

// A random expression over a few letters.
std::string random_expression(std::mt19937& random, int depth) {
    static constexpr const char* kAtoms[] = {"a", "b", "c", "[ab]", "[^a]", ".", "\\d", "\\w", "1", "[a-c1]"};
    static constexpr const char* kQuantifiers[] = {"", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}"};
    std::string text;
    const auto parts = static_cast<int>(random() % 3) + 1;
    for (int i = 0; i < parts; ++i) {
        if (i > 0 && random() % 4 == 0) text += '|';
        const bool nested = depth > 0 && random() % 3 == 0;
        text += nested ? "(" + random_expression(random, depth - 1) + ")" : kAtoms[random() % std::size(kAtoms)];
        text += kQuantifiers[random() % std::size(kQuantifiers)];
    }
    return text;
}

TEST(GrammarRegex, AgreesWithTheStandardLibrary) {
    const uint32_t seed = std::random_device{}();
    std::mt19937 random(seed);
    const auto table = make_table();
    int matched = 0;
    int refused = 0;
    for (int i = 0; i < 150; ++i) {
        // One level of groups: with more, std::regex, which tries one way after the other, may take minutes.
        const std::string expression = random_expression(random, 1);
        const auto grammar = compile_text(ConstraintKind::regex, expression, table);
        if (!grammar.ok() && grammar.error().status == NL_ERROR_UNSUPPORTED && ++refused <= 2) continue;  // too long
        ASSERT_TRUE(grammar.ok()) << expression << ": " << grammar.error().message << ", seed " << seed;
        const std::regex reference(expression);
        for (int j = 0; j < 60; ++j) {
            const std::string text = random_text(random, "abc1", 6);
            const bool expected = std::regex_match(text, reference);
            matched += expected ? 1 : 0;
            ASSERT_EQ(accepts(*grammar, text), expected) << expression << " and " << text << ", seed " << seed;
        }
    }
    EXPECT_GT(matched, 100) << "seed " << seed;
}

TEST(GrammarRegex, KnowsUnicode) {
    struct Case {
        const char* expression;
        std::vector<std::string> good, bad;
    };
    const Case cases[] = {
        {"[а-я]+", {"привет"}, {"hello", "Привет", "\xD0"}},
        {".", {"é", "€", "😀", "a"}, {"", "\n", "ab", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80"}},
        {"[^a]", {"b", "é", "😀"}, {"a", "\x80"}},
        {"\\u00e9\\x41\\u{1F600}", {"éA😀"}, {"eA😀"}},
        {"\\ud83d\\ude00", {"😀"}, {"x"}},
        {"[\\u0800-\\uFFFF]", {"ࠀ", "€", "\xEE\x80\x80", "\xEF\xBF\xBF"}, {"é", "😀", "\xED\xA0\x80"}},
        {"\\S", {"a", "é"}, {" ", "\xC2\xA0", "\xE3\x80\x80"}},
        {"a{0}b", {"b"}, {"ab"}},
        {"^(?:x|y)$", {"x", "y"}, {"", "xy"}},
        {"(?<name>a)(?P<n>b)*?", {"a", "ab", "abb"}, {"b"}},
        {"[]a]?", {"a"}, {"]"}},
    };
    for (const Case& one : cases) {
        const auto grammar = compile_text(ConstraintKind::regex, one.expression);
        if (std::string_view(one.expression).starts_with("[]")) {
            EXPECT_FALSE(grammar.ok() && accepts(*grammar, "]"));
            continue;
        }
        ASSERT_TRUE(grammar.ok()) << one.expression << ": " << grammar.error().message;
        for (const std::string& text : one.good) EXPECT_TRUE(accepts(*grammar, text)) << one.expression << " " << text;
        for (const std::string& text : one.bad) EXPECT_FALSE(accepts(*grammar, text)) << one.expression << " " << text;
    }
}

TEST(GrammarRegex, RefusesByPlaceAndWord) {
    struct Case {
        const char* expression;
        nl_status status;
        const char* message;
    };
    const Case cases[] = {
        {"ab(c", NL_ERROR_INVALID_ARGUMENT, "byte 4: a group is not closed"},
        {"ab)c", NL_ERROR_INVALID_ARGUMENT, "byte 2: ')' closes no group"},
        {"*a", NL_ERROR_INVALID_ARGUMENT, "byte 0: there is nothing to repeat"},
        {"a**", NL_ERROR_INVALID_ARGUMENT, "byte 2: a repetition is repeated"},
        {"a++", NL_ERROR_UNSUPPORTED, "byte 2: a possessive repetition"},
        {"a{3,2}", NL_ERROR_INVALID_ARGUMENT, "most is less than its least"},
        {"a{99999}", NL_ERROR_UNSUPPORTED, "repetitions are not supported"},
        {"[a", NL_ERROR_INVALID_ARGUMENT, "byte 2: a set of characters is not closed"},
        {"[z-a]", NL_ERROR_INVALID_ARGUMENT, "byte 2: a range of characters"},
        {"(?=a)b", NL_ERROR_UNSUPPORTED, "byte 0: '(?='"},
        {"x(?<!a)b", NL_ERROR_UNSUPPORTED, "byte 1: '(?<!'"},
        {"(a)\\1", NL_ERROR_UNSUPPORTED, "byte 3: '\\1'"},
        {"\\bword", NL_ERROR_UNSUPPORTED, "byte 0: '\\b'"},
        {"a^b", NL_ERROR_UNSUPPORTED, "byte 1: '^'"},
        {"\\p{L}", NL_ERROR_UNSUPPORTED, "byte 0: '\\p'"},
        {"a\\", NL_ERROR_INVALID_ARGUMENT, "a backslash stands at the end"},
        {"\\ud800", NL_ERROR_INVALID_ARGUMENT, "no Unicode character"},
        {"\xFF", NL_ERROR_INVALID_ARGUMENT, "no valid UTF-8"},
        {"((((a{1000}){1000}){1000}){1000})", NL_ERROR_UNSUPPORTED, "states"},
        {"(a|b)*a(a|b){40}", NL_ERROR_UNSUPPORTED, "states"},
    };
    for (const Case& one : cases) {
        const auto grammar = compile_text(ConstraintKind::regex, one.expression);
        ASSERT_FALSE(grammar.ok()) << one.expression;
        EXPECT_EQ(grammar.error().status, one.status) << one.expression << ": " << grammar.error().message;
        EXPECT_NE(grammar.error().message.find(one.message), std::string::npos)
            << one.expression << ": " << grammar.error().message;
        EXPECT_EQ(grammar.error().message.find("regular expression: "), 0U);
    }
    const std::string deep(200, '(');
    EXPECT_EQ(compile_text(ConstraintKind::regex, deep).error().status, NL_ERROR_UNSUPPORTED);
}

}  // namespace
}  // namespace nanolith::grammar::test
