// Masks against what is accepted token by token, and taking tokens back.
#include "grammar/grammar_limits.h"
#include "unit/grammar/grammar_fixtures.h"

namespace nanolith::grammar::test {
namespace {

struct Subject {
    ConstraintKind kind;
    const char* text;
};

const Subject kSubjects[] = {
    {ConstraintKind::regex, "[a-z]+@[a-z]+\\.(com|org)"},
    {ConstraintKind::regex, "(ab|a.){2,4}\\d?"},
    {ConstraintKind::json_object, ""},
    {ConstraintKind::json_schema, R"({"type":"string","minLength":2,"maxLength":5})"},
    {ConstraintKind::json_schema,
     R"({"type":"array","items":{"type":"string","maxLength":3},"minItems":2,"maxItems":4})"},
    {ConstraintKind::json_schema,
     R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x","yy",3]}}})"},
    {ConstraintKind::json_schema,
     R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]}}}})"},
    {ConstraintKind::ebnf, "root ::= \"(\" root \")\" root | [xy]{0,3}"},
    {ConstraintKind::ebnf, "root ::= a | b\na ::= \"x\" a \"y\" | \"\"\nb ::= \"x\" b \"yy\" | \"\""},
};

// Words of a vocabulary: pieces of texts as JSON has them.
std::vector<std::string> random_words(std::mt19937& random) {
    static constexpr std::string_view kLetters = "ab\"\"{}[],: xy\n()0123.é\\u";
    std::vector<std::string> words = {"\"}", "\":", "\",\"", "},", "]]", "[[", "null", "\"a\":", "xyx", "((", "))"};
    for (int i = 0; i < 80; ++i) {
        std::string word;
        for (uint32_t left = random() % 5 + 1; left > 0; --left) word += kLetters[random() % kLetters.size()];
        words.push_back(word);
    }
    return words;
}

// The definition: a token is allowed exactly where a copy accepts it, and accepting one is accepting its bytes.
TEST(GrammarMatcher, AllowsWhatItAccepts) {
    const uint32_t seed = std::random_device{}();
    std::mt19937 random(seed);
    int32_t steps = 0;
    for (const Subject& subject : kSubjects) {
        const auto table = make_table(random_words(random));
        const auto grammar = compile_text(subject.kind, subject.text, table);
        ASSERT_TRUE(grammar.ok()) << grammar.error().message;
        for (int run = 0; run < 3; ++run) {
            Matcher matcher(*grammar, {kEnd});
            std::string text;
            while (!matcher.over() && text.size() < 80) {
                const auto mask = mask_of(matcher, *table);
                std::vector<int32_t> allowed;
                for (int32_t token = 0; token < table->vocab_size(); ++token) {
                    Matcher copy = matcher;
                    const bool accepted = copy.accept(token);
                    ASSERT_EQ(allows(mask, token), accepted)
                        << subject.text << " after " << text << ": token " << token << ", seed " << seed;
                    if (token != kEnd && accepted) {
                        Matcher by_byte = matcher;
                        for (const char byte : table->bytes[token])
                            ASSERT_TRUE(by_byte.accept(static_cast<uint8_t>(byte))) << "seed " << seed;
                        EXPECT_EQ(by_byte.may_end(), copy.may_end());
                    }
                    if (accepted) allowed.push_back(token);
                }
                ASSERT_FALSE(allowed.empty()) << subject.text << " after " << text << ", seed " << seed;
                EXPECT_EQ(allows(mask, kEnd), matcher.may_end());
                const int32_t token = allowed[random() % allowed.size()];
                ASSERT_TRUE(matcher.accept(token));
                text += table->bytes[token];
                ++steps;
            }
        }
    }
    EXPECT_GT(steps, 30);  // an address alone has five tokens or more, three times
}

