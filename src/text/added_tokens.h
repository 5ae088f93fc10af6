// Tokens that a model folder adds to its vocabulary, and how they are found inside a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/json.h"
#include "text/piece_index.h"

namespace nanolith {

// The fields of a tokenizer.json's "added_tokens".
struct AddedToken {
    std::string content;
    int32_t id = -1;
    bool single_word = false;  // not found inside a word
    bool lstrip = false;       // takes the white space before it
    bool rstrip = false;       // takes the white space after it
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
    // `pattern` is found as `token`; both must outlive this. An empty one is never found; of two the same the latter
    // counts.
    void add(std::string_view pattern, const AddedToken* token);
    // Must follow the last add.
    void finish() { index_.finish(); }

    class Parts;

  private:
    PieceIndex index_;  // its values are places in tokens_
    std::vector<const AddedToken*> tokens_;
};

// Cuts a text into tokens and what is between, one part after the other: at each place the longest pattern, from left
// to right. The matcher, the text and the filter must outlive this.
class TokenMatcher::Parts {
  public:
    Parts(const TokenMatcher& matcher, std::string_view text, const TokenFilter& filter)
        : matcher_(&matcher), text_(text), filter_(&filter) {}

    // The next part; false at the end. No part of text is empty.
    bool next(TextPart& part);

  private:
    // Finds the next token from at_ on.
    bool find();

    const TokenMatcher* matcher_;
    std::string_view text_;
    const TokenFilter* filter_;
    size_t done_ = 0;  // what lies before was given
    size_t at_ = 0;    // tokens that begin before were looked at
    TextPart found_;   // a token that waits for the text before it; token -1: none
};

}  // namespace nanolith
