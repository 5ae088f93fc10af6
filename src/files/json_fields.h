// Reading a JSON object's fields one by one, with errors that name the file, the field, its value and what was
// expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "files/json.h"

namespace nanolith {

// The fields of one JSON object. A field whose value is null counts as missing. Both the object and this must
// outlive what is read through it.
class JsonFields {
  public:
    // `where` names the file; `path` is what stands before a field's name, as "rope_scaling.".
    JsonFields(const Json& object, std::string where, std::string path = {})
        : object_(&object), where_(std::move(where)), path_(std::move(path)) {}

    // The field's value; null where it is missing.
    [[nodiscard]] const Json* find(const char* name) const;
    // The field stands there as null.
    [[nodiscard]] bool is_null(const char* name) const;

    // Required fields: BAD_MODEL where they are missing, of another type or out of [min, max].
    [[nodiscard]] Result<int64_t> integer(const char* name, int64_t min, int64_t max) const;
    // A finite number in (0, max].
    [[nodiscard]] Result<double> positive_number(const char* name, double max) const;
    // A finite number in [min, max].
    [[nodiscard]] Result<double> number(const char* name, double min, double max) const;
    // A list of finite numbers in (0, max].
    [[nodiscard]] Result<std::vector<double>> positive_numbers(const char* name, double max) const;

    // Fields that may be missing.
    [[nodiscard]] Result<int64_t> integer_or(const char* name, int64_t fallback, int64_t min, int64_t max) const;
    [[nodiscard]] Result<double> positive_number_or(const char* name, double fallback, double max) const;
    // A list of integers in [min, max]; empty where it is missing.
    [[nodiscard]] Result<std::vector<int64_t>> integers_or_none(const char* name, int64_t min, int64_t max) const;
    [[nodiscard]] Result<bool> boolean_or(const char* name, bool fallback) const;
    [[nodiscard]] Result<std::string> string_or(const char* name, const char* fallback) const;
    // An object's fields, or nothing.
    [[nodiscard]] Result<std::optional<JsonFields>> object(const char* name) const;

    // The names of all fields.
    [[nodiscard]] std::vector<std::string> names() const;

    // "<file>: <field> is <value>, expected <expectation>", or "<field> is missing" and the same end.
    [[nodiscard]] Error wrong(const char* name, const std::string& expectation,
                              nl_status status = NL_ERROR_BAD_MODEL) const;

  private:
    const Json* object_;
    std::string where_;
    std::string path_;
};

}  // namespace nanolith
