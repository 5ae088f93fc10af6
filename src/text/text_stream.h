// Tokens to text as they come, without splitting a UTF-8 character.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "text/tokenizer.h"

namespace nanolith {

// The one way from tokens to text: what both Tokenizer::decode and TextStream do for each token. Decodes as
// libsentencepiece does, but ill-formed bytes become one U+FFFD for each maximal subpart.
class TextDecoder {
  public:
    // Appends the text that `token` completes. INVALID_ARGUMENT for a token outside of the vocabulary, which
    // changes nothing.
    Result<void> push(const Tokenizer& tokenizer, int32_t token, std::string& text);
    // Appends what waited for more text, and U+FFFD for an unfinished character. The decoder is then as new.
    void finish(std::string& text);

  private:
    void take(Tokenizer::Surface surface);

    std::string waiting_;   // the bytes of an unfinished character
    bool at_start_ = true;  // leading spaces may still be dropped
    std::string inner_;     // the end of the last token's bytes, if text follows
    std::string last_;      // and if none does
};

// A decoder with its tokenizer. A copy goes on by itself from the same state, so that a caller can try a push and
// drop it. Not for two threads at once.
class TextStream {
  public:
    explicit TextStream(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

    // The text that `token` completes, perhaps empty; errors as TextDecoder::push.
    Result<std::string> push(int32_t token) {
        std::string text;
        NL_TRY(decoder_.push(*tokenizer_, token, text));
        return text;
    }
    // What still waits: U+FFFD for an unfinished character, or nothing. The stream is then as new.
    std::string finish() {
        std::string text;
        decoder_.finish(text);
        return text;
    }

  private:
    std::shared_ptr<const Tokenizer> tokenizer_;
    TextDecoder decoder_;
};

}  // namespace nanolith
