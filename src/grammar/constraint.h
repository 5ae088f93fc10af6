// What a generated text must be, as a caller says it, and the grammar that it becomes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/grammar.h"

namespace nanolith::grammar {

enum class ConstraintKind : uint8_t { none, choices, regex, json_schema, json_object, ebnf };

struct Constraint {
    ConstraintKind kind = ConstraintKind::none;
    std::string text;                  // of a regex, json_schema, ebnf
    std::vector<std::string> choices;  // of choices
};

// Errors begin with what the constraint is: "regular expression: byte 3: ...".
Result<std::shared_ptr<const Grammar>> compile(const Constraint& constraint, std::shared_ptr<const TokenTable> tokens);

// Compiles, and remembers the latest grammars of one vocabulary. Any thread.
class Compiler {
  public:
    explicit Compiler(std::shared_ptr<const TokenTable> tokens) : tokens_(std::move(tokens)) {}
    Result<std::shared_ptr<const Grammar>> compile(const Constraint& constraint);

  private:
    struct Made {
        std::string key;
        std::shared_ptr<const Grammar> grammar;
    };
    const std::shared_ptr<const TokenTable> tokens_;
    std::mutex mutex_;
    std::vector<Made> made_;  // the one used last at the end
};

}  // namespace nanolith::grammar
