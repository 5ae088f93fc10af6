#include "fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "api_error.h"

namespace server {
namespace {

const Json kNull;

std::string in_words(double value) {
    return to_text(Json(value));
}

}  // namespace

Fields::Fields(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {}

const Json& Fields::any(const std::string& name) {
    named_.insert(name);
    const auto found = object_->find(name);
    return found == object_->end() ? kNull : *found;
}

std::optional<std::string> Fields::text(const std::string& name) {
    const Json& value = any(name);
    if (value.is_null()) return std::nullopt;
    if (!value.is_string()) throw bad_request(path(name), path(name) + " is no string.");
    return value.get<std::string>();
}

std::optional<bool> Fields::boolean(const std::string& name) {
    const Json& value = any(name);
    if (value.is_null()) return std::nullopt;
    if (!value.is_boolean()) throw bad_request(path(name), path(name) + " is neither true nor false.");
    return value.get<bool>();
}

std::optional<int64_t> Fields::integer(const std::string& name, int64_t least, int64_t most) {
    const Json& value = any(name);
    if (value.is_null()) return std::nullopt;
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<uint64_t>() <= std::numeric_limits<int64_t>::max());
    if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > most)
        throw bad_request(path(name), path(name) + " is " + to_text(value) + ": expected a whole number from " +
                                          std::to_string(least) + " to " + std::to_string(most) + ".");
    return value.get<int64_t>();
}

std::optional<double> Fields::number(const std::string& name, double least, double most) {
    const Json& value = any(name);
    if (value.is_null()) return std::nullopt;
    if (!value.is_number() || !(value.get<double>() >= least) || !(value.get<double>() <= most))
        throw bad_request(path(name), path(name) + " is " + to_text(value) + ": expected a number from " +
                                          in_words(least) + " to " + in_words(most) + ".");
    return value.get<double>();
}

std::vector<std::string> Fields::texts(const std::string& name, size_t most, bool* is_text) {
    const Json& value = any(name);
    if (is_text != nullptr) *is_text = value.is_string();
    if (value.is_null()) return {};
    if (value.is_string()) return {value.get<std::string>()};
    std::vector<std::string> texts;
    for (const Json& element : list(name, most)) {
        if (!element.is_string()) throw bad_request(path(name), path(name) + " has an element that is no string.");
        texts.push_back(element.get<std::string>());
    }
    return texts;
}

std::vector<int32_t> Fields::integers(const std::string& name, size_t most) {
    std::vector<int32_t> numbers;
    for (const Json& element : list(name, most)) {
        if (!element.is_number_integer() || element.get<int64_t>() < 0 ||
            element.get<int64_t>() > std::numeric_limits<int32_t>::max())
            throw bad_request(path(name), path(name) + " has an element that is no token id: " + to_text(element));
        numbers.push_back(element.get<int32_t>());
    }
    return numbers;
}

const Json& Fields::list(const std::string& name, size_t most) {
    const Json& value = any(name);
    if (value.is_null()) return value;
    if (!value.is_array()) throw bad_request(path(name), path(name) + " is no list.");
    if (value.size() > most)
        throw bad_request(path(name), path(name) + " has " + std::to_string(value.size()) + " elements: at most " +
                                          std::to_string(most) + " are allowed.");
    return value;
}

const Json& Fields::object(const std::string& name) {
    const Json& value = any(name);
    if (!value.is_null() && !value.is_object()) throw bad_request(path(name), path(name) + " is no object.");
    return value;
}

void Fields::refuse(const std::string& name, std::initializer_list<Json> harmless, const std::string& why) {
    const Json& value = any(name);
    if (value.is_null() || std::find(harmless.begin(), harmless.end(), value) != harmless.end()) return;
    throw unsupported(path(name), path(name) + " is " + to_text(value) + ": " + why);
}

void Fields::finish() const {
    for (const auto& [name, value] : object_->items()) {
        if (named_.count(name) == 0)
            throw bad_request(path(name), "There is no field " + path(name) + " here.", "unknown_parameter");
    }
}

}  // namespace server
