// JSON schemas and EBNF: what is let through, and what is refused and how.
#include <limits>

#include "grammar/json_value.h"
#include "unit/grammar/grammar_fixtures.h"

namespace nanolith::grammar::test {
namespace {

struct Texts {
    const char* schema;
    std::vector<std::string> good, bad;
};

TEST(GrammarSchema, LetsThroughWhatSatisfies) {
    const Texts cases[] = {
        {R"({"type":"integer"})", {"0", "-7", "12"}, {"-0", "01", "1.0", "\"1\"", "", "1e3"}},
        {R"({"type":"number"})", {"0", "-7.25", "1e5", "-0.5E-2"}, {"01", ".5", "1.", "+1", "NaN"}},
        {R"({"type":"integer","minimum":-12,"maximum":105})",
         {"-12", "-9", "0", "99", "100", "105"},
         {"-13", "106", "-100", "1000"}},
        {R"({"type":"integer","exclusiveMinimum":1.5,"exclusiveMaximum":4})", {"2", "3"}, {"1", "4"}},
        {R"({"type":"number","minimum":-1.5,"exclusiveMaximum":2.25})",
         {"-1.5", "-1.49", "0", "2.2", "2.249", "2"},
         {"-1.51", "2.25", "2.250", "3", "-2"}},
        {R"({"type":"integer","multipleOf":7})", {"0", "7", "-14", "700"}, {"1", "-8", "701"}},
        {R"({"type":"string","minLength":2,"maxLength":3})",
         {R"("ab")", R"("é😀x")", R"("\n\"")", R"("\ud83d\ude00a")"},
         {R"("a")", R"("abcd")", "\"a\nb\"", R"("\ud83d")"}},
        {R"({"type":"string","pattern":"^a.c$"})", {R"("abc")", R"("a\"c")", R"("a\\c")"}, {R"("ac")", R"("a\nc")"}},
        {R"({"type":"string","pattern":"b+"})", {R"("abc")", R"("b")"}, {R"("ac")"}},
        {R"({"type":"string","pattern":"^[ab]*$","minLength":2,"maxLength":3})",
         {R"("ab")", R"("bbb")"},
         {R"("a")", R"("abab")", R"("cc")"}},
        {R"({"type":"string","format":"date"})", {R"("2024-02-28")"}, {R"("2024-13-01")", R"("24-01-01")"}},
        {R"({"enum":[1,"a",null,{"b":[true]}]})",
         {"1", "\"a\"", "null", "{\"b\":[true]}", "{ \"b\": [ true ] }"},
         {"2", "a", "{}"}},
        {R"({"type":"string","enum":["a",1,"bb"],"maxLength":1})", {"\"a\""}, {"1", "\"bb\""}},
        {R"({"const":"x\"y"})", {R"("x\"y")"}, {R"("xy")"}},
        {R"({"type":["null","boolean"]})", {"null", "true", "false"}, {"0"}},
        {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
         {"[1]", "[1,2,3]", "[ 1, 2 ]", "[\n  1,\n  2\n]"},
         {"[]", "[1,2,3,4]", "[\"a\"]", "[1,]"}},
        {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"null"}],"items":{"type":"string"}})",
         {"[]", "[1]", "[1,null]", "[1,null,\"a\",\"b\"]"},
         {"[null]", "[1,\"a\"]", "[1,null,2]"}},
        {R"({"type":"array","prefixItems":[{"type":"integer"}],"items":false,"minItems":1})", {"[1]"}, {"[]", "[1,2]"}},
        {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"}},"required":["b"]})",
         {R"({"b":null})", R"({"a":1,"b":null})", R"({ "a": 1, "b": null })"},
         {R"({})", R"({"a":1})", R"({"b":null,"c":1})", R"({"b":null,})", R"({"b":1})"}},
        {R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"null"}})",
         {R"({})", R"({"a":1,"b":null,"c":null})", R"({"b":null})"},
         {R"({"b":1})", R"({"b":null,"a":null})", R"({"a":null})"}},
        {R"({"type":"object","patternProperties":{"^x":{"type":"null"}},"additionalProperties":false,"minProperties":1})",
         {R"({"x":null})", R"({"xy":null,"xz":null})"},
         {R"({})", R"({"y":null})", R"({"x":1})"}},
        {R"({"type":"object","propertyNames":{"pattern":"^[a-c]+$"},"additionalProperties":{"type":"boolean"},"maxProperties":2})",
         {R"({})", R"({"abc":true})", R"({"a":true,"b":false})"},
         {R"({"d":true})", R"({"a":true,"b":false,"c":true})"}},
        {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":2,"maxProperties":2})",
         {R"({"a":1,"b":2})", R"({"a":1,"c":2})", R"({"b":1,"c":2})"},
         {R"({"a":1})", R"({"a":1,"b":2,"c":3})"}},
        {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"minimum":10},"b":{"type":"null"}}}]})",
         {R"({"a":10})", R"({"a":11,"b":null})"},
         {R"({"a":9})", R"({})"}},
        {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})", {"5", "\"a\""}, {"\"ab\"", "null"}},
        {R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"v":{"type":"integer"}},"required":["k","v"]},{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]})",
         {R"({"k":"a","v":1})", R"({"k":"b"})"},
         {R"({"k":"a"})", R"({"k":"b","v":1})", R"({"k":"c"})"}},
        {R"({"oneOf":[{"type":"object","properties":{"a":{}},"required":["a"]},{"type":"object","properties":{"b":{}},"required":["b"]}]})",
         {R"({"a":1})", R"({"b":1})"},
         {R"({})", R"({"a":1,"b":1})"}},
        {R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}},"additionalProperties":false}}})",
         {R"({})", R"({"next":{"next":{}}})"},
         {R"({"next":1})"}},
        {R"({"properties":{"a":{"$ref":"#/properties/b~1c"},"b/c":{"type":"null"}}})",
         {R"({"a":null})"},
         {R"({"a":1})", "1"}},
        {R"({"enum":[{"a":1},{"a":[]}],"$ref":"#/$defs/t","$defs":{"t":{"properties":{"a":{"type":"integer"}},"anyOf":[{"type":"null"},{"type":"object"}]}}})",
         {R"({"a":1})"},
         {R"({"a":[]})", "{}"}},
        {R"({})", {"1", "{}", "[[]]", "\"x\"", R"({"a":{"b":[1,2]}})"}, {"", "x", "{", "{1:2}"}},
        {R"(true)", {"1"}, {"x"}},
    };
    for (const Texts& one : cases) {
        const auto grammar = compile_text(ConstraintKind::json_schema, one.schema);
        ASSERT_TRUE(grammar.ok()) << one.schema << ": " << grammar.error().message;
        for (const std::string& text : one.good) EXPECT_TRUE(accepts(*grammar, text)) << one.schema << ": " << text;
        for (const std::string& text : one.bad) EXPECT_FALSE(accepts(*grammar, text)) << one.schema << ": " << text;
    }
}

