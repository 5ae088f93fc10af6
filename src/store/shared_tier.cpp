#include "store/shared_tier.h"

#include <algorithm>
#include <cstring>

#include "base/checksum.h"

namespace nanolith {
namespace {

constexpr size_t kPagesAtOnce = 4;

std::string key_of(const ChunkName& name, int64_t page) {
    return "nanolith:1:" + name.text() + ":" + std::to_string(page);
}

SharedStore::Time left_until(SharedTier::Clock::time_point deadline) {
    return std::chrono::ceil<SharedStore::Time>(
        std::max(deadline - SharedTier::Clock::now(), SharedTier::Clock::duration::zero()));
}

// The value of one page, and behind it what else its checksum is of.
class PageValue {
  public:
    PageValue(size_t page_bytes, const Digest& name, int64_t page)
        : page_bytes_(page_bytes), bytes_(page_bytes + sizeof(uint64_t)), bound_(sizeof name + sizeof page) {
        std::memcpy(bound_.data(), name.data(), sizeof name);
        std::memcpy(bound_.data() + sizeof name, &page, sizeof page);
    }
    [[nodiscard]] std::span<std::byte> value() { return bytes_; }
    [[nodiscard]] std::span<const std::byte> page() const { return std::span(bytes_).first(page_bytes_); }

    void seal(std::span<const std::byte> page) {
        std::memcpy(bytes_.data(), page.data(), page_bytes_);
        const uint64_t sum = expected();
        std::memcpy(bytes_.data() + page_bytes_, &sum, sizeof sum);
    }
    [[nodiscard]] bool is_whole() const {
        uint64_t sum = 0;
        std::memcpy(&sum, bytes_.data() + page_bytes_, sizeof sum);
        return sum == expected();
    }

  private:
    [[nodiscard]] uint64_t expected() const { return checksum(page()) ^ checksum(bound_); }

    size_t page_bytes_;
    std::vector<std::byte> bytes_;
    std::vector<std::byte> bound_;
};

std::vector<PageValue> values_of(size_t count, size_t page_bytes, const Digest& name, int64_t first) {
    std::vector<PageValue> values;
    values.reserve(count);
    for (size_t i = 0; i < count; ++i) values.emplace_back(page_bytes, name, first + static_cast<int64_t>(i));
    return values;
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

Result<bool> SharedTier::read(const ChunkName& name, int64_t first, std::span<std::byte> to,
                              Clock::time_point deadline) {
    return with_connection([&](SharedStore& store) -> Result<bool> {
        const size_t count = to.size() / page_bytes_;
        for (size_t at = 0; at < count; at += kPagesAtOnce) {
            const auto page = first + static_cast<int64_t>(at);
            auto values = values_of(std::min(kPagesAtOnce, count - at), page_bytes_, name.digest, page);
            std::vector<SharedStore::Wanted> wanted;
            for (size_t i = 0; i < values.size(); ++i)
                wanted.push_back({key_of(name, page + static_cast<int64_t>(i)), values[i].value()});
            NL_ASSIGN(const size_t filled, store.read(wanted, left_until(deadline)));
            if (filled < values.size()) return false;
            for (size_t i = 0; i < values.size(); ++i) {
                if (!values[i].is_whole()) return false;
                std::memcpy(&to[(at + i) * page_bytes_], values[i].page().data(), page_bytes_);
            }
        }
        return true;
    });
}

Result<void> SharedTier::write(const ChunkName& name, int64_t first, std::span<const std::byte> pages,
                               Clock::time_point deadline) {
    return with_connection([&](SharedStore& store) -> Result<void> {
        const size_t count = pages.size() / page_bytes_;
        for (size_t at = 0; at < count; at += kPagesAtOnce) {
            const auto page = first + static_cast<int64_t>(at);
            auto values = values_of(std::min(kPagesAtOnce, count - at), page_bytes_, name.digest, page);
            std::vector<SharedStore::Given> given;
            for (size_t i = 0; i < values.size(); ++i) {
                values[i].seal(pages.subspan((at + i) * page_bytes_, page_bytes_));
                given.push_back({key_of(name, page + static_cast<int64_t>(i)), values[i].value()});
            }
            NL_TRY(store.write(given, left_until(deadline)));
        }
        return {};
    });
}

}  // namespace nanolith
