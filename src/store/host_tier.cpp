#include "store/host_tier.h"

#include <algorithm>

namespace nanolith {

HostTier::HostTier(std::vector<HostMemory> blocks, size_t page_bytes)
    : blocks_(std::move(blocks)), page_bytes_(page_bytes) {
    for (const HostMemory& block : blocks_) {
        first_places_.push_back(static_cast<int32_t>(num_places_));
        num_places_ += static_cast<int64_t>(block.bytes().size() / page_bytes_);
    }
    // The lowest place is on top: a chunk then gets places that follow one another, and few copies.
    for (auto place = static_cast<int32_t>(num_places_); place > 0; --place) free_.push_back(place - 1);
}

std::byte* HostTier::place(int32_t index) const {
    const auto block = std::ranges::upper_bound(first_places_, index) - first_places_.begin() - 1;
    return blocks_[block].bytes().data() + static_cast<size_t>(index - first_places_[block]) * page_bytes_;
}

bool HostTier::make_room(size_t pages) {
    if (pages <= free_.size()) return true;
    std::vector<const Entry*> idle;
    size_t room = free_.size();
    for (const auto& [identity, entry] : entries_) {
        if (entry.use_count() > 1) continue;
        idle.push_back(entry.get());
        room += entry->places.size();
    }
    if (room < pages) return false;
    std::ranges::sort(idle, [](const Entry* a, const Entry* b) { return a->retention.goes_before(b->retention); });
    for (const Entry* entry : idle) {
        if (pages <= free_.size()) break;
        clock_.evicted(entry->retention);
        ++evictions_;
        remove(*entry->identity);
    }
    return true;
}

std::shared_ptr<HostTier::Entry> HostTier::add(const Chunk& chunk) {
    if (const auto known = find(*chunk.identity)) {
        // Level and priority may have changed while the chunk was on the device.
        known->retention.level = chunk.retention.level;
        known->retention.priority = chunk.retention.priority;
        clock_.use(known->retention);
        return nullptr;
    }
    const auto pages = static_cast<size_t>(chunk.pages.size());
    if (!make_room(pages)) return nullptr;
    auto entry = std::make_shared<Entry>();
    entry->identity = chunk.identity;
    entry->retention = chunk.retention;
    clock_.use(entry->retention);
    entry->places.assign(free_.rbegin(), free_.rbegin() + static_cast<std::ptrdiff_t>(pages));
    entries_.emplace(chunk.identity.get(), entry);
    free_.resize(free_.size() - pages);
    return entry;
}

std::shared_ptr<HostTier::Entry> HostTier::find(const ChunkIdentity& identity) {
    const auto found = entries_.find(&identity);
    if (found == entries_.end()) return nullptr;
    clock_.use(found->second->retention);
    return found->second;
}

void HostTier::remove(const ChunkIdentity& identity) {
    const auto found = entries_.find(&identity);
    if (found == entries_.end()) return;
    // Within the capacity that free_ has from the beginning.
    free_.insert(free_.end(), found->second->places.rbegin(), found->second->places.rend());
    entries_.erase(found);
}

LevelCounts HostTier::count_by_level(const Tenant* tenant) const {
    LevelCounts counts;
    for (const auto& [identity, entry] : entries_) {
        if (tenant != nullptr && identity->tenant.get() != tenant) continue;
        counts[static_cast<size_t>(entry->retention.level)].add(static_cast<int64_t>(entry->places.size()));
    }
    return counts;
}

void HostTier::find_memory(const Entry& entry, std::vector<std::span<std::byte>>& parts) const {
    for (const int32_t index : entry.places) {
        std::byte* const data = place(index);
        if (!parts.empty() && parts.back().data() + parts.back().size() == data) {
            parts.back() = {parts.back().data(), parts.back().size() + page_bytes_};
        } else {
            parts.emplace_back(data, page_bytes_);
        }
    }
}

}  // namespace nanolith
