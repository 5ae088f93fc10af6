#include "kv/page_table.h"

#include <algorithm>
#include <bit>

namespace nanolith {
namespace {

constexpr size_t kMostChanges = 4096;

size_t size_class(int32_t capacity, int32_t smallest) {
    return static_cast<size_t>(std::countr_zero(static_cast<uint32_t>(capacity / smallest)));
}

}  // namespace

int32_t PageTable::take(int32_t capacity) {
    const size_t index = size_class(capacity, kSmallestBlock);
    std::vector<int32_t>& free = free_[index];
    if (!free.empty()) {
        const int32_t first = free.back();
        free.pop_back();
        return first;
    }
    free.reserve(std::bit_ceil(made_[index] + 1));
    const size_t first = entries_.size();
    entries_.resize(first + static_cast<size_t>(capacity));
    ++made_[index];
    return static_cast<int32_t>(first);
}

void PageTable::sync(Block& block, std::span<const int32_t> pages) {
    const auto size = static_cast<int32_t>(pages.size());
    if (block.synced == size) return;
    changes_.reserve(changes_.size() + 1);
    if (size > block.capacity) {
        Block larger;
        larger.capacity = std::max(kSmallestBlock, static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(size))));
        larger.first = take(larger.capacity);
        release(block);
        block = larger;
    }
    std::copy(pages.begin() + block.synced, pages.end(), entries_.begin() + block.first + block.synced);
    if (changes_.size() >= kMostChanges) {  // steps that fail keep theirs for the next one
        changes_.assign(1, {0, static_cast<int32_t>(entries_.size())});
    } else {
        changes_.push_back({block.first + block.synced, size - block.synced});
    }
    block.synced = size;
}

void PageTable::release(Block& block) noexcept {
    if (block.capacity > 0) free_[size_class(block.capacity, kSmallestBlock)].push_back(block.first);
    block = Block();
}

}  // namespace nanolith
