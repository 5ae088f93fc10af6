// Fuzzes what reads files of saved chunks. The input is the logarithm of a page size, a number of pages, and either a
// header or the description of chunks, whose checksums are made right: nothing but the checks of sizes, indices and
// tokens stands before what is read. A description that is taken must be the same when it is written and read again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "store/format.h"

namespace {

using namespace nanolith;

constexpr int32_t kVocabulary = 1000;

void read_header(std::span<const std::byte> input, size_t file_bytes) {
    std::vector<std::byte> bytes(input.begin(), input.end());
    if (bytes.size() >= kHeaderBytes) {
        const uint64_t sum = checksum(std::span(bytes).first(kHeaderBytes - sizeof(uint64_t)));
        std::memcpy(bytes.data() + kHeaderBytes - sizeof(sum), &sum, sizeof(sum));
    }
    const auto header = decode_header(bytes, file_bytes, "file");
    if (header.ok() && header->file_bytes() != file_bytes) abort();
}

void read_description(std::span<const std::byte> bytes, int32_t page_size, int64_t num_pages) {
    ChunkStore store;
    Header header;
    header.page_size = page_size;
    header.num_pages = num_pages;
    header.description_checksum = checksum(bytes);
    const auto saved = decode_description(bytes, header, kVocabulary, store, "file");
    if (!saved.ok()) return;
    for (const SavedChunk& chunk : saved->chunks) {
        if (chunk.length < 1 || chunk.length > static_cast<int64_t>(chunk.identity->tokens.size())) abort();
        for (const int32_t token : chunk.identity->tokens)
            if (token < 0 || token >= kVocabulary) abort();
    }
    const auto again = encode_description(*saved);
    if (!again.ok()) abort();
    header.description_checksum = checksum(*again);
    const auto same = decode_description(*again, header, kVocabulary, store, "file");
    if (!same.ok() || same->chunks.size() != saved->chunks.size() || same->tail.has_value() != saved->tail.has_value())
        abort();
    for (size_t i = 0; i < saved->chunks.size(); ++i)
        if (same->chunks[i].identity != saved->chunks[i].identity || same->chunks[i].base != saved->chunks[i].base ||
            same->chunks[i].recomputed != saved->chunks[i].recomputed)
            abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 3) return 0;
    const auto bytes = std::as_bytes(std::span(data, size)).subspan(2);
    if (data[0] >= 128) {
        read_header(bytes, size_t{data[1]} * 4096);
    } else {
        read_description(bytes, 16 << (data[0] % 5), data[1]);
    }
    return 0;
}
