// Pages of more than one piece: several threads read one together, and a flipped bit of any piece is found.
#include "store/reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "store/page_checksum.h"
#include "store/writer.h"
#include "support/temp_folder.h"

namespace nanolith {
namespace {

constexpr size_t kLongPage = 2 * kPieceBytes + 4096;
constexpr int64_t kPages = 3;

class LongPages : public ::testing::Test {
  protected:
    LongPages() : bytes(kLongPage * kPages) {
        std::mt19937_64 random(std::random_device{}());
        for (size_t at = 0; at < bytes.size(); at += 8) {
            const uint64_t word = random();
            std::memcpy(&bytes[at], &word, 8);
        }
        header.page_size = 16;
        header.page_bytes = static_cast<int64_t>(kLongPage);
        header.num_pages = kPages;
        auto file = ChunkFileWriter::create(path, header, std::vector<std::byte>(100));
        EXPECT_TRUE(file.ok());
        EXPECT_TRUE(file->add_pages(std::span(bytes).first(kLongPage)).ok());
        EXPECT_TRUE(file->add_pages(std::span(bytes).subspan(kLongPage)).ok());
        EXPECT_TRUE(file->finish().ok());
    }
    Result<std::vector<std::byte>> read(int64_t first, int64_t count) {
        NL_ASSIGN(const ChunkFileReader file, ChunkFileReader::open(path));
        std::vector<std::byte> to(static_cast<size_t>(count) * kLongPage);
        NL_TRY(file.read_pages(first, to, *pool));
        return to;
    }

    const test::TempFolder folder;
    const std::string path = folder.file("chunks");
    const std::unique_ptr<ThreadPool> pool = ThreadPool::create(4);
    std::vector<std::byte> bytes;
    Header header;
};

TEST_F(LongPages, ComeBack) {
    const auto all = read(0, kPages);
    ASSERT_TRUE(all.ok()) << all.error().message;
    EXPECT_EQ(*all, bytes);
    const auto last = read(2, 1);
    ASSERT_TRUE(last.ok()) << last.error().message;
    EXPECT_TRUE(std::ranges::equal(*last, std::span(bytes).last(kLongPage)));
}

TEST_F(LongPages, AFlippedBitOfAnyPieceIsFound) {
    const size_t begin = 4096;  // of the first page: after the header and a description of 100 bytes
    for (const size_t at : {size_t{0}, kPieceBytes - 1, kPieceBytes, 2 * kPieceBytes + 4095}) {
        std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
        const auto flip = [&] {
            const auto place = static_cast<std::streamoff>(begin + kLongPage + at);
            file.seekg(place);
            const int byte = file.get();
            file.seekp(place);
            file.put(static_cast<char>(byte ^ 4));
            file.flush();
        };
        flip();
        const auto damaged = read(0, kPages);
        ASSERT_FALSE(damaged.ok()) << at;
        EXPECT_EQ(damaged.error().status, NL_ERROR_BAD_FILE);
        EXPECT_NE(damaged.error().message.find("page 1 of 3"), std::string::npos) << damaged.error().message;
        EXPECT_TRUE(read(0, 1).ok());
        flip();
        EXPECT_TRUE(read(0, kPages).ok());
    }
}

}  // namespace
}  // namespace nanolith
