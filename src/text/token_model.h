// The "model" of a tokenizer.json: what makes tokens of words.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/json.h"
#include "text/vocabulary.h"

namespace nanolith {

// What is said of a word that a model has no piece for, and no unknown token either.
inline Error unknown_word(std::string_view word) {
    return fail(NL_ERROR_INVALID_ARGUMENT, "the text has the word ", show_json(word),
                ": expected words that the vocabulary has pieces for, since it has no unknown token");
}

// Immutable, so it may be used from any thread.
class TokenModel {
  public:
    TokenModel() = default;
    TokenModel(const TokenModel&) = delete;
    TokenModel& operator=(const TokenModel&) = delete;
    virtual ~TokenModel() = default;

    [[nodiscard]] virtual const Vocabulary& vocabulary() const = 0;
    // The unknown token, -1 where there is none.
    [[nodiscard]] virtual int32_t unk() const = 0;

    // Encodes words one after the other. For one thread.
    class Encoder {
      public:
        Encoder() = default;
        Encoder(const Encoder&) = delete;
        Encoder& operator=(const Encoder&) = delete;
        virtual ~Encoder() = default;
        // Appends the tokens of `word`, which is not empty and less than 2 GiB.
        [[nodiscard]] virtual Result<void> encode(std::string_view word, std::vector<int32_t>& tokens) = 0;
    };
    // `text_bytes`: about how much will be encoded. The model must outlive the encoder.
    [[nodiscard]] virtual std::unique_ptr<Encoder> make_encoder(size_t text_bytes) const = 0;
};

}  // namespace nanolith
