// DRY ("don't repeat yourself") as llama.cpp defines it: a token that would continue a repetition of what stands at the
// end of the context is made the less probable the longer the repetition is.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/batch.h"
#include "text/tokenizer.h"

namespace nanolith {

// Texts across which no repetition is counted, as sequences of tokens: a first token, within which the text begins, and
// those that follow it where the text goes on after that token.
class DryBreakers {
  public:
    DryBreakers() = default;
    // Looks at every token of the vocabulary: milliseconds. INVALID_ARGUMENT where a text can't be encoded.
    static Result<DryBreakers> make(std::span<const std::string> texts, const Tokenizer& tokenizer);

    // How many tokens of `history` follow the last of these texts; all of them where there is none.
    [[nodiscard]] size_t tokens_after_last(std::span<const int32_t> history) const;
    // Whether the token contains one of the texts whole.
    [[nodiscard]] bool contains(int32_t token) const;

  private:
    struct Sequence {
        int32_t head;
        std::vector<int32_t> tail;
    };
    [[nodiscard]] std::span<const Sequence> sequences_of(int32_t head) const;
    // `rests[n]` gets the tokens of the text from byte n on, once they are needed.
    Result<void> add_token(int32_t token, std::string_view bytes, const std::string& text, const Tokenizer& tokenizer,
                           std::span<std::vector<int32_t>> rests);

    std::vector<Sequence> sequences_;  // by head
};

struct DryRule {
    float multiplier = 0;
    float base = 1.75F;
    int32_t allowed_length = 2;
};

// Appends an edit for each token that continues a repetition. `history` is the end of the context, as much as counts.
// Takes time proportional to it.
void add_dry_edits(std::span<const int32_t> history, const DryRule& rule, const DryBreakers& breakers,
                   std::vector<LogitEdit>& edits);

}  // namespace nanolith
