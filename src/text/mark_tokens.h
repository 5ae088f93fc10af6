// The tokens that may stand around a chat's messages, and text that never becomes one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/tokenizer.h"

namespace nanolith {

class MarkTokens {
  public:
    // `name` is the format's, for messages.
    MarkTokens(std::shared_ptr<const Tokenizer> tokenizer, std::string name)
        : tokenizer_(std::move(tokenizer)), name_(std::move(name)) {}

    // `spelling` in a mark is `token`.
    void add(std::string spelling, int32_t token);
    // Read out of marks no more than out of messages, which must not have it: the tokenizer has no token for it.
    void add_text(std::string spelling) { texts_.push_back(std::move(spelling)); }
    // Must follow the last add.
    void finish();

    [[nodiscard]] const Tokenizer& tokenizer() const { return *tokenizer_; }
    // Cuts a mark into tokens and text.
    void split(std::string_view mark, std::vector<TextPart>& parts) const;
    // INVALID_ARGUMENT where a message has a mark that is text to the tokenizer. `what` is the message's name.
    [[nodiscard]] Result<void> check_content(std::string_view content, const std::string& what) const;
    // Appends the tokens of text that has no marks, whatever it spells. `at_start`: nothing stands before it.
    [[nodiscard]] Result<void> encode(std::string_view text, bool at_start, std::vector<int32_t>& tokens) const;

  private:
    [[nodiscard]] bool has_mark(const std::vector<int32_t>& tokens, size_t from) const;

    std::shared_ptr<const Tokenizer> tokenizer_;
    std::string name_;
    std::vector<std::unique_ptr<AddedToken>> tokens_;  // what the matcher points to
    TokenMatcher matcher_;
    std::vector<int32_t> unread_;  // the tokens, sorted
    std::vector<std::string> texts_;
};

}  // namespace nanolith
