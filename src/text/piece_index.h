// Finds which strings of a set begin at a place of a text.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace nanolith {

// Immutable once it is finished, so it may be used from any thread.
class PieceIndex {
  public:
    // `piece` is found with `value`. It must outlive this. An empty one is never found.
    void add(std::string_view piece, int32_t value);
    // Must follow the last add. Of pieces that are the same the last counts.
    void finish();

    [[nodiscard]] bool empty() const { return entries_.empty(); }
    // Bytes of the longest piece, 0 where there is none.
    [[nodiscard]] size_t longest() const { return longest_; }

    struct Match {
        size_t length = 0;  // 0: nothing is found
        int32_t value = -1;
    };
    // The longest piece that `text` begins with.
    [[nodiscard]] Match longest_at(std::string_view text) const {
        Match longest;
        for_each_at(text, [&](const Match& match) { longest = match; });
        return longest;
    }

    // Calls `found` with every piece that `text` begins with, the shortest first.
    template <typename Found>
    void for_each_at(std::string_view text, Found&& found) const;

  private:
    struct Entry {
        std::string_view piece;
        int32_t value;
    };

    std::vector<Entry> entries_;              // sorted
    std::array<uint32_t, 257> first_byte_{};  // the pieces that begin with byte b: first_byte_[b] to [b + 1]
    size_t longest_ = 0;
};

template <typename Found>
void PieceIndex::for_each_at(std::string_view text, Found&& found) const {
    if (text.empty()) return;
    const auto byte = static_cast<uint8_t>(text[0]);
    const Entry* low = entries_.data() + first_byte_[byte];
    const Entry* high = entries_.data() + first_byte_[byte + 1U];
    // low to high are the pieces that begin with the first `depth` bytes of the text.
    for (size_t depth = 1; low != high; ++depth) {
        if (low->piece.size() == depth) {
            found(Match{depth, low->value});
            ++low;
        }
        if (depth == text.size()) break;
        const auto next = static_cast<uint8_t>(text[depth]);
        const auto at = [depth](const Entry& entry) { return static_cast<uint8_t>(entry.piece[depth]); };
        low = std::partition_point(low, high, [&](const Entry& entry) { return at(entry) < next; });
        high = std::partition_point(low, high, [&](const Entry& entry) { return at(entry) <= next; });
    }
}

}  // namespace nanolith
