// The keywords of JSON Schema that are known, and whether a schema uses them as they are meant.
#pragma once

#include <string>

#include "base/result.h"
#include "grammar/json_value.h"

namespace nanolith::grammar {

// Where an error is: "byte 12, /properties/a: minimum: ...".
Error schema_error(nl_status status, const JsonValue& at, const std::string& path, const std::string& keyword,
                   const std::string& what);

// One step down in a JSON pointer.
std::string below(const std::string& path, std::string_view name);

// Checks a schema and all schemas in it: every keyword is known, and has a value of its kind.
Result<void> check_schema(const JsonValue& schema, const std::string& path, bool is_root);

// The value that a $ref names, which is "#" or a JSON pointer behind it; null where there is none.
const JsonValue* find_reference(const JsonValue& root, std::string_view reference);

// The expression for a `format`; empty where it is not known.
std::string_view expression_of(std::string_view format);

}  // namespace nanolith::grammar