struct Refused {
    const char* text;
    nl_status status;
    const char* message;
};

void expect_refused(ConstraintKind kind, const Refused& one) {
    const auto grammar = compile_text(kind, one.text);
    ASSERT_FALSE(grammar.ok()) << one.text;
    EXPECT_EQ(grammar.error().status, one.status) << one.text << ": " << grammar.error().message;
    EXPECT_NE(grammar.error().message.find(one.message), std::string::npos)
        << one.text << ": " << grammar.error().message;
}

TEST(GrammarSchema, RefusesByPlaceAndKeyword) {
    const Refused cases[] = {
        {"{", NL_ERROR_INVALID_ARGUMENT, "byte 1: expected a name"},
        {"[]", NL_ERROR_INVALID_ARGUMENT, "byte 0, the root: it is no schema: expected an object"},
        {R"({"type":"object","type":"null"})", NL_ERROR_INVALID_ARGUMENT, "byte 17: this name stands twice"},
        {R"({"type":"strng"})", NL_ERROR_INVALID_ARGUMENT, "byte 8, the root: type: it is \"strng\": expected null"},
        {R"({"properties":{"a/b":{"uniqueItems":true}}})", NL_ERROR_UNSUPPORTED, "/properties/a~1b: uniqueItems: "},
        {R"({"not":{}})", NL_ERROR_UNSUPPORTED, "byte 7, the root: not: this keyword is not supported"},
        {R"({"items":{"if":{}}})", NL_ERROR_UNSUPPORTED, "/items: if: "},
        {R"({"minlength":3})", NL_ERROR_UNSUPPORTED, "minlength"},
        {R"({"$defs":{"unused":{"contains":{}}}})", NL_ERROR_UNSUPPORTED, "/$defs/unused: contains: "},
        {R"({"minLength":-1})", NL_ERROR_INVALID_ARGUMENT, "minLength: expected an integer from 0"},
        {R"({"multipleOf":0.5})", NL_ERROR_UNSUPPORTED, "multipleOf: "},
        {R"({"multipleOf":0})", NL_ERROR_INVALID_ARGUMENT, "multipleOf: expected a number above 0"},
        {R"x({"type":"string","pattern":"a(?=b)"})x", NL_ERROR_UNSUPPORTED, "pattern: byte 1: '(?='"},
        {R"({"type":"string","format":"regex"})", NL_ERROR_UNSUPPORTED, "format: 'regex'"},
        {R"({"$ref":"#/$defs/x"})", NL_ERROR_INVALID_ARGUMENT, "$ref: there is no #/$defs/x"},
        {R"({"$ref":"http://example.com/x"})", NL_ERROR_UNSUPPORTED, "$ref: only references within the schema"},
        {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", NL_ERROR_UNSUPPORTED,
         "oneOf: branches 0 and 1 may hold at once"},
        {R"({"oneOf":[{"type":"string","pattern":"^a"},{"type":"string","pattern":"b$"}]})", NL_ERROR_UNSUPPORTED,
         "oneOf"},
        {R"({"type":"integer","minimum":5,"maximum":4})", NL_ERROR_INVALID_ARGUMENT, "no text satisfies it"},
        {R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"required":["n"]}}})",
         NL_ERROR_INVALID_ARGUMENT, "no text satisfies it"},
        {"false", NL_ERROR_INVALID_ARGUMENT, "no text satisfies it"},
    };
    for (const Refused& one : cases) expect_refused(ConstraintKind::json_schema, one);
}

