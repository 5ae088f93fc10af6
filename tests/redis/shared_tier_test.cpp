// Pages of chunks upon a real redis-server, of sizes that are cut into no, one and many whole pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>

#include "redis_server.h"
#include "shared_stores.h"
#include "store/shared_tier.h"

namespace nanolith::testing {
namespace {

// A chunk is written a few pages at a time, and any of its pages that follow each other can be read, by any number of
// threads. Pages behind the last one are not there.
TEST(SharedTier, GivesAnyPagesOfAChunk) {
    const RedisServer server;
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    constexpr size_t kPiece = size_t{512} << 10;
    const auto deadline = [] { return SharedTier::Clock::now() + kHangs; };
    const auto pool = ThreadPool::create(3);
    ChunkName name{};
    int chunks = 0;  // each has a name of its own
    for (const size_t page_bytes : {size_t{1} + random() % 2000, kPiece, kPiece + 1 + random() % 1000,
                                    3 * kPiece - random() % kPiece, size_t{1} + random() % (4 * kPiece)}) {
        SCOPED_TRACE("pages of " + std::to_string(page_bytes) + " bytes");
        const auto tier = SharedTier::open(server.address(), page_bytes);
        ASSERT_TRUE(tier.ok()) << tier.error().message;
        name.digest.front() = static_cast<std::byte>(chunks++);
        const size_t pages = 2 + random() % 20;
        const Bytes chunk = random_bytes(random, pages * page_bytes);
        for (size_t first = 0; first < pages;) {
            const size_t count = std::min<size_t>(1 + random() % 9, pages - first);
            const auto part = std::span(chunk).subspan(first * page_bytes, count * page_bytes);
            ASSERT_TRUE((*tier)->write(name, static_cast<int64_t>(first), part, deadline()).ok());
            first += count;
        }
        for (int turn = 0; turn < 6; ++turn) {
            const size_t first = random() % pages;
            const size_t count = 1 + random() % (pages - first);
            Bytes read(count * page_bytes);
            const auto found = (*tier)->read(name, static_cast<int64_t>(first), read, deadline(), *pool);
            ASSERT_TRUE(found.ok()) << found.error().message;
            EXPECT_TRUE(*found);
            EXPECT_TRUE(std::ranges::equal(read, std::span(chunk).subspan(first * page_bytes, read.size())))
                << count << " pages from page " << first;
        }
        Bytes behind(2 * page_bytes);
        const auto found = (*tier)->read(name, static_cast<int64_t>(pages) - 1, behind, deadline(), *pool);
        ASSERT_TRUE(found.ok()) << found.error().message;
        EXPECT_FALSE(*found);
    }
}

}  // namespace
}  // namespace nanolith::testing
