#include "files/json.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "files/json_fields.h"
#include "support/model_files.h"

namespace nanolith {
namespace {

using testing::expect_error;
using testing::fresh_seed;

Result<Json> parse(std::string_view text) {
    return parse_json_object(text, "FILE");
}

// The value of {"v":text}, which the test expects to parse.
Json value_of(const std::string& text) {
    auto json = parse("{\"v\":" + text + "}");
    if (!json.ok()) {
        ADD_FAILURE() << json.error().message;
        return {};
    }
    return std::move(json->as<Json::Object>()->front().value);
}

template <typename T>
void expect_value(const std::string& text, const T& expected) {
    SCOPED_TRACE(text);
    const Json value = value_of(text);
    ASSERT_NE(value.as<T>(), nullptr);
    EXPECT_EQ(*value.as<T>(), expected);
}

// An object whose field "v" holds arrays or objects until `depth` levels are open, the outer object included.
std::string nested(int depth, const std::string& open, const std::string& close) {
    std::string text = "{\"v\":";
    for (int i = 1; i < depth; ++i) text += open;
    if (open.back() == ':') text += "1";
    for (int i = 1; i < depth; ++i) text += close;
    return text + "}";
}

TEST(Json, ReadsEveryKindOfValue) {
    const auto json = parse(" {\"s\": \"x\", \"l\": [true, null, {}], \"f\":\n\tfalse, \"\": 1}\r\n");
    ASSERT_TRUE(json.ok()) << json.error().message;
    ASSERT_NE(json->find("s"), nullptr);
    EXPECT_EQ(*json->find("s")->as<std::string>(), "x");
    EXPECT_EQ(*json->find("f")->as<bool>(), false);
    EXPECT_EQ(*json->find("")->as<uint64_t>(), 1U);
    const auto* list = json->find("l")->as<Json::Array>();
    ASSERT_NE(list, nullptr);
    ASSERT_EQ(list->size(), 3U);
    EXPECT_TRUE(*(*list)[0].as<bool>());
    EXPECT_TRUE((*list)[1].is_null());
    EXPECT_TRUE((*list)[2].as<Json::Object>()->empty());
    for (const char* name : {"S", "sx", "g", "\x7f"}) EXPECT_EQ(json->find(name), nullptr) << name;
    EXPECT_EQ(json->find("s")->find("s"), nullptr);
    EXPECT_EQ(json->find("s")->as<bool>(), nullptr);
    EXPECT_TRUE(parse("{}").ok());
}

TEST(Json, FindsEveryFieldOfALargeObjectWhateverTheirOrder) {
    std::vector<std::string> names;
    for (int i = 0; i < 5000; ++i) names.push_back("layer." + std::to_string(i));
    std::shuffle(names.begin(), names.end(), std::mt19937(fresh_seed()));
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "{\"" : ",\"") + name + "\":\"<" + name + ">\"";
    const auto json = parse(text + "}");
    ASSERT_TRUE(json.ok()) << json.error().message;
    EXPECT_EQ(json->as<Json::Object>()->size(), names.size());
    for (const std::string& name : names) {
        ASSERT_NE(json->find(name), nullptr) << name;
        EXPECT_EQ(*json->find(name)->as<std::string>(), "<" + name + ">");
    }
    EXPECT_EQ(json->find("layer.5000"), nullptr);
}

TEST(Json, NumbersAtTheEdgesKeepTheirValueAndKind) {
    expect_value<uint64_t>("0", 0);
    expect_value<int64_t>("-1", -1);
    expect_value<uint64_t>("9223372036854775807", std::numeric_limits<int64_t>::max());
    expect_value<uint64_t>("9223372036854775808", uint64_t{1} << 63U);
    expect_value<uint64_t>("18446744073709551615", std::numeric_limits<uint64_t>::max());
    expect_value<double>("18446744073709551616", 18446744073709551616.0);
    expect_value<int64_t>("-9223372036854775808", std::numeric_limits<int64_t>::min());
    expect_value<double>("-9223372036854775809", -9223372036854775808.0);
    expect_value<double>("1.0", 1.0);
    expect_value<double>("1e2", 100.0);
    expect_value<double>("1.7976931348623157e308", std::numeric_limits<double>::max());
    for (const char* text : {"1e309", "-1e999", "NaN", "Infinity", "01", "+1", "1.", ".5", "-", "0x1", "1e"}) {
        expect_error(parse(std::string("{\"v\":") + text + "}"), NL_ERROR_BAD_MODEL, {"FILE", "not well-formed"});
    }
}

TEST(Json, FieldsTakeIntegersOfTheirRangeOnly) {
    const auto read = [](const std::string& value) {
        const auto json = parse("{\"v\":" + value + "}");
        return JsonFields(*json, "FILE").integer("v", INT64_MIN, INT64_MAX);
    };
    EXPECT_EQ(*read("9223372036854775807"), INT64_MAX);
    EXPECT_EQ(*read("-9223372036854775808"), INT64_MIN);
    for (const char* value : {"9223372036854775808", "18446744073709551615", "1.0", "\"1\"", "true", "[1]"}) {
        expect_error(read(value), NL_ERROR_BAD_MODEL, {"FILE: v is " + std::string(value), "an integer from"});
    }
    expect_error(read("null"), NL_ERROR_BAD_MODEL, {"v is missing"});
}

TEST(Json, DecodesEscapesAndRefusesWhatIsNotUtf8) {
    expect_value<std::string>(R"("\"\\\/\b\f\n\r\t")", "\"\\/\b\f\n\r\t");
    expect_value<std::string>(R"("\u0041\u00e9\u20AC\ud83d\uDE00")", "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
    expect_value<std::string>("\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
    expect_value<std::string>(R"("a\u0000b")", std::string("a\0b", 3));
    for (const std::string& text : std::vector<std::string>{
             R"("\x")", R"("\u12")", R"("\u12G4")", R"("\ud800")", R"("\ud800\u0041")", R"("\udc00")",  // escapes
             "\"\xFF\"", "\"\x80\"", "\"\xC0\x80\"", "\"\xE2\x82\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"",
             "\"\n\"", "\"\x1f\"", std::string("\"\0\"", 3), "\"a", "'a'"}) {
        expect_error(parse("{\"v\":" + text + "}"), NL_ERROR_BAD_MODEL, {"FILE", "not well-formed"});
        expect_error(parse("{" + text + ":1}"), NL_ERROR_BAD_MODEL, {"FILE", "not well-formed"});
    }
}

TEST(Json, ReadsTheDeepestNestingAndRefusesOneMore) {
    EXPECT_TRUE(parse(nested(kMaxJsonDepth, "[", "]")).ok());
    EXPECT_TRUE(parse(nested(kMaxJsonDepth, "{\"a\":", "}")).ok());
    expect_error(parse(nested(kMaxJsonDepth + 1, "[", "]")), NL_ERROR_BAD_MODEL, {"FILE", "nested", "64"});
    expect_error(parse(nested(kMaxJsonDepth + 1, "{\"a\":", "}")), NL_ERROR_BAD_MODEL, {"FILE", "nested", "64"});
    expect_error(parse(nested(1'000'000, "[", "]")), NL_ERROR_BAD_MODEL, {"nested"});
    // Many side by side are not deep, and brackets in strings are none.
    std::string wide = "{\"v\":[[]";
    for (int i = 0; i < 1000; ++i) wide += ",[[]]";
    EXPECT_TRUE(parse(wide + "]}").ok());
    EXPECT_TRUE(parse("{\"" + std::string(1000, '[') + "\":\"" + std::string(1000, '{') + "\"}").ok());
}

TEST(Json, RefusesAKeyTwiceInOneObject) {
    expect_error(parse(R"({"a":1,"b":2,"a":1})"), NL_ERROR_BAD_MODEL, {"FILE", "\"a\"", "twice"});
    expect_error(parse(R"({"l":[{"x":{"a":1,"\u0061":1}}]})"), NL_ERROR_BAD_MODEL, {"\"a\"", "twice"});
    expect_error(parse(R"({"":1,"":1})"), NL_ERROR_BAD_MODEL, {"\"\"", "twice"});
    EXPECT_TRUE(parse(R"({"a":{"a":1},"b":{"a":1},"A":[{"a":1},{"a":1}]})").ok());
}

TEST(Json, RefusesEveryTruncationAndWhateverFollows) {
    const std::string text =
        R"({"a":[1,-2.5e3,"\u00e9x",true,false,null,{}],"b":{"c":[[]],"d":""},"e":18446744073709551615})";
    ASSERT_TRUE(parse(text).ok());
    for (size_t size = 0; size < text.size(); ++size) {
        expect_error(parse(text.substr(0, size)), NL_ERROR_BAD_MODEL, {"FILE", "not well-formed"});
    }
    for (const std::string& tail :
         std::vector<std::string>{"x", "{}", ",", "}", "]", "0", "\"\"", std::string("\0x", 2), "// comment"}) {
        expect_error(parse(text + tail), NL_ERROR_BAD_MODEL, {"FILE", "not well-formed"});
    }
    EXPECT_TRUE(parse(text + " \n\t\r").ok());
}

TEST(Json, RefusesWhatIsNotAnObjectOrTooLong) {
    for (const char* text : {"[]", "[1,2]", "null", "true", "1", "-2.5", "\"x\""}) {
        expect_error(parse(text), NL_ERROR_BAD_MODEL, {"FILE: the JSON is " + std::string(text), "expected an object"});
    }
    EXPECT_TRUE(parse("{}" + std::string(kMaxJsonBytes - 2, ' ')).ok());
    expect_error(parse("{}" + std::string(kMaxJsonBytes - 1, ' ')), NL_ERROR_BAD_MODEL, {"16777217", "16777216"});
}

TEST(Json, ShowsValuesShortAndPrintable) {
    const std::string text = R"({"a":[1,-2,2.0,0.5,1e+300,true,null],"b":{"c":"x\"\\"}})";
    EXPECT_EQ(show_json(value_of(text)), text);
    EXPECT_EQ(show_json(value_of(R"({ "b" : 1, "a" : [ ] })")), R"({"a":[],"b":1})");
    EXPECT_EQ(show_json(std::string_view("\n\x7f\xC3\xA9\xF0\x9F\x98\x80")), R"("\u000a\u007f\u00e9\ud83d\ude00")");
    EXPECT_EQ(show_json(std::string_view("\xFFz\xC0\x80\xE2\x82")), R"("\ufffdz\ufffd\ufffd\ufffd\ufffd")");
    EXPECT_EQ(show_json(std::string_view(std::string(78, 'x'))), '"' + std::string(78, 'x') + '"');
    EXPECT_EQ(show_json(std::string_view(std::string(79, 'x'))), '"' + std::string(79, 'x') + "...");
    EXPECT_EQ(show_json(value_of("[" + std::string(1000, ' ') + nested(40, "[", "]") + "]")).size(), 83U);
    std::string numbers = "[0";
    for (int i = 0; i < 100'000; ++i) numbers += ",1";
    EXPECT_EQ(show_json(value_of(numbers + "]")).size(), 83U);
}

}  // namespace
}  // namespace nanolith