// Schemas that exclude each other are told apart, by strings, numbers, lengths and properties.
TEST(GrammarSchema, FindsBranchesThatExcludeEachOther) {
    for (const char* schema : {
             R"({"oneOf":[{"type":"string","pattern":"^a"},{"type":"string","pattern":"^b"}]})",
             R"({"oneOf":[{"type":"integer","maximum":3},{"type":"number","minimum":3.5}]})",
             R"({"oneOf":[{"type":"integer","multipleOf":4},{"const":7}]})",
             R"({"oneOf":[{"type":"array","maxItems":1},{"type":"array","minItems":2}]})",
             R"({"oneOf":[{"type":"string","maxLength":2},{"type":"string","minLength":3}]})",
             R"({"oneOf":[{"enum":["a","b"]},{"enum":["c"]},{"type":"null"}]})",
         }) {
        const auto grammar = compile_text(ConstraintKind::json_schema, schema);
        EXPECT_TRUE(grammar.ok()) << schema << ": " << grammar.error().message;
    }
}

TEST(GrammarEbnf, LetsThroughWhatItDerives) {
    const auto grammar = compile_text(ConstraintKind::ebnf,
                                      "# sums\n"
                                      "root ::= term ( \"+\" term )*   # of terms\n"
                                      "term ::= \"(\" root \")\"\n"
                                      "       | [0-9]{1,3} | \"\\x41\\u00e9\"\n");
    ASSERT_TRUE(grammar.ok()) << grammar.error().message;
    for (const char* text : {"1", "12+3", "((1))+(2+3)", "Aé"}) EXPECT_TRUE(accepts(*grammar, text)) << text;
    for (const char* text : {"", "1+", "(1", "1234", "1 + 2"}) EXPECT_FALSE(accepts(*grammar, text)) << text;
}

TEST(GrammarEbnf, RefusesByPlaceAndRule) {
    const Refused cases[] = {
        {"root ::= a", NL_ERROR_INVALID_ARGUMENT, "byte 9: there is no rule 'a'"},
        {"a ::= \"x\"", NL_ERROR_INVALID_ARGUMENT, "there is no rule 'root'"},
        {"root ::= \"x\nroot2 ::= \"y\"", NL_ERROR_INVALID_ARGUMENT, "rule 'root': a text has no end"},
        {"root ::= \"x\"\nroot ::= \"y\"", NL_ERROR_INVALID_ARGUMENT, "byte 13: the rule 'root' is there twice"},
        {"root ::= (\"x\"", NL_ERROR_INVALID_ARGUMENT, "a group is not closed"},
        {"root ::= [a", NL_ERROR_INVALID_ARGUMENT, "byte 9: rule 'root': a set of characters is not closed"},
        {"root ::= root \"x\" | \"y\"", NL_ERROR_UNSUPPORTED, "left recursion"},
        {"root ::= a \"x\"\na ::= b?\nb ::= root", NL_ERROR_UNSUPPORTED, "left recursion"},
        {"root ::= \"x\" root", NL_ERROR_INVALID_ARGUMENT, "no text satisfies it"},
        {"root = \"x\"", NL_ERROR_INVALID_ARGUMENT, "byte 0: expected a rule"},
        {"root ::= ((((\"a\"{1000}){1000}){1000}){1000})", NL_ERROR_UNSUPPORTED, "states"},
    };
    for (const Refused& one : cases) expect_refused(ConstraintKind::ebnf, one);
}

