// Text to tokens and back, after a SentencePiece model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/sentencepiece_file.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace nanolith {

// Immutable after load, so every member may be called from any thread.
class Tokenizer {
  public:
    // Reads `folder`/tokenizer.model. NOT_FOUND where there is none, BAD_MODEL where it is damaged; both name the path.
    static Result<std::shared_ptr<const Tokenizer>> load(const std::string& folder);

    Tokenizer(const Tokenizer&) = delete;
    Tokenizer& operator=(const Tokenizer&) = delete;
    ~Tokenizer();

    // `flags` are NL_ENCODE_*. Ill-formed UTF-8 is read as U+FFFD.
    [[nodiscard]] Result<std::vector<int32_t>> encode(std::string_view text, uint32_t flags) const;

    // Valid UTF-8 always. INVALID_ARGUMENT for a token outside of the vocabulary.
    [[nodiscard]] Result<std::string> decode(std::span<const int32_t> tokens) const;

    [[nodiscard]] int32_t vocab_size() const;
    // Special tokens: -1 where the model has none.
    [[nodiscard]] int32_t bos() const;
    [[nodiscard]] int32_t eos() const;
    [[nodiscard]] int32_t unk() const;
    [[nodiscard]] int32_t pad() const;

    // The token spelled exactly `piece`, or NOT_FOUND.
    [[nodiscard]] Result<int32_t> find(std::string_view piece) const;
    // The spelling of a token. INVALID_ARGUMENT for a token outside of the vocabulary.
    [[nodiscard]] Result<std::string> piece(int32_t token) const;

    // The bytes that a token stands for, and what a decoder must know of them.
    struct Surface {
        std::string bytes;     // a byte token's single byte; of control tokens nothing
        bool is_text = false;  // a piece of text, whose leading space may be the encoder's; not a byte, not control
    };
    [[nodiscard]] Result<Surface> surface(int32_t token) const;
    [[nodiscard]] const SentencePieceFacts& facts() const { return facts_; }

  private:
    Tokenizer(std::unique_ptr<sentencepiece::SentencePieceProcessor> processor, SentencePieceFacts facts);
    [[nodiscard]] Result<void> check_token(int32_t token) const;

    std::unique_ptr<const sentencepiece::SentencePieceProcessor> processor_;
    SentencePieceFacts facts_;
};

}  // namespace nanolith
