// WordLevel: a "model" of a tokenizer.json. A word is one token, known or not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "files/json.h"
#include "text/token_model.h"
#include "text/vocabulary.h"

namespace nanolith {

class WordLevel final : public TokenModel {
  public:
    // BAD_MODEL begins with `where`.
    static Result<std::unique_ptr<const WordLevel>> read(const Json& json, const std::string& where);

    [[nodiscard]] const Vocabulary& vocabulary() const override { return vocabulary_; }
    [[nodiscard]] int32_t unk() const override { return unk_; }
    [[nodiscard]] std::unique_ptr<TokenModel::Encoder> make_encoder(size_t text_bytes) const override;

  private:
    class Encoder;

    WordLevel() = default;

    Vocabulary vocabulary_;
    int32_t unk_ = -1;
};

}  // namespace nanolith
