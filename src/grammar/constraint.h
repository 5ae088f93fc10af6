// Compiles constraints to grammars.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/constraint_text.h"
#include "grammar/grammar.h"

namespace nanolith::grammar {

// Error messages begin with the kind of the constraint: "regular expression: byte 3: ...".
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
