// What readers of expressions, grammars and JSON share: a place in a text, numbers, and errors that name the byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "grammar/grammar_limits.h"

namespace nanolith::grammar {

class TextReader {
  public:
    explicit TextReader(std::string_view text) : text_(text) {}
    TextReader(const TextReader&) = delete;
    TextReader& operator=(const TextReader&) = delete;

  protected:
    ~TextReader() = default;

    // INVALID_ARGUMENT: "byte 12: ", what is being read, and what is wrong.
    [[nodiscard]] Error error(const std::string& what) const {
        return fail(NL_ERROR_INVALID_ARGUMENT, "byte ", at_, ": ", inside_, what);
    }
    [[nodiscard]] Error unsupported(const std::string& what) const {
        return fail(NL_ERROR_UNSUPPORTED, "byte ", at_, ": ", inside_, what, " is not supported");
    }
    [[nodiscard]] bool done() const { return at_ >= text_.size(); }
    [[nodiscard]] char peek() const { return done() ? '\0' : text_[at_]; }
    [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
    bool take(std::string_view what) {
        if (!rest().starts_with(what)) return false;
        at_ += what.size();
        return true;
    }
    Result<uint32_t> hex(size_t digits);
    // The numbers of {n}, {n,} or {n,m}; `most` -1: no limit.
    Result<void> counts(int32_t& least, int32_t& most);
    // Skips what may stand between the parts of counts(): nothing, but for readers that override it.
    virtual void skip() {}

    const std::string_view text_;
    size_t at_ = 0;
    std::string inside_;

  private:
    Result<int32_t> number();
};

}  // namespace nanolith::grammar
