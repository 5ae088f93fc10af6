#include "store/reader.h"

#include <algorithm>
#include <atomic>

#include "store/page_checksum.h"

namespace nanolith {
namespace {

constexpr size_t kPassesOfReading = 4;  // over the bytes: the system's copy, and the checksum

}  // namespace

Result<ChunkFileReader> ChunkFileReader::open(const std::string& path) {
    auto file = OpenFile::open(path);
    if (!file.ok()) {
        // A folder or a device is a bad file of chunks, not a bad model.
        if (file.error().status == NL_ERROR_BAD_MODEL) file.error().status = NL_ERROR_BAD_FILE;
        return std::move(file.error());
    }
    ChunkFileReader reader(std::move(*file));
    NL_TRY(reader.read_all_but_pages());
    return reader;
}

Result<void> ChunkFileReader::read_all_but_pages() {
    std::vector<std::byte> begin(std::min(kHeaderBytes, file_.size()));
    NL_TRY(read_exactly(0, begin));
    NL_ASSIGN(header_, decode_header(begin, file_.size(), path()));
    description_.resize(header_.pages_begin() - kHeaderBytes);
    NL_TRY(read_exactly(kHeaderBytes, description_));
    const auto zeros = std::span(description_).subspan(header_.description_bytes);
    if (std::ranges::any_of(zeros, [](std::byte byte) { return byte != std::byte{0}; }))
        return fail(NL_ERROR_BAD_FILE, path(), ": there is something between its description and its pages");
    description_.resize(header_.description_bytes);
    checksums_.resize(static_cast<size_t>(header_.num_pages) + 1);
    NL_TRY(read_exactly(header_.checksums_begin(), std::as_writable_bytes(std::span(checksums_))));
    const uint64_t sum = checksums_.back();
    checksums_.pop_back();
    if (sum != checksum(std::as_bytes(std::span(checksums_))))
        return fail(NL_ERROR_BAD_FILE, path(), ": its checksums are damaged");
    return {};
}

Result<void> ChunkFileReader::read_exactly(size_t at, std::span<std::byte> to) const {
    NL_ASSIGN(const size_t count, file_.read_at(at, to.size(), to.data()));
    if (count < to.size())
        return fail(NL_ERROR_BAD_FILE, path(), ": it was cut short while it was read, at byte ", at + count);
    return {};
}

bool ChunkFileReader::read_piece(int64_t page, size_t piece, std::span<std::byte> of_page,
                                 uint64_t& sum) const noexcept {
    const auto to = piece_of(of_page, piece);
    const size_t at = header_.pages_begin() + static_cast<size_t>(page) * of_page.size() + piece * kPieceBytes;
    if (file_.read_some(at, to.size(), to.data()) != to.size()) return false;
    sum = checksum(to);
    return true;
}

Result<void> ChunkFileReader::read_pages(int64_t first, std::span<std::byte> to, ThreadPool& pool) const {
    const auto page_bytes = static_cast<size_t>(header_.page_bytes);
    const size_t pieces = pieces_of(page_bytes);
    const size_t count = to.size() / page_bytes;
    std::vector<uint64_t> sums(count * pieces);
    std::atomic<size_t> bad = count;  // index of a page that is damaged or could not be read; `count`: there is none
    const auto cost = cost_of_bytes(static_cast<int64_t>(kPassesOfReading * to.size()));
    pool.run(static_cast<int64_t>(sums.size()), cost, [&](int64_t i, int32_t) {
        const auto page = static_cast<size_t>(i) / pieces;
        const auto of_page = to.subspan(page * page_bytes, page_bytes);
        if (!read_piece(first + static_cast<int64_t>(page), static_cast<size_t>(i) % pieces, of_page, sums[i]))
            bad = page;
    });
    for (size_t page = 0; page < count; ++page) {
        const uint64_t sum = checksum_of_pieces(std::span(sums).subspan(page * pieces, pieces));
        if (sum != checksums_[static_cast<size_t>(first) + page]) bad = page;
    }
    if (bad < count)
        return fail(NL_ERROR_BAD_FILE, path(), ": page ", static_cast<size_t>(first) + bad, " of ", header_.num_pages,
                    " is damaged or could not be read");
    return {};
}

}  // namespace nanolith
