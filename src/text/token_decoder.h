// The "decoder" of a tokenizer.json: what bytes a piece of the vocabulary stands for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "files/json.h"
#include "text/pattern.h"
#include "text/tokenizer.h"

namespace nanolith {

// Immutable, so it may be used from any thread.
class TokenDecoder {
  public:
    // Reads one; null puts spaces between the pieces. Known are BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace,
    // Replace, Sequence, Strip and WordPiece where they work token by token, but for a Strip of one leading space after
    // a Fuse; others are UNSUPPORTED by their name. `where` begins a message.
    static Result<TokenDecoder> read(const Json* json, const std::string& where);

    // `is_first`: no token before it gave text.
    [[nodiscard]] Result<std::string> bytes(std::string_view piece, bool is_first) const;
    // In place of these where no further text follows; nothing where they are the same then.
    [[nodiscard]] Result<std::optional<std::string>> last_bytes(std::string_view piece) const;
    [[nodiscard]] const DecodeRules& rules() const { return rules_; }

  private:
    Result<void> add(const Json& json, const std::string& where);
    Result<void> add_metaspace(const Json& json, const std::string& where);
    Result<void> add_strip(const Json& json, const std::string& where);
    Result<void> add_word_piece(const Json& json, const std::string& where);
    Result<void> add_suffix(const Json& json, const std::string& where);
    // An error where another decoder stands before it.
    [[nodiscard]] Result<void> check_alone(const char* type, const std::string& where) const;
    [[nodiscard]] Result<std::string> word_piece_text(std::string_view piece, bool is_first) const;

    struct WordPieces {
        std::string prefix;  // marks a piece that continues a word; before any other stands a space
        bool cleanup;        // some spaces in English text go
    };

    std::vector<std::pair<Pattern, std::string>> replacements_;
    std::optional<WordPieces> word_pieces_;  // where one of these is there, nothing else is
    bool spaces_ = false;                    // before every piece but the first
    std::string suffix_;                     // ends a word: a space, or nothing in the last piece
    bool byte_level_ = false;
    bool byte_fallback_ = false;
    bool fused_ = false;
    std::string first_dropped_;  // the symbol for a space that the first token's text loses; empty where it keeps it
    DecodeRules rules_;
};

}  // namespace nanolith
