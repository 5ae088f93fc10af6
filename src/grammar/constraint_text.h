// What a generated text must be, as a caller says it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nanolith::grammar {

enum class ConstraintKind : uint8_t { none, choices, regex, json_schema, json_object, ebnf };

struct Constraint {
    ConstraintKind kind = ConstraintKind::none;
    std::string text = {};                  // of a regex, json_schema, ebnf
    std::vector<std::string> choices = {};  // of choices
};

}  // namespace nanolith::grammar
