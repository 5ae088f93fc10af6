// Writes a file of chunks: what it holds, then its pages in order.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "store/format.h"
#include "store/output_file.h"

namespace nanolith {

class ChunkFileWriter {
  public:
    // `description` is encode_description's of what is saved; `header` has its sizes and checksum yet to be set.
    static Result<ChunkFileWriter> create(const std::string& path, Header header,
                                          const std::vector<std::byte>& description);
    // The next pages.
    Result<void> add_pages(std::span<const std::byte> pages);
    // To be called after the last page: the file is there, whole.
    Result<void> finish();

  private:
    ChunkFileWriter(OutputFile file, const Header& header) : file_(std::move(file)), header_(header) {}

    OutputFile file_;
    Header header_;
    std::vector<uint64_t> checksums_;
};

}  // namespace nanolith
