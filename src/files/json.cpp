#include "files/json.h"

#include <cmath>
#include <set>
#include <vector>

#include "files/mapped_file.h"

namespace nanolith {
namespace {

// Whether brackets nest deeper than kMaxJsonDepth. Looks at brackets outside of strings only, and so may be run
// over text that turns out not to be JSON.
bool nests_too_deep(std::string_view text) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') ++i;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > kMaxJsonDepth) return true;
        } else if (c == '}' || c == ']') {
            --depth;
        }
    }
    return false;
}

// Watches a parse for a key that one object has twice: a reader that takes the first and one that takes the last
// would see two different files.
class DuplicateKeys {
  public:
    void see(nlohmann::json::parse_event_t event, const Json& parsed) {
        using Event = nlohmann::json::parse_event_t;
        if (event == Event::object_start) open_.emplace_back();
        if (event == Event::object_end) open_.pop_back();
        if (event == Event::key && !open_.back().insert(parsed.get_ref<const std::string&>()).second && !found_) {
            found_ = show_json(parsed);
        }
    }
    [[nodiscard]] const std::optional<std::string>& found() const { return found_; }

  private:
    std::vector<std::set<std::string>> open_;
    std::optional<std::string> found_;
};

std::string range_text(int64_t min, int64_t max) {
    return "an integer from " + std::to_string(min) + " to " + std::to_string(max);
}

}  // namespace

Result<Json> parse_json_object(std::string_view text, const std::string& where) {
    if (text.size() > kMaxJsonBytes) {
        return fail(NL_ERROR_BAD_MODEL, where, ": ", text.size(), " bytes of JSON, expected at most ", kMaxJsonBytes);
    }
    if (nests_too_deep(text)) {
        return fail(NL_ERROR_BAD_MODEL, where, ": JSON nested deeper than ", kMaxJsonDepth, " levels");
    }
    DuplicateKeys duplicates;
    const auto watch = [&duplicates](int /*depth*/, Json::parse_event_t event, Json& parsed) {
        duplicates.see(event, parsed);
        return true;
    };
    Json json = Json::parse(text.begin(), text.end(), watch, false);
    if (json.is_discarded()) return fail(NL_ERROR_BAD_MODEL, where, ": not well-formed JSON");
    if (duplicates.found()) {
        return fail(NL_ERROR_BAD_MODEL, where, ": the key ", *duplicates.found(), " occurs twice in one object");
    }
    if (!json.is_object()) {
        return fail(NL_ERROR_BAD_MODEL, where, ": the JSON is ", show_json(json), ", expected an object");
    }
    return json;
}

Result<Json> read_json_object(const std::string& path) {
    NL_ASSIGN(const MappedFile file, MappedFile::open(path));
    return parse_json_object(file.text(), path);
}

std::string show_json(const Json& value) {
    constexpr size_t kLongest = 80;
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
    return text;
}

const Json* JsonFields::find(const char* name) const {
    const auto found = object_->find(name);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
}

Result<int64_t> JsonFields::integer(const char* name, int64_t min, int64_t max) const {
    const Json* value = find(name);
    if (value == nullptr || !value->is_number_integer()) return wrong(name, range_text(min, max));
    // An unsigned value beyond int64_t would turn negative in get<int64_t>.
    if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        return wrong(name, range_text(min, max));
    }
    const auto number = value->get<int64_t>();
    if (number < min || number > max) return wrong(name, range_text(min, max));
    return number;
}

Result<double> JsonFields::positive_number(const char* name, double max) const {
    const Json* value = find(name);
    const double number = value != nullptr && value->is_number() ? value->get<double>() : 0.0;
    if (!std::isfinite(number) || number <= 0.0 || number > max) {
        std::ostringstream expectation;
        expectation << "a number above 0 and at most " << max;
        return wrong(name, expectation.str());
    }
    return number;
}

Result<int64_t> JsonFields::integer_or(const char* name, int64_t fallback, int64_t min, int64_t max) const {
    if (find(name) == nullptr) return fallback;
    return integer(name, min, max);
}

Result<double> JsonFields::positive_number_or(const char* name, double fallback, double max) const {
    if (find(name) == nullptr) return fallback;
    return positive_number(name, max);
}

Result<bool> JsonFields::boolean_or(const char* name, bool fallback) const {
    const Json* value = find(name);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) return wrong(name, "true or false");
    return value->get<bool>();
}

Result<std::string> JsonFields::string_or(const char* name, const char* fallback) const {
    const Json* value = find(name);
    if (value == nullptr) return std::string(fallback);
    if (!value->is_string()) return wrong(name, "a string");
    return value->get<std::string>();
}

Result<std::optional<JsonFields>> JsonFields::object(const char* name) const {
    const Json* value = find(name);
    if (value == nullptr) return std::optional<JsonFields>();
    if (!value->is_object()) return wrong(name, "an object");
    return std::optional<JsonFields>(std::in_place, *value, where_, path_ + name + ".");
}

Error JsonFields::wrong(const char* name, const std::string& expectation, nl_status status) const {
    const Json* value = find(name);
    if (value == nullptr) return fail(status, where_, ": ", path_, name, " is missing, expected ", expectation);
    return fail(status, where_, ": ", path_, name, " is ", show_json(*value), ", expected ", expectation);
}

}  // namespace nanolith
