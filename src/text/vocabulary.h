// The pieces of a tokenizer.json's model and their ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "files/json.h"

namespace nanolith {

class Vocabulary {
  public:
    // Reads {"piece": id, ..}. BAD_MODEL, with `where` in front, for ids that are no numbers, that two pieces have or
    // that leave most of the range unused.
    static Result<Vocabulary> read(const Json& json, const std::string& where);

    // Pieces whose ids are their places. Of those that are the same the last is found.
    explicit Vocabulary(std::vector<std::string> pieces);
    Vocabulary() = default;

    // The id of `piece`, or -1.
    [[nodiscard]] int32_t find(std::string_view piece) const {
        const auto found = ids_.find(piece);
        return found != ids_.end() ? found->second : -1;
    }
    // One more than the highest id.
    [[nodiscard]] int32_t size() const { return static_cast<int32_t>(pieces_.size()); }
    // The piece of an id from 0 to size() - 1, empty where the id is not used.
    [[nodiscard]] const std::string& piece(int32_t id) const { return pieces_[static_cast<size_t>(id)]; }

    // Bytes of the longest piece.
    [[nodiscard]] size_t longest() const { return longest_; }

  private:
    std::vector<std::string> pieces_;
    size_t longest_ = 0;
    std::unordered_map<std::string_view, int32_t> ids_;  // of pieces_
};

// UNSUPPORTED, with `where` in front, where a piece is longer than any that is published: their length bounds the
// search at one place of a text.
Result<void> check_piece_lengths(const Vocabulary& vocabulary, const std::string& where);

}  // namespace nanolith
