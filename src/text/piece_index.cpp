#include "text/piece_index.h"

namespace nanolith {

void PieceIndex::add(std::string_view piece, int32_t value) {
    if (piece.empty()) return;
    entries_.push_back({piece, value});
    longest_ = std::max(longest_, piece.size());
}

void PieceIndex::finish() {
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.piece < b.piece; });
    const auto same = [](const Entry& a, const Entry& b) { return a.piece == b.piece; };
    const auto kept = std::unique(entries_.rbegin(), entries_.rend(), same);
    entries_.erase(entries_.begin(), kept.base());
    entries_.shrink_to_fit();
    for (const Entry& entry : entries_) ++first_byte_[static_cast<uint8_t>(entry.piece[0]) + 1U];
    for (size_t byte = 1; byte < first_byte_.size(); ++byte) first_byte_[byte] += first_byte_[byte - 1];
}

}  // namespace nanolith
