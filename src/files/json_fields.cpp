#include "files/json_fields.h"

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

// The number in `value`; 0 where it is none.
double as_number(const Json& value) {
    if (const auto* number = value.as<double>()) return *number;
    if (const auto* number = value.as<uint64_t>()) return static_cast<double>(*number);
    if (const auto* number = value.as<int64_t>()) return static_cast<double>(*number);
    return 0.0;
}

}  // namespace

const Json* JsonFields::find(const char* name) const {
    const Json* found = object_->find(name);
    return found == nullptr || found->is_null() ? nullptr : found;
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

Error JsonFields::wrong(const char* name, const std::string& expectation, nl_status status) const {
    const Json* value = find(name);
    if (value == nullptr) return fail(status, where_, ": ", path_, name, " is missing, expected ", expectation);
    return fail(status, where_, ": ", path_, name, " is ", show_json(*value), ", expected ", expectation);
}

}  // namespace nanolith
