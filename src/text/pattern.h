// What a tokenizer.json's "pattern" finds in a text: a literal, or a regular expression run by PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace nanolith {

struct Span {
    size_t begin = 0;
    size_t end = 0;
};

// Immutable, so every member may be called from any thread. Time grows with the text's length for the published
// patterns; one that a text drives into exponential time ends with an error.
class Pattern {
  public:
    // `pattern` in Oniguruma's syntax; see translate_pattern. UNSUPPORTED or BAD_MODEL begin with `where`.
    static Result<Pattern> regex(std::string_view pattern, const std::string& where);
    // Finds `text` itself; an empty one finds nothing.
    static Pattern literal(std::string_view text);

    // All matches in `text`, which must be valid UTF-8, from left to right without overlap. Matches may be empty.
    // Replaces what is in `matches`.
    Result<void> find_all(std::string_view text, std::vector<Span>& matches) const;

  private:
    struct Code;
    Pattern() = default;

    std::string literal_;
    std::shared_ptr<const Code> code_;  // null for a literal
};

}  // namespace nanolith
