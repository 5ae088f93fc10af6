// Source to tree.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/jinja/ast.h"

namespace nanolith::jinja {

// Longest source that is read, in bytes, and deepest nesting of statements or of expressions in it.
constexpr size_t kMaxTemplateBytes = size_t{1} << 20U;
constexpr size_t kMaxTreeDepth = 100;
// And of brackets, which take a dozen functions each to read.
constexpr size_t kMaxBrackets = 40;

// UNSUPPORTED for what is no template, and for tags that chat templates don't need: names the line and what is there.
Result<Block> parse_template(std::string_view source);

}  // namespace nanolith::jinja
