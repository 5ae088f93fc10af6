#include "text/chat_request.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "files/json.h"
#include "text/tokenizer.h"

namespace nanolith {
namespace {

Error wrong(const std::string& what, const char* expected) {
    return fail(NL_ERROR_INVALID_ARGUMENT, "request: ", what, ": expected ", expected);
}

// Two digits or four at `at`, between bounds; -1 where there are none.
int digits_at(std::string_view text, size_t at, size_t count, int low, int high) {
    int number = -1;
    if (text.size() < at + count) return -1;
    const char* const begin = text.data() + at;
    const auto [end, error] = std::from_chars(begin, begin + count, number);
    return error == std::errc() && end == begin + count && number >= low && number <= high ? number : -1;
}

// "2024-07-26" or "2024-07-26T15:06:07".
Result<std::tm> read_date(std::string_view text) {
    using namespace std::chrono;
    std::tm date{};
    const int year_number = digits_at(text, 0, 4, 1, 9999);
    const int month_number = digits_at(text, 5, 2, 1, 12);
    const int day_number = digits_at(text, 8, 2, 1, 31);
    const bool timed = text.size() == 19;
    bool good = (text.size() == 10 || timed) && year_number > 0 && month_number > 0 && day_number > 0 &&
                text[4] == '-' && text[7] == '-';
    if (timed) {
        date.tm_hour = digits_at(text, 11, 2, 0, 23);
        date.tm_min = digits_at(text, 14, 2, 0, 59);
        date.tm_sec = digits_at(text, 17, 2, 0, 59);
        good = good && text[10] == 'T' && text[13] == ':' && text[16] == ':' && date.tm_hour >= 0 && date.tm_min >= 0 &&
               date.tm_sec >= 0;
    }
    const year_month_day day{year{year_number}, month{static_cast<unsigned>(month_number)},
                             std::chrono::day{static_cast<unsigned>(day_number)}};
    if (!good || !day.ok())
        return wrong("date is " + show_json(text), "a date as \"2024-07-26\" or \"2024-07-26T15:06:07\"");
    date.tm_year = year_number - 1900;
    date.tm_mon = month_number - 1;
    date.tm_mday = day_number;
    date.tm_wday = static_cast<int>(weekday(sys_days(day)).c_encoding());
    date.tm_yday = static_cast<int>((sys_days(day) - sys_days(day.year() / January / 1)).count());
    return date;
}

// The texts of a content: itself, or those of its parts.
void collect_texts(const jinja::Value& content, std::vector<std::string_view>& texts) {
    if (const jinja::Text* text = content.text()) texts.push_back(text->view());
    if (const jinja::List* list = content.list()) {
        for (const jinja::Value& part : list->items) collect_texts(part, texts);
    }
    if (const jinja::Dict* dict = content.dict()) {
        for (const auto& [key, value] : dict->members) collect_texts(value, texts);
    }
}

Result<void> read_messages(const jinja::Value& value, ChatRequest& request) {
    if (value.list() == nullptr || value.list()->items.empty())
        return wrong("messages is no list, or empty", "a list of at least one message");
    for (size_t i = 0; i < value.list()->items.size(); ++i) {
        const jinja::Value& message = value.list()->items[i];
        const jinja::Value* const role = message.dict() != nullptr ? message.dict()->find("role") : nullptr;
        const std::string where = "messages[" + std::to_string(i) + "]";
        if (role == nullptr || role->text() == nullptr)
            return wrong(where + " has no role", "an object with a \"role\"");
        if (role->text()->empty() || !role->text()->foreign().empty())
            return wrong(where + ".role is " + show_json(role->text()->view()), "letters, digits, '-' and '_'");
        collect_texts(message, request.texts);
    }
    request.messages = value;
    return {};
}

Result<void> read_variables(const jinja::Value& value, ChatRequest& request) {
    if (value.dict() == nullptr) return wrong("variables is no object", "an object");
    for (const auto& [key, variable] : value.dict()->members) {
        const std::string& name = key.text()->bytes();  // what was JSON has texts for keys
        for (const std::string_view own : {"messages", "tools", "documents", "add_generation_prompt"}) {
            if (name == own) return wrong("variables has " + name, "it outside of variables");
        }
        request.variables.emplace_back(name, variable);
    }
    return {};
}

Result<void> read_member(const std::string& name, const jinja::Value& value, ChatRequest& request) {
    if (name == "messages") return read_messages(value, request);
    if (name == "variables") return read_variables(value, request);
    if (name == "tools" || name == "documents") {
        if (value.list() == nullptr && !value.is_none()) return wrong(name + " is no list", "a list, or null");
        collect_texts(value, request.texts);
        (name == "tools" ? request.tools : request.documents) = value;
        return {};
    }
    if (name != "date")
        return wrong("the member " + show_json(name), "messages, tools, documents, date and variables alone");
    if (value.text() == nullptr) return wrong("date is no text", "a text");
    NL_ASSIGN(request.date, read_date(value.text()->view()));
    return {};
}

}  // namespace

const char* role_name(int32_t role) {
    return role == NL_ROLE_SYSTEM ? "system" : role == NL_ROLE_USER ? "user" : "assistant";
}

std::tm today() {
    const std::time_t now = std::time(nullptr);
    std::tm date{};
    localtime_r(&now, &date);
    return date;
}

Result<void> check_request_size(std::string_view json) {
    if (json.size() <= kMaxTextBytes) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, "request has ", json.size(), " bytes: expected at most ", kMaxTextBytes);
}

Result<ChatRequest> read_chat_request(jinja::Run& run, std::string_view json) {
    NL_ASSIGN(const jinja::Value root, jinja::parse_json(run, json, "request"));
    if (root.dict() == nullptr) return wrong("the JSON is no object", "an object");
    ChatRequest request;
    request.date = today();
    for (const auto& [key, value] : root.dict()->members) NL_TRY(read_member(key.text()->bytes(), value, request));
    if (request.messages.list() == nullptr) return wrong("there is no member messages", "one");
    return request;
}

Result<std::vector<std::pair<std::string, jinja::Value>>> template_variables(
    jinja::Run& run, ChatRequest request, bool generation,
    const std::vector<std::pair<std::string, std::string>>& special_tokens) {
    std::vector<std::pair<std::string, jinja::Value>> variables;
    for (const auto& [name, spelling] : special_tokens) {
        NL_ASSIGN(jinja::Value value, run.text(spelling));
        variables.emplace_back(name, std::move(value));
    }
    for (auto& variable : request.variables) {
        const auto found = std::find_if(variables.begin(), variables.end(),
                                        [&](const auto& known) { return known.first == variable.first; });
        if (found == variables.end()) {
            variables.push_back(std::move(variable));
        } else {
            found->second = std::move(variable.second);
        }
    }
    variables.emplace_back("messages", std::move(request.messages));
    variables.emplace_back("tools", std::move(request.tools));
    variables.emplace_back("documents", std::move(request.documents));
    variables.emplace_back("add_generation_prompt", jinja::Value(generation));
    return variables;
}

}  // namespace nanolith
