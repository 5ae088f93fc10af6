// The interpreter of chat templates against Jinja as Transformers sets it up (tests/text/jinja_cases.py), its limits,
// and what it knows of where text comes from.
#include "text/jinja/template.h"

#include <gtest/gtest.h>

#include "files/json.h"

namespace nanolith::jinja {
namespace {

// 4 July 2024, 15:06:07.
std::tm a_day() {
    std::tm date{};
    date.tm_year = 124, date.tm_mon = 6, date.tm_mday = 4, date.tm_wday = 4, date.tm_yday = 185;
    date.tm_hour = 15, date.tm_min = 6, date.tm_sec = 7;
    return date;
}

Result<Rendered> render(const std::string& source, const std::string& json, const Limits& limits = {}) {
    NL_ASSIGN(const Template parsed, Template::parse(source));
    Run run(limits);
    NL_ASSIGN(const Value values, parse_json(run, json, "variables"));
    std::vector<std::pair<std::string, Value>> variables;
    for (const auto& [key, value] : values.dict()->members) variables.emplace_back(key.text()->bytes(), value);
    return parsed.render(run, std::move(variables), a_day());
}

TEST(JinjaTemplates, GiveTheTextOfTransformers) {
    const auto json = read_json_object(std::string(NL_TEXT_FIXTURES) + "/templates.json");
    ASSERT_TRUE(json.ok()) << json.error().message;
    const auto& rows = *json->find("rows")->as<Json::Array>();
    size_t num_texts = 0;
    for (const Json& row : rows) {
        const std::string& source = *row.find("template")->as<std::string>();
        SCOPED_TRACE(source);
        const auto rendered = render(source, *row.find("variables")->as<std::string>());
        const auto* const text = row.find("text")->as<std::string>();
        ASSERT_EQ(rendered.ok(), text != nullptr)
            << (rendered.ok() ? rendered->text.bytes() : rendered.error().message);
        if (text == nullptr) continue;
        ++num_texts;
        EXPECT_EQ(rendered->text.bytes(), *text);
    }
    EXPECT_GE(num_texts, 40U);
}

// Every 'x' of a variable and none of the template's own is foreign, whatever the template does.
TEST(JinjaTemplates, KnowWhatIsForeign) {
    for (const std::string expression : {"v",
                                         "v ~ '_'",
                                         "'_' + v + '_'",
                                         "v.strip()",
                                         "v | trim",
                                         "v.replace('y', '_')",
                                         "'_y_'.replace('y', v)",
                                         "v.split('y') | join('_')",
                                         "v[1:]",
                                         "v[::-1]",
                                         "v | upper | lower",
                                         "v | tojson",
                                         "[v, 1] | tojson(indent=2)",
                                         "{'k': v}",
                                         "v | indent(2, true)",
                                         "v * 3",
                                         "v.splitlines()",
                                         "v if v else '_'",
                                         "m(v)",
                                         "v | reverse",
                                         "v | list | join",
                                         "[v] | map('trim') | join",
                                         "d.x | string",
                                         "(d | items | list)[0][0]",
                                         "ns.a",
                                         "s",
                                         "v | title | lower",
                                         "v.lstrip('y')",
                                         "'<b>' | safe + v"}) {
        const auto rendered = render(
            "{% macro m(a) %}_{{ a }}_{% endmacro %}{% set ns = namespace(a=v) %}{% set s %}_{{ v }}{% endset %}{{ " +
                expression + " }}",
            R"({"v": " xxyx\nx ", "d": {"x": "xx"}})");
        ASSERT_TRUE(rendered.ok()) << expression << ": " << rendered.error().message;
        const Text& text = rendered->text;
        size_t num_foreign = 0;
        for (size_t i = 0; i < text.size(); ++i) {
            num_foreign += text.bytes()[i] == 'x' ? 1 : 0;
            if (text.bytes()[i] == 'x') {
                EXPECT_TRUE(text.has_foreign(i, i + 1)) << expression << ": " << text.bytes();
            }
            if (text.bytes()[i] == '_') {
                EXPECT_FALSE(text.has_foreign(i, i + 1)) << expression << ": " << text.bytes();
            }
        }
        EXPECT_GT(num_foreign, 0U) << expression;
    }
}

TEST(JinjaTemplates, SayWhereTheyAreWrong) {
    for (const auto& [source, expected] : {std::pair("a\n{{ 1 + }}", "line 2: expected a value"),
                                           {"{% if x %}", "the template's end: expected {% endif %}"},
                                           {"{% endfor %}", "the tag \"endfor\""},
                                           {"\n\n{% block b %}{% endblock %}", "line 3: the tag \"block\""},
                                           {"{{ 'a }}", "a string does not end"},
                                           {"{{ a) }}", "closes no bracket"},
                                           {"{# a", "a comment does not end"},
                                           {"{{ 1 < 2 < 3 }}", "a chain of comparisons"},
                                           {"a\n\n{{ x | frob }}", "line 3: the filter \"frob\""},
                                           {"{{ 1 is frob }}", "the test \"frob\""},
                                           {"{{ 'a %s' % 1 }}", "the operator %"},
                                           {"{{ x.y }}", "x is undefined"},
                                           {"{% for a in 1 %}{% endfor %}", "can't be iterated over"},
                                           {"{{ raise_exception('no') }}", "refuses the messages: no"}}) {
        const auto rendered = render(source, "{}");
        ASSERT_FALSE(rendered.ok()) << source;
        EXPECT_NE(rendered.error().message.find(expected), std::string::npos) << rendered.error().message;
    }
}

// None of these takes long, much memory or much of the stack.
TEST(JinjaTemplates, StopAtTheirLimits) {
    Limits limits;
    limits.steps = 1'000'000;
    limits.memory = size_t{16} << 20U;
    limits.output = size_t{4} << 20U;
    const auto repeated = [](const std::string& what, size_t count) {
        std::string text;
        for (size_t i = 0; i < count; ++i) text += what;
        return text;
    };
    const std::string loop = "{% for i in range(100000) %}";
    // A list of 2^60 elements, most of them the same ones.
    const std::string doubled =
        "{% set ns = namespace(a=[1]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}";
    for (const std::string& source : std::vector<std::string>{
             loop + loop + "{{ i }}{% endfor %}{% endfor %}",
             "{% set ns = namespace(a='ab') %}" + loop + "{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
             "{% set ns = namespace(a=[1]) %}" + loop + "{% set ns.a = [ns.a, ns.a] %}{% endfor %}",
             doubled + "{{ ns.a }}",
             doubled + "{{ ns.a | tojson }}",
             doubled + "{{ ns.a == ns.a }}",
             std::string("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
             std::string("{{ 'a' * 10000000000 }}"),
             std::string("{{ ('a' * 1000000).replace('', 'b' * 1000) }}"),
             std::string("{{ range(10000000) }}"),
             std::string("{{ 'a' | indent(1000000000) }}"),
             std::string("{{ 9 ** 99 ** 9 }}"),
             std::string("{{ 9223372036854775807 + 1 }}"),
             std::string("{{ 99999999999999999999 }}"),
             loop + "{{ 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz' }}{% endfor %}",
             "{{ " + repeated("(", 100000) + " }}",
             "{{ " + repeated("[", 100000) + " }}",
             "{{ " + repeated("not ", 100000) + "1 }}",
             "{{ " + repeated("-", 100000) + "1 }}",
             "{{ 1" + repeated(" + 1", 100000) + " }}",
             "{{ a" + repeated(".a", 100000) + " }}",
             "{{ a" + repeated("|a", 100000) + " }}",
             repeated("{% if 1 %}", 100000),
             std::string(2'000'000, 'a'),
             "{{ 1 if 1 else " + repeated("1 if 1 else ", 10000) + "1 }}"}) {
        const auto rendered = render(source, "{}", limits);
        ASSERT_FALSE(rendered.ok()) << source.substr(0, 100);
        EXPECT_EQ(rendered.error().status, NL_ERROR_UNSUPPORTED) << rendered.error().message;
    }
    EXPECT_TRUE(render("{% set ns = namespace() %}{% set ns.a = ns %}{% set ns.l = [ns] %}x", "{}", limits).ok());
}

TEST(JinjaTemplates, RefuseOtherJson) {
    for (const std::string json : {"[1", "{\"a\": 18446744073709551615}", "{\"a\": 1}x", "{\"a\": nan}"}) {
        jinja::Run run{Limits{}};
        const auto value = parse_json(run, json, "request");
        ASSERT_FALSE(value.ok()) << json;
        EXPECT_EQ(value.error().status, NL_ERROR_INVALID_ARGUMENT);
        EXPECT_EQ(value.error().message.find("request: "), 0U) << value.error().message;
    }
}

}  // namespace
}  // namespace nanolith::jinja
