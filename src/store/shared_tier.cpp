#include "store/shared_tier.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/checksum.h"
#include "base/without_exceptions.h"
#include "store/page_checksum.h"

namespace nanolith {
namespace {

// Bytes of a page's pieces. redis-benchmark's four clients get values of 256 KiB to 1 MiB at 4.2 to 4.4 GB/s from a
// server of Redis 7.0 on the same two cores, of 4 MiB at 2.4, and of 8 MiB at 0.7.
constexpr size_t kStoredPieceBytes = size_t{512} << 10;
constexpr int64_t kPiecesAtOnce = 8;    // that a connection is asked for, or given, in one call
constexpr size_t kPassesOfAnswers = 8;  // over a page's bytes: the client library's copies, and the checksum

// `piece`: its number in the chunk.
std::string key_of(const ChunkName& name, int64_t piece) {
    return "nanolith:2:" + name.text() + ":" + std::to_string(piece);
}

SharedStore::Time left_until(SharedTier::Clock::time_point deadline) {
    return std::chrono::ceil<SharedStore::Time>(
        std::max(deadline - SharedTier::Clock::now(), SharedTier::Clock::duration::zero()));
}

// What stands behind a page's bytes in a value.
uint64_t sum_of(std::span<const std::byte> bytes, const Digest& chunk, int64_t piece) {
    std::array<std::byte, sizeof chunk + sizeof piece> bound;
    std::memcpy(bound.data(), chunk.data(), sizeof chunk);
    std::memcpy(bound.data() + sizeof chunk, &piece, sizeof piece);
    return checksum(bytes) ^ checksum(bound);
}

}  // namespace

Result<std::unique_ptr<SharedTier>> SharedTier::open(const std::string& address, size_t page_bytes) {
    NL_ASSIGN(auto first, open_shared_store(address));
    return std::unique_ptr<SharedTier>(new SharedTier(address, page_bytes, std::move(first)));
}

template <typename Use>
auto SharedTier::with_connection(const Use& use) -> decltype(use(std::declval<SharedStore&>())) {
    std::unique_ptr<SharedStore> store;
    {
        const std::lock_guard lock(mutex_);
        if (!idle_.empty()) {
            store = std::move(idle_.back());
            idle_.pop_back();
        }
    }
    if (store == nullptr) {
        NL_ASSIGN(store, open_shared_store(address_));
    }
    auto result = use(*store);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(store));
    return result;
}

int64_t SharedTier::pieces_of_page() const {
    return static_cast<int64_t>(pieces_of(page_bytes_, kStoredPieceBytes));
}

template <typename Byte>
std::span<Byte> SharedTier::piece_in(std::span<Byte> pages, int64_t piece) const {
    const auto page = static_cast<size_t>(piece / pieces_of_page());
    return piece_of(pages.subspan(page * page_bytes_, page_bytes_), static_cast<size_t>(piece % pieces_of_page()),
                    kStoredPieceBytes);
}

Result<bool> SharedTier::read(const ChunkName& name, int64_t first, std::span<std::byte> to, Clock::time_point deadline,
                              ThreadPool& pool) {
    const int64_t count = static_cast<int64_t>(to.size() / page_bytes_) * pieces_of_page();
    const int64_t at_once = std::clamp<int64_t>(count / pool.num_threads(), 1, kPiecesAtOnce);
    std::mutex mutex;
    bool has_all = true;
    std::optional<Error> error;
    const auto cost = cost_of_bytes(static_cast<int64_t>(kPassesOfAnswers * to.size()));
    pool.run((count + at_once - 1) / at_once, cost, [&](int64_t item, int32_t) {
        {
            const std::lock_guard lock(mutex);
            if (!has_all || error) return;
        }
        const int64_t begin = item * at_once;
        bool found = false;
        const Result<void> outcome = without_exceptions([&]() -> Result<void> {
            NL_ASSIGN(found, read_some(name, first, to, begin, std::min(begin + at_once, count), deadline));
            return {};
        });
        const std::lock_guard lock(mutex);
        if (!outcome.ok()) error = outcome.error();
        has_all = has_all && found;
    });
    if (error) return std::move(*error);
    return has_all;
}

Result<bool> SharedTier::read_some(const ChunkName& name, int64_t first, std::span<std::byte> to, int64_t begin,
                                   int64_t end, Clock::time_point deadline) {
    const int64_t of_first_page = first * pieces_of_page();
    std::vector<uint64_t> sums(static_cast<size_t>(end - begin));
    std::vector<SharedStore::Wanted> wanted;
    for (int64_t piece = begin; piece < end; ++piece)
        wanted.push_back({key_of(name, of_first_page + piece), piece_in(to, piece),
                          std::as_writable_bytes(std::span(sums).subspan(wanted.size(), 1))});
    NL_ASSIGN(const size_t filled,
              with_connection([&](SharedStore& store) { return store.read(wanted, left_until(deadline)); }));
    if (filled < wanted.size()) return false;
    for (int64_t piece = begin; piece < end; ++piece) {
        const auto i = static_cast<size_t>(piece - begin);
        if (sums[i] != sum_of(wanted[i].into, name.digest, of_first_page + piece)) return false;
    }
    return true;
}

Result<void> SharedTier::write(const ChunkName& name, int64_t first, std::span<const std::byte> pages,
                               Clock::time_point deadline) {
    return with_connection([&](SharedStore& store) -> Result<void> {
        const int64_t of_first_page = first * pieces_of_page();
        const int64_t count = static_cast<int64_t>(pages.size() / page_bytes_) * pieces_of_page();
        const size_t room_of_value = std::min(kStoredPieceBytes, page_bytes_) + sizeof(uint64_t);
        std::vector<std::byte> room(static_cast<size_t>(std::min(count, kPiecesAtOnce)) * room_of_value);
        for (int64_t begin = 0; begin < count; begin += kPiecesAtOnce) {
            std::vector<SharedStore::Given> given;
            for (int64_t piece = begin; piece < std::min(begin + kPiecesAtOnce, count); ++piece) {
                const auto bytes = piece_in(pages, piece);
                const uint64_t sum = sum_of(bytes, name.digest, of_first_page + piece);
                const auto to = std::span(room).subspan(given.size() * room_of_value, bytes.size() + sizeof sum);
                std::ranges::copy(bytes, to.begin());
                std::ranges::copy(std::as_bytes(std::span(&sum, 1)), to.last(sizeof sum).begin());
                given.push_back({key_of(name, of_first_page + piece), to});
            }
            NL_TRY(store.write(given, left_until(deadline)));
        }
        return {};
    });
}

}  // namespace nanolith