std::string repeated(const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
}

// What would take hours, or a deep stack, is refused or done soon.
TEST(GrammarLimits, HoldForHostileConstraints) {
    const std::string nested = "root ::= " + repeated("(", 60) + "\"a\"" + repeated(")+", 60);
    expect_refused(ConstraintKind::ebnf, {nested.c_str(), NL_ERROR_UNSUPPORTED, "byte "});
    const std::string comment = "root ::= (#" + repeated("x", 100000) + "\n\"a\"){5000}";
    expect_refused(ConstraintKind::ebnf, {comment.c_str(), NL_ERROR_UNSUPPORTED, "rule 'root': its repetitions need"});

    const auto many = compile_text(ConstraintKind::regex, "a{0,3000}b*");
    ASSERT_TRUE(many.ok()) << many.error().message;
    EXPECT_TRUE(accepts(*many, repeated("a", 3000) + "b"));
    EXPECT_FALSE(accepts(*many, repeated("a", 3001)));

    constexpr int kLinks = 2000;
    std::string chain = R"({"$ref":"#/$defs/d0","$defs":{)";
    for (int i = 0; i < kLinks; ++i)
        chain += "\"d" + std::to_string(i) + R"(":{"type":"array","items":{"$ref":"#/$defs/d)" + std::to_string(i + 1) +
                 "\"}},";
    chain += "\"d" + std::to_string(kLinks) + R"(":{"type":"null"}}})";
    const auto deep = compile_text(ConstraintKind::json_schema, chain);
    ASSERT_TRUE(deep.ok()) << deep.error().message;
    EXPECT_TRUE(accepts(*deep, "[[],[[]]]"));
    EXPECT_FALSE(accepts(*deep, "[null]"));

    std::string wide = R"({"properties":{)";
    for (int i = 0; i < 30000; ++i) wide += "\"n" + std::to_string(i) + "\":{},";
    wide += R"("last":{}}})";
    expect_refused(ConstraintKind::json_schema, {wide.c_str(), NL_ERROR_UNSUPPORTED, "states"});
    expect_refused(ConstraintKind::json_schema,
                   {(R"({"allOf":[)" + repeated("{},", 30000) + R"({"type":"strng"}]})").c_str(),
                    NL_ERROR_INVALID_ARGUMENT, "strng"});
    const auto all =
        compile_text(ConstraintKind::json_schema, R"({"allOf":[)" + repeated("{},", 30000) + R"({"type":"null"}]})");
    ASSERT_TRUE(all.ok()) << all.error().message;
    EXPECT_TRUE(accepts(*all, "null"));
}

// The decimal point of JSON is a point, whatever the program's locale says.
TEST(GrammarSchema, ReadsNumbersExactly) {
    const auto number = [](const char* text) { return parse_json(text)->number(); };
    EXPECT_EQ(number("-2.5e-1"), -0.25);
    EXPECT_EQ(number("1e999"), std::numeric_limits<double>::infinity());
    EXPECT_EQ(number("-1e999"), -std::numeric_limits<double>::infinity());
    EXPECT_EQ(number("1e-999"), 0.0);
    EXPECT_FALSE(parse_json("1.5")->is_integer());
    EXPECT_TRUE(parse_json("15e-1")->is(JsonValue::Kind::number));
}

TEST(GrammarChoices, AreExactlyThese) {
    const auto grammar =
        compile(Constraint{.kind = ConstraintKind::choices, .choices = {"yes", "yes, please", "no"}}, make_table());
    ASSERT_TRUE(grammar.ok());
    for (const char* text : {"yes", "yes, please", "no"}) EXPECT_TRUE(accepts(*grammar, text));
    for (const char* text : {"", "y", "yes,", "nope"}) EXPECT_FALSE(accepts(*grammar, text));
}

}  // namespace
}  // namespace nanolith::grammar::test
