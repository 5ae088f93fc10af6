// Reads a file of chunks. Nobody vouches for it: all that is given was checked.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "files/open_file.h"
#include "store/format.h"

namespace nanolith {

class ChunkFileReader {
  public:
    // Reads all but the pages. NOT_FOUND, BAD_FILE, UNSUPPORTED (another format), IO.
    static Result<ChunkFileReader> open(const std::string& path);

    [[nodiscard]] const std::string& path() const { return file_.path(); }
    [[nodiscard]] const Header& header() const { return header_; }
    [[nodiscard]] std::span<const std::byte> description() const { return description_; }
    // Reads pages [first, first + to.size() / page_bytes) on the pool's threads. BAD_FILE: they are not as they were
    // written; `to` has undefined contents then.
    Result<void> read_pages(int64_t first, std::span<std::byte> to, ThreadPool& pool) const;

  private:
    explicit ChunkFileReader(OpenFile file) : file_(std::move(file)) {}
    Result<void> read_all_but_pages();
    Result<void> read_exactly(size_t at, std::span<std::byte> to) const;
    // Reads a piece of a page to its place in `of_page`, and sets `sum` to its checksum. False where it can't be read.
    bool read_piece(int64_t page, size_t piece, std::span<std::byte> of_page, uint64_t& sum) const noexcept;

    OpenFile file_;
    Header header_;
    std::vector<std::byte> description_;
    std::vector<uint64_t> checksums_;
};

}  // namespace nanolith
