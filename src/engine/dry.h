// DRY ("don't repeat yourself") as llama.cpp defines it: where the last tokens of the context occurred in it before,
// the token that followed them there gets a lower logit, the lower the more tokens are repeated.
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

// Texts that end a repetition, as sequences of tokens: a head, the token within which the text begins, and a tail, the
// tokens of the rest of the text where it is longer than the head. The tail is empty where the head has the whole text.
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
    // Adds the sequences whose head is this token, which stands for `bytes`. `rests[n]` has the tokens of the text from
    // byte n on; those that are empty are filled when they are needed.
    Result<void> add_token(int32_t token, std::string_view bytes, const std::string& text, const Tokenizer& tokenizer,
                           std::span<std::vector<int32_t>> rests);

    std::vector<Sequence> sequences_;  // sorted by head
};

struct DryRule {
    float multiplier = 0;
    float base = 1.75F;
    int32_t allowed_length = 2;
};

// Appends an edit for each token that would continue a repetition. `history`: the latest tokens of the context, those
// that NL_OPTION_DRY_WINDOW includes. Takes time proportional to their number.
void add_dry_edits(std::span<const int32_t> history, const DryRule& rule, const DryBreakers& breakers,
                   std::vector<LogitEdit>& edits);

}  // namespace nanolith
