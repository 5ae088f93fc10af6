// The page table that all steps share and that lives as long as the engine: a block of entries for each list of pages
// that a step has used. A list that grows writes its new entries alone, so that the cost of a step does not grow with
// the length of its contexts. Not thread-safe: sync() and changes() are for the thread that plans steps; release() may
// be called by any thread that holds the engine's mutex.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"

namespace nanolith {

class PageTable {
  public:
    // The entries of one list of pages. Empty until the list is first synced.
    struct Block {
        int32_t first = 0;
        int32_t capacity = 0;  // a power of two, or 0
        int32_t synced = 0;    // the first so many entries are the list's
    };

    [[nodiscard]] std::span<const int32_t> entries() const { return entries_; }

    // Makes the block's entries those of the list `pages`: the first block.synced of them are right already, so only
    // the pages after these are written. A block that is too small for the list is exchanged for a larger one, into
    // which the whole list is written.
    void sync(Block& block, std::span<const int32_t> pages);
    // Gives the block back, when its list of pages goes: another list may get these entries.
    void release(Block& block) noexcept;

    // Entries written since forget_changes().
    [[nodiscard]] std::span<const TableRange> changes() const { return changes_; }
    void forget_changes() { changes_.clear(); }

  private:
    int32_t take(int32_t capacity);

    static constexpr int32_t kSmallestBlock = 8;
    std::vector<int32_t> entries_;
    std::vector<TableRange> changes_;
    // Free blocks of kSmallestBlock << i entries. Their capacity holds every block of that size there is, so that
    // release() never allocates.
    std::array<std::vector<int32_t>, 29> free_;
    std::array<size_t, 29> made_{};
};

}  // namespace nanolith
