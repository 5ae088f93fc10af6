// A JSON schema as rules. Every text of the rules satisfies the schema, but not every text that satisfies it is one of
// theirs: properties come in the order of the schema, names that a schema with `properties` does not list are written
// only where `additionalProperties` or `patternProperties` allow them explicitly, a schema without `type` whose
// keywords are about objects gives objects, and so on. A schema for which this can't be guaranteed is an error.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/grammar.h"
#include "grammar/json_value.h"

namespace nanolith::grammar {

// Adds rules for a schema's values and gives the index of the first. INVALID_ARGUMENT for a schema that is malformed or
// that nothing satisfies, UNSUPPORTED for a keyword or a use of one that is not known; messages begin with the byte,
// the path and the keyword.
Result<int32_t> add_schema(RuleSet& rules, std::string_view schema);

}  // namespace nanolith::grammar
