// The checksum of a page in a file of chunks: that of its pieces' checksums, one after the other. So several threads
// read and check a page together, each piece while it is in a core's cache.
#pragma once

#include <algorithm>
#include <vector>

#include "base/checksum.h"

namespace nanolith {

constexpr size_t kPieceBytes = size_t{1} << 20;  // the last piece of a page may be shorter

constexpr size_t pieces_of(size_t page_bytes, size_t piece_bytes = kPieceBytes) {
    return (page_bytes + piece_bytes - 1) / piece_bytes;
}

template <typename Byte>
std::span<Byte> piece_of(std::span<Byte> page, size_t piece, size_t piece_bytes = kPieceBytes) {
    const size_t begin = piece * piece_bytes;
    return page.subspan(begin, std::min(piece_bytes, page.size() - begin));
}

inline uint64_t checksum_of_pieces(std::span<const uint64_t> sums) {
    return checksum(std::as_bytes(sums));
}

inline uint64_t page_checksum(std::span<const std::byte> page) {
    std::vector<uint64_t> sums(pieces_of(page.size()));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = checksum(piece_of(page, i));
    return checksum_of_pieces(sums);
}

}  // namespace nanolith
