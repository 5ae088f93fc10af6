// Tokens that a model folder adds to its vocabulary, and how they are found inside a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/json.h"

namespace nanolith {

// The fields of a tokenizer.json's "added_tokens".
struct AddedToken {
    std::string content;
    int32_t id = -1;
    bool single_word = false;  // not found inside a word
    bool lstrip = false;       // takes the white space before it
    bool rstrip = false;       // takes the white space behind it
    bool normalized = false;   // is looked for in the normalised text
    bool special = false;      // a control token: gives no text
};

// Reads one, `where` begins the message. `id` is the token's where the JSON does not have it.
Result<AddedToken> read_added_token(const Json& json, const std::string& where, const int32_t* id);

// Which of them count inside a text.
struct TokenFilter {
    bool special = true;              // special ones; where false, their spelling is text like any other
    std::span<const int32_t> unread;  // and these do not count either
};

// A part of a text: a token, or text (token -1).
struct TextPart {
    std::string_view text;
    int32_t token = -1;
};

// Finds tokens in texts. Immutable once it is filled.
class TokenMatcher {
  public:
    // `pattern` is found as `token`, which must outlive this. An empty one is never found; of two the same the latter
    // counts.
    void add(std::string pattern, const AddedToken* token);
    // Must follow the last add.
    void finish();
    [[nodiscard]] bool empty() const { return patterns_.empty(); }

    // Cuts `text` into tokens and what is between: at each place the longest pattern, from left to right. Replaces what
    // is in `parts`; no part of text is empty.
    void split(std::string_view text, const TokenFilter& filter, std::vector<TextPart>& parts) const;

  private:
    struct Entry {
        std::string pattern;
        const AddedToken* token;
    };
    [[nodiscard]] const Entry* longest_at(std::string_view text) const;

    std::vector<Entry> patterns_;             // sorted
    std::array<uint32_t, 257> first_byte_{};  // the patterns that begin with byte b: first_byte_[b] to [b + 1]
};

}  // namespace nanolith