// No other byte can stand where one is forced, and the text can't end before it.
TEST(GrammarMatcher, ForcedBytesAreTheOnlyOnes) {
    const uint32_t seed = std::random_device{}();
    std::mt19937 random(seed);
    const auto table = make_table();
    for (const Subject& subject : kSubjects) {
        const auto grammar = compile_text(subject.kind, subject.text, table);
        ASSERT_TRUE(grammar.ok()) << grammar.error().message;
        Matcher matcher(*grammar, {kEnd});
        for (int32_t step = 0; step < 60 && !matcher.over(); ++step) {
            Matcher copy = matcher;
            const std::string forced = matcher.forced_bytes(20);
            for (const char byte : forced) {
                EXPECT_FALSE(copy.may_end()) << subject.text << ", seed " << seed;
                for (int32_t other = 0; other < 256; ++other) {
                    Matcher tried = copy;
                    ASSERT_EQ(tried.accept(other), other == static_cast<uint8_t>(byte))
                        << subject.text << ", seed " << seed;
                }
                ASSERT_TRUE(copy.accept(static_cast<uint8_t>(byte)));
            }
            const auto mask = mask_of(matcher, *table);
            std::vector<int32_t> allowed;
            for (int32_t token = 0; token < table->vocab_size(); ++token)
                if (allows(mask, token)) allowed.push_back(token);
            ASSERT_TRUE(!allowed.empty() && matcher.accept(allowed[random() % allowed.size()]));
        }
    }
    const auto grammar = compile_text(ConstraintKind::regex, "(yes|no), thank you[!.]", table);
    Matcher matcher(*grammar, {kEnd});
    EXPECT_EQ(matcher.forced_bytes(100), "");
    ASSERT_TRUE(matcher.accept('n'));
    EXPECT_EQ(matcher.forced_bytes(100), "o, thank you");
    EXPECT_EQ(matcher.forced_bytes(5), "o, th");
}

TEST(GrammarMatcher, TakesTokensBack) {
    const uint32_t seed = std::random_device{}();
    std::mt19937 random(seed);
    for (const Subject& subject : kSubjects) {
        const auto table = make_table(random_words(random));
        const auto grammar = compile_text(subject.kind, subject.text, table);
        ASSERT_TRUE(grammar.ok());
        Matcher matcher(*grammar, {kEnd});
        std::vector<std::vector<uint32_t>> masks;
        for (int step = 0; step < 200; ++step) {
            const auto mask = mask_of(matcher, *table);
            const auto depth = static_cast<size_t>(matcher.num_tokens());
            if (depth < masks.size()) {
                ASSERT_EQ(mask, masks[depth]) << subject.text << ", seed " << seed;
            } else {
                masks.push_back(mask);
            }
            if (random() % 4 == 0 && depth > 0) {
                matcher.roll_back(static_cast<int32_t>(random() % (depth + 1)));
                continue;
            }
            std::vector<int32_t> allowed;
            for (int32_t token = 0; token < table->vocab_size(); ++token)
                if (allows(mask, token)) allowed.push_back(token);
            if (allowed.empty()) {
                matcher.roll_back(matcher.num_tokens());
                continue;
            }
            masks.resize(depth + 1);
            ASSERT_TRUE(matcher.accept(allowed[random() % allowed.size()]));
        }
    }
}

TEST(GrammarMatcher, GoesAsDeepAsItMayAndAlwaysOut) {
    const auto table = make_table();
    const auto grammar = compile_text(ConstraintKind::json_object, "", table);
    ASSERT_TRUE(grammar.ok());
    Matcher matcher(*grammar, {kEnd});
    // Opens whatever can be opened, until nothing can.
    std::string text;
    const auto take = [&](char byte) {
        if (!matcher.accept(static_cast<uint8_t>(byte))) return false;
        text += byte;
        return true;
    };
    while (take('{') && take('"')) {
        ASSERT_TRUE(take('"') && take(':')) << text;
        ASSERT_LT(text.size(), 5000U);
        const auto mask = mask_of(matcher, *table);
        ASSERT_TRUE(std::ranges::any_of(mask, [](uint32_t word) { return word != 0; })) << text;
    }
    EXPECT_GT(text.size(), 150U);
    // And closes it.
    while (!matcher.may_end()) ASSERT_TRUE(take('}') || take('0')) << text;
    EXPECT_TRUE(matcher.accept(kEnd));
    EXPECT_TRUE(matcher.over());
    EXPECT_FALSE(matcher.accept(kEnd));
    EXPECT_FALSE(matcher.accept('{'));
}

// Where room is scarce every text still comes to its end, whatever is drawn, and masks are subsets of those without.
TEST(GrammarMatcher, EndsWithinItsRoom) {
    const uint32_t seed = std::random_device{}();
    std::mt19937 random(seed);
    for (const Subject& subject : kSubjects) {
        const auto table = make_table(random_words(random));
        const auto grammar = compile_text(subject.kind, subject.text, table);
        ASSERT_TRUE(grammar.ok());
        for (const int64_t room : {24, 40, 100}) {
            Matcher matcher(*grammar, {kEnd});
            std::string text;
            for (int64_t left = room; left > 0 && !matcher.over(); --left) {
                std::vector<uint32_t> mask((static_cast<size_t>(table->vocab_size()) + 31) / 32);
                ASSERT_TRUE(matcher.fill_mask(mask, left)) << subject.text << ": " << text << ", seed " << seed;
                const auto all = mask_of(matcher, *table);
                std::vector<int32_t> allowed;
                for (int32_t token = 0; token < table->vocab_size(); ++token) {
                    if (!allows(mask, token)) continue;
                    ASSERT_TRUE(allows(all, token)) << subject.text << ": " << text << ", seed " << seed;
                    if (token != kEnd) allowed.push_back(token);
                }
                if (allowed.empty()) break;
                const int32_t token = allowed[random() % allowed.size()];
                ASSERT_TRUE(matcher.accept(token));
                text += table->bytes[token];
            }
            EXPECT_TRUE(matcher.may_end()) << subject.text << ": " << text << ", seed " << seed;
        }
    }
}

