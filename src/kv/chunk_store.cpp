#include "kv/chunk_store.h"

#include <algorithm>

#include "base/checksum.h"

namespace nanolith {
namespace {

bool is_idle(const std::shared_ptr<Chunk>& chunk) {
    return chunk.use_count() == 1;
}

// Only a bucket index: equality is always checked on the whole identity.
uint64_t hash_identity(std::span<const int32_t> tokens, const ChunkStore::Identities& before) {
    uint64_t hash = checksum(std::as_bytes(tokens));
    for (const auto& identity : before)
        hash = (hash ^ reinterpret_cast<uintptr_t>(identity.get())) * 0x9e3779b97f4a7c15U;
    return hash;
}

}  // namespace

std::shared_ptr<const ChunkIdentity> ChunkStore::intern(std::span<const int32_t> tokens, Identities before) {
    const uint64_t hash = hash_identity(tokens, before);
    const auto [first, last] = identities_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
        auto identity = it->second.lock();
        if (identity && identity->before == before && std::ranges::equal(identity->tokens, tokens)) return identity;
    }
    if (identities_.size() >= sweep_at_) forget_dead_identities();
    auto identity = std::make_shared<const ChunkIdentity>(
        ChunkIdentity{std::vector<int32_t>(tokens.begin(), tokens.end()), std::move(before)});
    identities_.emplace(hash, identity);
    return identity;
}

void ChunkStore::forget_dead_identities() {
    std::erase_if(identities_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = 2 * identities_.size() + 64;
}

std::shared_ptr<Chunk> ChunkStore::find(const ChunkIdentity& identity, int32_t level) {
    const auto it = chunks_.find(&identity);
    if (it == chunks_.end()) return nullptr;
    it->second->last_used = ++ticks_;
    it->second->level = std::min(it->second->level, level);
    return it->second;
}

void ChunkStore::insert(const std::shared_ptr<Chunk>& chunk) {
    chunk->last_used = ++ticks_;
    chunks_.emplace(chunk->identity.get(), chunk);
}

void ChunkStore::remove(const Chunk& chunk) {
    chunks_.erase(chunk.identity.get());
}

int32_t ChunkStore::evictable_pages() const {
    int32_t pages = 0;
    for (const auto& [identity, chunk] : chunks_)
        if (is_idle(chunk)) pages += chunk->pages.size();
    return pages;
}

LevelCounts ChunkStore::count_by_level() const {
    LevelCounts counts;
    for (const auto& [identity, chunk] : chunks_) {
        LevelCount& count = counts[static_cast<size_t>(chunk->level)];
        ++count.chunks;
        count.pages += chunk->pages.size();
    }
    return counts;
}

std::vector<std::shared_ptr<Chunk>> ChunkStore::evict(int32_t pages) {
    std::vector<Chunk*> idle;
    for (const auto& [identity, chunk] : chunks_)
        if (is_idle(chunk)) idle.push_back(chunk.get());
    std::ranges::sort(idle, [](const Chunk* a, const Chunk* b) {
        return a->level != b->level ? a->level > b->level : a->last_used < b->last_used;
    });
    std::vector<std::shared_ptr<Chunk>> evicted;
    evicted.reserve(idle.size());
    for (const Chunk* chunk : idle) {
        if (pages <= 0) break;
        pages -= chunk->pages.size();
        const auto found = chunks_.find(chunk->identity.get());
        evicted.push_back(std::move(found->second));
        chunks_.erase(found);
        ++evictions_;
    }
    return evicted;
}

}  // namespace nanolith
