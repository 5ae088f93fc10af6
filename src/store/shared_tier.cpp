#include "store/shared_tier.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/checksum.h"
#include "base/without_exceptions.h"

namespace nanolith {
namespace {

constexpr int64_t kPagesAtOnce = 4;
constexpr size_t kPassesOfAnswers = 8;  // over a page's bytes: the client library's copies, and the checksum

std::string key_of(const ChunkName& name, int64_t page) {
    return "nanolith:1:" + name.text() + ":" + std::to_string(page);
}

SharedStore::Time left_until(SharedTier::Clock::time_point deadline) {
    return std::chrono::ceil<SharedStore::Time>(
        std::max(deadline - SharedTier::Clock::now(), SharedTier::Clock::duration::zero()));
}

// What stands behind a page in its value.
uint64_t sum_of(std::span<const std::byte> bytes, const Digest& chunk, int64_t page) {
    std::array<std::byte, sizeof chunk + sizeof page> bound;
    std::memcpy(bound.data(), chunk.data(), sizeof chunk);
    std::memcpy(bound.data() + sizeof chunk, &page, sizeof page);
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

Result<bool> SharedTier::read(const ChunkName& name, int64_t first, std::span<std::byte> to, Clock::time_point deadline,
                              ThreadPool& pool) {
    const auto count = static_cast<int64_t>(to.size() / page_bytes_);
    const int64_t at_once = std::clamp<int64_t>(count / pool.num_threads(), 1, kPagesAtOnce);
    std::mutex mutex;
    bool has_all = true;
    std::optional<Error> error;
    const auto cost = cost_of_bytes(static_cast<int64_t>(kPassesOfAnswers * to.size()));
    pool.run((count + at_once - 1) / at_once, cost, [&](int64_t item, int32_t) {
        const int64_t page = item * at_once;
        const int64_t pages = std::min(at_once, count - page);
        {
            const std::lock_guard lock(mutex);
            if (!has_all || error) return;
        }
        bool found = false;
        const Result<void> outcome = without_exceptions([&]() -> Result<void> {
            const auto part =
                to.subspan(static_cast<size_t>(page) * page_bytes_, static_cast<size_t>(pages) * page_bytes_);
            NL_ASSIGN(found, read_some(name, first + page, part, deadline));
            return {};
        });
        const std::lock_guard lock(mutex);
        if (!outcome.ok()) error = outcome.error();
        has_all = has_all && found;
    });
    if (error) return std::move(*error);
    return has_all;
}

Result<bool> SharedTier::read_some(const ChunkName& name, int64_t first, std::span<std::byte> to,
                                   Clock::time_point deadline) {
    const size_t count = to.size() / page_bytes_;
    std::vector<uint64_t> sums(count);
    std::vector<SharedStore::Wanted> wanted;
    for (size_t i = 0; i < count; ++i)
        wanted.push_back({key_of(name, first + static_cast<int64_t>(i)), to.subspan(i * page_bytes_, page_bytes_),
                          std::as_writable_bytes(std::span(&sums[i], 1))});
    NL_ASSIGN(const size_t filled,
              with_connection([&](SharedStore& store) { return store.read(wanted, left_until(deadline)); }));
    if (filled < count) return false;
    for (size_t i = 0; i < count; ++i)
        if (sums[i] != sum_of(wanted[i].into, name.digest, first + static_cast<int64_t>(i))) return false;
    return true;
}

Result<void> SharedTier::write(const ChunkName& name, int64_t first, std::span<const std::byte> pages,
                               Clock::time_point deadline) {
    return with_connection([&](SharedStore& store) -> Result<void> {
        const size_t value_bytes = page_bytes_ + sizeof(uint64_t);
        const size_t count = pages.size() / page_bytes_;
        std::vector<std::byte> values(std::min<size_t>(count, kPagesAtOnce) * value_bytes);
        for (size_t at = 0; at < count; at += kPagesAtOnce) {
            std::vector<SharedStore::Given> given;
            for (size_t i = 0; i < std::min<size_t>(count - at, kPagesAtOnce); ++i) {
                const auto bytes = pages.subspan((at + i) * page_bytes_, page_bytes_);
                const int64_t page = first + static_cast<int64_t>(at + i);
                const uint64_t sum = sum_of(bytes, name.digest, page);
                const auto value = std::span(values).subspan(i * value_bytes, value_bytes);
                std::ranges::copy(bytes, value.begin());
                std::ranges::copy(std::as_bytes(std::span(&sum, 1)), value.last(sizeof sum).begin());
                given.push_back({key_of(name, page), value});
            }
            NL_TRY(store.write(given, left_until(deadline)));
        }
        return {};
    });
}

}  // namespace nanolith
