// The "normalizer" of a tokenizer.json: what happens to a text before it is cut into words.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/json.h"

namespace nanolith {

struct NormalText {
    std::string text;      // valid UTF-8
    bool at_start = true;  // its beginning is the original's: nothing was taken away there
};

// One normalisation, or a sequence of them. Immutable, so it may be used from any thread.
class Normalizer {
  public:
    virtual ~Normalizer() = default;
    [[nodiscard]] virtual Result<void> apply(NormalText& text) const = 0;

    // Reads one; null is none, for which the result is a null pointer. Known are BertNormalizer, ByteLevel, NFC, NFD,
    // NFKC, NFKD, Lowercase, Nmt, Precompiled, Prepend, Replace, Sequence, Strip and StripAccents; others are
    // UNSUPPORTED by their name. `where` begins a message.
    static Result<std::unique_ptr<const Normalizer>> read(const Json* json, const std::string& where);
};

}  // namespace nanolith
