#include "tool_calls.h"

#include <algorithm>

#include "random.h"

namespace server {
namespace {

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";
constexpr std::string_view kSpace = " \t\r\n";

std::string_view trim(std::string_view text) {
    const size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// How many bytes at the end of `text` may be the beginning of `mark`.
size_t possible_mark(std::string_view text, std::string_view mark) {
    for (size_t length = std::min(text.size(), mark.size() - 1); length > 0; --length) {
        if (text.substr(text.size() - length) == mark.substr(0, length)) return length;
    }
    return 0;
}

// The offset behind the JSON object or list at the beginning of `text`, that is behind the bracket that closes its
// first one; npos where that bracket is not there yet.
size_t json_end(std::string_view text) {
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted) {
            if (c == '\\') ++i;
            quoted = quoted && c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            ++depth;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return i + 1;
        }
    }
    return std::string_view::npos;
}

// JSON that is nested so deeply that writing it again would take all of a stack is no call.
Json parse_call(std::string_view text) {
    bool deep = false;
    const auto watch = [&deep](int depth, Json::parse_event_t, Json&) {
        deep = deep || depth > 64;
        return !deep;
    };
    Json json = Json::parse(text, watch, false);
    return deep ? Json(nullptr) : json;
}

}  // namespace

void ToolCallParser::push(std::string_view piece, std::string& text, std::vector<ToolCall>& calls) {
    held_ += piece;
    if (marked_) return;  // read as a whole at the end
    if (!begun_) {
        const std::string_view rest = trim(held_);
        if (rest.empty() || rest.front() == '{' || rest.front() == '[') return;
        begun_ = true;
    }
    while (take_tagged(text, calls)) {
    }
}

// Moves the held bytes [0, end) to the text. White space waits until other text follows, since before and after calls
// it is part of the calls' format.
void ToolCallParser::give(size_t end, std::string& text) {
    blank_ = blank_ && trim(std::string_view(held_).substr(0, end)).empty();
    if (blank_) return;
    text.append(held_, 0, end);
    held_.erase(0, end);
}

// Takes text up to a call's mark, or a whole call. Returns whether there may be more to take.
bool ToolCallParser::take_tagged(std::string& text, std::vector<ToolCall>& calls) {
    const size_t open = held_.find(kOpen);
    if (open == std::string::npos) {
        give(held_.size() - possible_mark(held_, kOpen), text);
        return false;
    }
    const size_t close = held_.find(kClose, open);
    if (close == std::string::npos) {
        give(open, text);
        return false;
    }
    const std::string_view inside = std::string_view(held_).substr(open + kOpen.size(), close - open - kOpen.size());
    const size_t end = close + kClose.size();
    if (!read_calls(inside, calls)) {
        give(end, text);
        return true;
    }
    if (!trim(std::string_view(held_).substr(0, open)).empty()) text.append(held_, 0, open);
    held_.erase(0, end);
    called_ = blank_ = true;
    return true;
}

void ToolCallParser::finish(std::string& text, std::vector<ToolCall>& calls) {
    const std::string_view rest = trim(held_);
    const bool whole = marked_ || !begun_;
    const bool read = whole && !rest.empty() && (read_calls(rest, calls) || (marked_ && read_named(rest, calls)));
    // Some models end with their last call and leave out its closing mark.
    const bool open_read =
        !read && rest.substr(0, kOpen.size()) == kOpen && read_calls(rest.substr(kOpen.size()), calls);
    if (!read && !open_read && !(rest.empty() && called_)) text += held_;
    held_.clear();
}

std::optional<ToolCall> ToolCallParser::read_call(const Json& json) const {
    if (!json.is_object()) return std::nullopt;
    const Json& call = json.contains("function") && json["function"].is_object() ? json["function"] : json;
    const auto name = call.find("name");
    if (name == call.end() || !name->is_string()) return std::nullopt;
    ToolCall result;
    result.name = name->get<std::string>();
    if (std::find(names_.begin(), names_.end(), result.name) == names_.end()) return std::nullopt;
    auto arguments = call.find("arguments");
    if (arguments == call.end()) arguments = call.find("parameters");
    if (arguments == call.end() || arguments->is_null()) {
        result.arguments = "{}";
    } else {
        result.arguments = arguments->is_string() ? arguments->get<std::string>() : to_text(*arguments);
    }
    result.id = random_id("", kLettersAndDigits, 9);
    return result;
}

// One call, several with ';' or white space between, or a list. Adds nothing unless all of the text are calls.
bool ToolCallParser::read_calls(std::string_view text, std::vector<ToolCall>& calls) const {
    std::vector<ToolCall> found;
    text = trim(text);
    while (!text.empty()) {
        const size_t end = text.front() == '{' || text.front() == '[' ? json_end(text) : std::string_view::npos;
        if (end == std::string_view::npos) return false;
        const Json json = parse_call(text.substr(0, end));
        const Json list = json.is_array() ? json : Json::array({json});
        for (const Json& element : list) {
            auto call = read_call(element);
            if (!call) return false;
            found.push_back(std::move(*call));
        }
        text = trim(text.substr(end));
        if (!text.empty() && text.front() == ';') text = trim(text.substr(1));
    }
    if (found.empty()) return false;
    std::move(found.begin(), found.end(), std::back_inserter(calls));
    return true;
}

// name{...}, any number of them.
bool ToolCallParser::read_named(std::string_view text, std::vector<ToolCall>& calls) const {
    std::vector<ToolCall> found;
    for (text = trim(text); !text.empty(); text = trim(text)) {
        const size_t brace = text.find('{');
        if (brace == std::string_view::npos) return false;
        const size_t length = json_end(text.substr(brace));
        if (length == std::string_view::npos) return false;
        const Json arguments = parse_call(text.substr(brace, length));
        auto call = read_call({{"name", std::string(trim(text.substr(0, brace)))}, {"arguments", arguments}});
        if (!call || !arguments.is_object()) return false;
        found.push_back(std::move(*call));
        text = text.substr(brace + length);
    }
    if (found.empty()) return false;
    std::move(found.begin(), found.end(), std::back_inserter(calls));
    return true;
}

}  // namespace server
