// How a SentencePiece model writes a text before it looks for pieces: characters replaced, spaces put, removed and
// escaped. As libsentencepiece does it, but a bit at a time, so that a long text never stands there in full.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/charsmap.h"
#include "text/piece_index.h"
#include "text/sentencepiece_file.h"

namespace nanolith {

// Immutable, so it may be used from any thread.
class SentencePieceNormalizer {
  public:
    // `facts` must outlive this.
    explicit SentencePieceNormalizer(const SentencePieceFacts& facts);

    class Reader;

  private:
    const SentencePieceFacts* facts_;
    Charsmap charsmap_;
    PieceIndex symbols_;
};

// Reads one text, which must be valid UTF-8 and outlive this.
class SentencePieceNormalizer::Reader {
  public:
    // `adds_space`: the one before the text (or after it).
    Reader(const SentencePieceNormalizer& normalizer, std::string_view text, bool adds_space);

    // Appends what the text becomes until `out` has `bytes` or a few more, or the text ends.
    void read(std::string& out, size_t bytes);
    // Whether the last call came to the end of the text.
    [[nodiscard]] bool done() const { return done_; }

  private:
    // What the front of rest_ becomes; takes it away.
    std::string_view next();
    void take_next();
    void end();
    void give(std::string& out);

    const SentencePieceNormalizer* normalizer_;
    const SentencePieceFacts* facts_;
    std::string_view rest_;   // of the text
    std::string_view ready_;  // what its last part became, as far as it has not been given
    size_t spaces_ = 0;       // in front of ready_; they wait for it, since those at the end of a text may go
    bool adds_space_;
    bool behind_space_;   // a space now would be a double one, or stand at the beginning
    bool ended_ = false;  // rest_ was all given but for spaces_
    bool done_ = false;
};

}  // namespace nanolith