// Numbers of bytes needed are sums over the whole stack; here they are beyond what 64 bits hold.
TEST(GrammarMatcher, NeedsMoreBytesThanCanBeCounted) {
    std::string schema = R"({"type":"null"})";
    for (int i = 0; i < 20; ++i) schema = R"({"type":"array","minItems":1000000000,"items":)" + schema + "}";
    const auto table = make_table();
    const auto grammar = compile_text(ConstraintKind::json_schema, schema, table);
    ASSERT_TRUE(grammar.ok()) << grammar.error().message;
    Matcher matcher(*grammar, {kEnd});
    std::vector<uint32_t> mask((static_cast<size_t>(table->vocab_size()) + 31) / 32);
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(matcher.fill_mask(mask, 1000));
        ASSERT_TRUE(allows(mask, '['));
        ASSERT_TRUE(matcher.accept('['));
    }
}

TEST(GrammarMatcher, KnowsTheBeginningOfAText) {
    // A tokenizer that drops the space before the first word.
    std::vector<std::string> bytes = {" yes", "yes", " no", "", " "};
    std::vector<std::string> first = {"yes", "yes", "no", "", ""};
    const auto table = TokenTable::make(bytes, first);
    const auto grammar = compile_text(ConstraintKind::ebnf, "root ::= (\"yes\" | \"no\") \" yes\"?", table);
    ASSERT_TRUE(grammar.ok()) << grammar.error().message;
    Matcher matcher(*grammar, {3});
    std::vector<uint32_t> mask(1);
    EXPECT_TRUE(matcher.fill_mask(mask));
    EXPECT_EQ(mask[0], 0b00111U);
    ASSERT_TRUE(matcher.accept(2));
    EXPECT_TRUE(matcher.fill_mask(mask));
    EXPECT_EQ(mask[0], 0b11001U);
    ASSERT_TRUE(matcher.accept(4));
    EXPECT_TRUE(matcher.fill_mask(mask));
    EXPECT_EQ(mask[0], 0b00010U);
}

TEST(GrammarMatcher, SaysWhereNoTokenGoesOn) {
    const auto table = TokenTable::make({"a", "b", ""}, {});
    const auto grammar = compile_text(ConstraintKind::regex, "ac", table);
    ASSERT_TRUE(grammar.ok());
    Matcher matcher(*grammar, {2});
    std::vector<uint32_t> mask(1);
    EXPECT_TRUE(matcher.fill_mask(mask));
    EXPECT_EQ(mask[0], 1U);
    ASSERT_TRUE(matcher.accept(0));
    EXPECT_FALSE(matcher.fill_mask(mask));
    EXPECT_EQ(mask[0], 0U);
}

// A text that can be read in too many ways is refused, not read in some of them.
TEST(GrammarMatcher, RefusesATextWithTooManyReadings) {
    const auto table = TokenTable::make({"a", "b", ""}, {});
    for (const bool too_many : {false, true}) {
        const size_t readings = too_many ? kMaxConfigs + 1 : kMaxConfigs / 2;
        std::string rules = "root ::= \"a\" (r0";
        for (size_t i = 1; i < readings; ++i) rules += " | r" + std::to_string(i);
        rules += ")\n";
        for (size_t i = 0; i < readings; ++i) {
            const std::string name = "r" + std::to_string(i);
            rules.append(name).append(" ::= \"b\" ").append(name).append(" \"").append(name).append("\" | \"b\"\n");
        }
        const auto grammar = compile_text(ConstraintKind::ebnf, rules, table);
        ASSERT_TRUE(grammar.ok()) << grammar.error().message;
        Matcher matcher(*grammar, {2});
        EXPECT_EQ(matcher.accept(0), !too_many);
        EXPECT_EQ(matcher.num_tokens(), too_many ? 0 : 1);
    }
}

}  // namespace
}  // namespace nanolith::grammar::test
