// A JSON schema as rules. What the rules let through is JSON that satisfies the schema, and not all of it: properties
// come in the order of the schema, names that a schema with `properties` does not list are written only where
// `additionalProperties` or `patternProperties` allow them in so many words, a schema without `type` whose keywords are
// about objects gives objects, and so on. So what is written always satisfies; what can't be granted is an error.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/json_value.h"

namespace nanolith::grammar {

// The rule of a schema's values. INVALID_ARGUMENT for a schema that is malformed or that nothing satisfies, UNSUPPORTED
// for a keyword or a use of one that is not known; messages begin with the byte, the path and the keyword.
Result<int32_t> add_schema(RuleSet& rules, std::string_view schema);

}  // namespace nanolith::grammar
