#include "store/writer.h"

#include "store/page_checksum.h"

namespace nanolith {

Result<ChunkFileWriter> ChunkFileWriter::create(const std::string& path, Header header,
                                                const std::vector<std::byte>& description) {
    header.description_bytes = description.size();
    header.description_checksum = checksum(description);
    NL_ASSIGN(OutputFile file, OutputFile::create(path));
    std::vector<std::byte> begin = encode_header(header);
    begin.insert(begin.end(), description.begin(), description.end());
    begin.resize(header.pages_begin());
    NL_TRY(file.write(begin));
    ChunkFileWriter writer(std::move(file), header);
    writer.checksums_.reserve(static_cast<size_t>(header.num_pages) + 1);
    return writer;
}

Result<void> ChunkFileWriter::add_pages(std::span<const std::byte> pages) {
    const auto page_bytes = static_cast<size_t>(header_.page_bytes);
    for (size_t begin = 0; begin < pages.size(); begin += page_bytes)
        checksums_.push_back(page_checksum(pages.subspan(begin, page_bytes)));
    return file_.write(pages);
}

Result<void> ChunkFileWriter::finish() {
    if (checksums_.size() != static_cast<size_t>(header_.num_pages))
        return fail(NL_ERROR_INTERNAL, checksums_.size(), " pages were written: expected ", header_.num_pages);
    checksums_.push_back(checksum(std::as_bytes(std::span(checksums_))));
    NL_TRY(file_.write(std::as_bytes(std::span(checksums_))));
    return file_.finish();
}

}  // namespace nanolith
