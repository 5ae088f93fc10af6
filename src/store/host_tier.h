// Chunks that were evicted from the device and whose pages are kept in memory of the host, from where they come back
// faster than they are computed. The books alone: who copies the pages, asks here where they go. Not thread-safe; the
// engine's mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend/host_memory.h"
#include "kv/chunk_store.h"

namespace nanolith {

class HostTier {
  public:
    // Memory for pages of `page_bytes` bytes; each block holds a whole number of them.
    HostTier(std::vector<HostMemory> blocks, size_t page_bytes);

    struct Entry {
        std::shared_ptr<const ChunkIdentity> identity;
        Retention retention;
        std::vector<int32_t> places;  // of its pages, in order
        bool failed = false;          // its pages did not come down
    };

    // Makes an entry for the chunk, whose pages the caller fills. Entries that nobody holds are removed to make room,
    // in the order of Retention::goes_before. Null where there is no room, or where the chunk has an entry already:
    // that takes over the chunk's level and priority.
    std::shared_ptr<Entry> add(const Chunk& chunk);
    // Null where there is none. Counts as a use.
    std::shared_ptr<Entry> find(const ChunkIdentity& identity);
    void remove(const ChunkIdentity& identity);

    // Appends the memory of an entry's pages, in order: stretches of consecutive ones, at most one for each page.
    void find_memory(const Entry& entry, std::vector<std::span<std::byte>>& parts) const;

    [[nodiscard]] int64_t num_chunks() const { return static_cast<int64_t>(entries_.size()); }
    [[nodiscard]] int64_t bytes() const {
        return (num_places_ - static_cast<int64_t>(free_.size())) * static_cast<int64_t>(page_bytes_);
    }
    // Of all, or of one tenant's.
    [[nodiscard]] LevelCounts count_by_level(const Tenant* tenant) const;
    [[nodiscard]] int64_t evictions() const { return evictions_; }

  private:
    bool make_room(size_t pages);
    [[nodiscard]] std::byte* place(int32_t index) const;

    std::vector<HostMemory> blocks_;
    const size_t page_bytes_;
    std::vector<int32_t> first_places_;  // of each block: its first place
    int64_t num_places_ = 0;
    std::vector<int32_t> free_;
    std::unordered_map<const ChunkIdentity*, std::shared_ptr<Entry>> entries_;
    RetentionClock clock_;
    int64_t evictions_ = 0;
};

}  // namespace nanolith
