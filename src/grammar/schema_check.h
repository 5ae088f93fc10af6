// The keywords of JSON Schema that are supported, and checks that a schema uses them with values of the right kind.
#pragma once

#include <string>

#include "base/result.h"
#include "grammar/json_value.h"

namespace nanolith::grammar {

// An error that says where it is: "byte 12, /properties/a: minimum: ...".
Error schema_error(nl_status status, const JsonValue& at, const std::string& path, const std::string& keyword,
                   const std::string& what);

// `path`, a JSON pointer, with `name` behind it.
std::string below(const std::string& path, std::string_view name);

// Checks a schema and all schemas in it: every keyword is known, and has a value of its kind.
Result<void> check_schema(const JsonValue& schema, const std::string& path, bool is_root);

// The value that a $ref names: `reference` is "#" with a JSON pointer behind it, or none. Null where there is no value.
const JsonValue* find_reference(const JsonValue& root, std::string_view reference);

// A regular expression of texts that have the `format`; empty where the format is not supported.
std::string_view expression_of(std::string_view format);

}  // namespace nanolith::grammar
