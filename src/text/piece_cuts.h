// Places where a text can be cut without changing its tokens.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "text/piece_index.h"

namespace nanolith {

// A place between two characters is free where no piece of a vocabulary that occurs in the text reaches across it.
// Merges of a byte-pair encoding make pieces only, and every segmentation into pieces and single characters has a
// boundary there; so the tokens on both sides are the same whether the sides stand together or alone.
class PieceCuts {
  public:
    PieceCuts() = default;
    // `index` has every piece that may become a token. `before_spaces_only`: for vocabularies that know whole words
    // alone, which begin with a space symbol.
    explicit PieceCuts(PieceIndex index, bool before_spaces_only = false)
        : index_(std::move(index)), before_spaces_only_(before_spaces_only) {}

    // The first free place of `text` that is at least `from` (1 or more) or, where there is none, the last one before
    // it; nothing where there is none at all. `goes_on`: what follows on the text is not known, so that a piece may
    // reach across its last bytes. `text` is valid UTF-8.
    [[nodiscard]] std::optional<size_t> find(std::string_view text, size_t from, bool goes_on) const;

  private:
    PieceIndex index_;
    bool before_spaces_only_ = false;
};

}  // namespace nanolith
