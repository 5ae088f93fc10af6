// Renders chat templates for compare_templates.py. Reads, again and again, a line with two lengths in bytes, and then a
// template and a JSON object with its variables; writes a line with "ok" or "error" and a length, and the text.
#include <iostream>
#include <string>

#include "text/jinja/template.h"

using namespace nanolith;

namespace {

Result<std::string> render(const std::string& source, const std::string& json) {
    NL_ASSIGN(const auto chat_template, jinja::Template::parse(source));
    jinja::Run run{jinja::Limits{}};
    NL_ASSIGN(const jinja::Value values, jinja::parse_json(run, json, "variables"));
    std::vector<std::pair<std::string, jinja::Value>> variables;
    for (const auto& [key, value] : values.dict()->members) variables.emplace_back(key.text()->bytes(), value);
    std::tm date{};  // 4 July 2024, 15:06:07
    date.tm_year = 124, date.tm_mon = 6, date.tm_mday = 4, date.tm_wday = 4, date.tm_yday = 185;
    date.tm_hour = 15, date.tm_min = 6, date.tm_sec = 7;
    NL_ASSIGN(jinja::Rendered rendered, chat_template.render(run, std::move(variables), date));
    return rendered.text.bytes();
}

}  // namespace

int main() {
    size_t source_bytes = 0;
    size_t json_bytes = 0;
    while (std::cin >> source_bytes >> json_bytes) {
        std::string source(source_bytes, '\0');
        std::string json(json_bytes, '\0');
        std::cin.get();
        std::cin.read(source.data(), static_cast<std::streamsize>(source_bytes));
        std::cin.read(json.data(), static_cast<std::streamsize>(json_bytes));
        const auto text = render(source, json);
        const std::string& answer = text.ok() ? *text : text.error().message;
        std::cout << (text.ok() ? "ok " : "error ") << answer.size() << "\n" << answer << std::flush;
    }
    return 0;
}
