// The "Precompiled" normalizer of a tokenizer.json: a SentencePiece model's table of replacements, as the tokenizers
// package applies it. libsentencepiece itself applies it otherwise; see sentencepiece_normalizer.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "files/json_fields.h"
#include "text/charsmap.h"
#include "text/normalizer.h"

namespace nanolith {

class Precompiled final : public Normalizer {
  public:
    // BAD_MODEL where the table is damaged; the message begins with `where`.
    static Result<std::unique_ptr<const Normalizer>> read(const JsonFields& fields, const std::string& where);

    // INVALID_ARGUMENT where the text becomes longer than 1 GiB.
    Result<void> apply(NormalText& normal) const override;

  private:
    explicit Precompiled(std::string_view table) : charsmap_(table) {}

    // Appends what `part` becomes. False where nothing replaces it.
    bool replace(std::string_view part, std::string& out) const;
    void append_grapheme(std::string_view grapheme, std::string& out) const;

    Charsmap charsmap_;
};

}  // namespace nanolith
