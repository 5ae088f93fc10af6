// What a tokenizer.json's "pattern" finds in a text: a literal, or a regular expression run by PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/pattern_syntax.h"

namespace nanolith {

struct Span {
    size_t begin = 0;
    size_t end = 0;
};

// Immutable, so every member may be called from any thread. Time grows with the text's length for the published
// patterns; one that a text drives into exponential time ends with an error.
class Pattern {
  public:
    // See translate_pattern. UNSUPPORTED or BAD_MODEL begin with `where`.
    static Result<Pattern> regex(std::string_view pattern, const std::string& where,
                                 PatternSyntax syntax = PatternSyntax::oniguruma);
    // Finds `text` itself; an empty one finds nothing.
    static Pattern literal(std::string_view text);

    class Finder;

  private:
    struct Code;
    Pattern() = default;

    std::string literal_;
    std::shared_ptr<const Code> code_;  // null for a literal
};

// Finds a pattern in one text after the other. For one thread.
class Pattern::Finder {
  public:
    explicit Finder(Pattern pattern);
    Finder(Finder&&) noexcept;
    ~Finder();

    // Begins with `text`, which must be valid UTF-8 and stay until the last call of next().
    void start(std::string_view text);
    // The next match, from left to right without overlap; false where there is none. Matches may be empty.
    Result<bool> next(Span& match);

  private:
    struct Work;
    Result<bool> match_code(Span& match);

    Pattern pattern_;
    std::unique_ptr<Work> work_;  // null for a literal
    std::string_view text_;
    size_t at_ = 0;
};

// `text` with `content` in place of every match of `pattern`. INVALID_ARGUMENT where that is longer than 1 GiB.
Result<std::string> replace_all(std::string_view text, const Pattern& pattern, std::string_view content);

}  // namespace nanolith
