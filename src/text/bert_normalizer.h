// The "BertNormalizer" of a tokenizer.json.
#pragma once

#include <memory>

#include "base/result.h"
#include "files/json_fields.h"
#include "text/normalizer.h"

namespace nanolith {

class BertNormalizer final : public Normalizer {
  public:
    static Result<std::unique_ptr<const Normalizer>> read(const JsonFields& fields);

    Result<void> apply(NormalText& normal) const override;

  private:
    bool clean_text_ = true;            // control characters go, white space becomes spaces
    bool handle_chinese_chars_ = true;  // spaces around ideographs
    bool strip_accents_ = true;
    bool lowercase_ = true;
};

// Takes the accents away: marks of category M. The text is not decomposed before.
class StripAccents final : public Normalizer {
  public:
    Result<void> apply(NormalText& normal) const override;
};

}  // namespace nanolith
