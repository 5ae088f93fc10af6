#include "files/json_fields.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace nanolith {
namespace {

std::string range_text(int64_t min, int64_t max) {
    return "an integer from " + std::to_string(min) + " to " + std::to_string(max);
}

// The integer in `value`, where it is one and an int64_t can hold it.
std::optional<int64_t> as_integer(const Json& value) {
    if (const auto* negative = value.as<int64_t>()) return *negative;
    const auto* number = value.as<uint64_t>();
    if (number == nullptr || *number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(*number);
}

// The number in `value`; NaN where it is none.
double as_number(const Json& value) {
    if (const auto* number = value.as<double>()) return *number;
    if (const auto* number = value.as<uint64_t>()) return static_cast<double>(*number);
    if (const auto* number = value.as<int64_t>()) return static_cast<double>(*number);
    return std::nan("");
}

bool is_positive(double number, double max) {
    return std::isfinite(number) && number > 0.0 && number <= max;
}

template <typename... Parts>
std::string text_of(const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
}

}  // namespace

const Json* JsonFields::find(const char* name) const {
    const Json* found = object_->find(name);
    return found == nullptr || found->is_null() ? nullptr : found;
}

bool JsonFields::is_null(const char* name) const {
    const Json* found = object_->find(name);
    return found != nullptr && found->is_null();
}

Result<int64_t> JsonFields::integer(const char* name, int64_t min, int64_t max) const {
    const Json* value = find(name);
    const std::optional<int64_t> number = value != nullptr ? as_integer(*value) : std::nullopt;
    if (!number || *number < min || *number > max) return wrong(name, range_text(min, max));
    return *number;
}

Result<double> JsonFields::positive_number(const char* name, double max) const {
    const Json* value = find(name);
    const double number = value != nullptr ? as_number(*value) : 0.0;
    if (!is_positive(number, max)) return wrong(name, text_of("a number above 0 and at most ", max));
    return number;
}

Result<double> JsonFields::number(const char* name, double min, double max) const {
    const Json* value = find(name);
    const double number = value != nullptr ? as_number(*value) : std::nan("");
    if (!(number >= min && number <= max)) return wrong(name, text_of("a number from ", min, " to ", max));
    return number;
}

Result<std::vector<double>> JsonFields::positive_numbers(const char* name, double max) const {
    const Json* value = find(name);
    const auto* list = value != nullptr ? value->as<Json::Array>() : nullptr;
    std::vector<double> numbers;
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) numbers.push_back(as_number((*list)[i]));
    const auto fits = [max](double number) { return is_positive(number, max); };
    if (list == nullptr || !std::all_of(numbers.begin(), numbers.end(), fits)) {
        return wrong(name, text_of("a list of numbers above 0 and at most ", max));
    }
    return numbers;
}

Result<std::vector<int64_t>> JsonFields::integers_or_none(const char* name, int64_t min, int64_t max) const {
    std::vector<int64_t> numbers;
    const Json* value = find(name);
    if (value == nullptr) return numbers;
    const auto* list = value->as<Json::Array>();
    if (list == nullptr) return wrong(name, "a list of integers");
    for (const Json& item : *list) {
        const std::optional<int64_t> number = as_integer(item);
        if (!number || *number < min || *number > max) return wrong(name, "a list, each " + range_text(min, max));
        numbers.push_back(*number);
    }
    return numbers;
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
    const bool* boolean = value->as<bool>();
    if (boolean == nullptr) return wrong(name, "true or false");
    return *boolean;
}

Result<std::string> JsonFields::string_or(const char* name, const char* fallback) const {
    const Json* value = find(name);
    if (value == nullptr) return std::string(fallback);
    const auto* text = value->as<std::string>();
    if (text == nullptr) return wrong(name, "a string");
    return *text;
}

Result<std::optional<JsonFields>> JsonFields::object(const char* name) const {
    const Json* value = find(name);
    if (value == nullptr) return std::optional<JsonFields>();
    if (value->as<Json::Object>() == nullptr) return wrong(name, "an object");
    return std::optional<JsonFields>(std::in_place, *value, where_, path_ + name + ".");
}

std::vector<std::string> JsonFields::names() const {
    std::vector<std::string> names;
    for (const JsonMember& member : *object_->as<Json::Object>()) names.push_back(member.name);
    return names;
}

Error JsonFields::wrong(const char* name, const std::string& expectation, nl_status status) const {
    const Json* value = find(name);
    if (value == nullptr) return fail(status, where_, ": ", path_, name, " is missing: expected ", expectation);
    return fail(status, where_, ": ", path_, name, " is ", show_json(*value), ": expected ", expectation);
}

}  // namespace nanolith
