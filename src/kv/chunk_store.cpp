#include "kv/chunk_store.h"

#include <algorithm>

#include "base/checksum.h"

namespace nanolith {
namespace {

bool is_idle(const std::shared_ptr<Chunk>& chunk) {
    return chunk.use_count() == 1 && !chunk->retention.pinned();
}

// Only a bucket index: equality is always checked on the whole identity.
uint64_t hash_identity(std::span<const int32_t> tokens, const ChunkStore::Identities& before, const Tenant* tenant) {
    uint64_t hash = checksum(std::as_bytes(tokens));
    const auto add = [&](const void* pointer) {
        hash = (hash ^ reinterpret_cast<uintptr_t>(pointer)) * 0x9e3779b97f4a7c15U;
    };
    for (const auto& identity : before) add(identity.get());
    add(tenant);
    return hash;
}

}  // namespace

std::shared_ptr<Tenant> ChunkStore::tenant(const Digest& salt) {
    auto& known = tenants_[salt];
    auto tenant = known.lock();
    if (!tenant) known = tenant = std::make_shared<Tenant>(Tenant{salt});
    if (tenants_.size() >= sweep_tenants_at_) {
        std::erase_if(tenants_, [](const auto& entry) { return entry.second.expired(); });
        sweep_tenants_at_ = 2 * tenants_.size() + 64;
    }
    return tenant;
}

std::shared_ptr<const ChunkIdentity> ChunkStore::intern(std::span<const int32_t> tokens, Identities before,
                                                        const std::shared_ptr<Tenant>& tenant) {
    const uint64_t hash = hash_identity(tokens, before, tenant.get());
    const auto [first, last] = identities_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
        auto identity = it->second.lock();
        if (identity && identity->tenant == tenant && identity->before == before &&
            std::ranges::equal(identity->tokens, tokens))
            return identity;
    }
    if (identities_.size() >= sweep_at_) forget_dead_identities();
    auto identity = std::make_shared<const ChunkIdentity>(
        ChunkIdentity{std::vector<int32_t>(tokens.begin(), tokens.end()), std::move(before), tenant});
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
    Retention& retention = it->second->retention;
    retention.level = std::min(retention.level, level);
    clock_.use(retention);
    return it->second;
}

void ChunkStore::insert(const std::shared_ptr<Chunk>& chunk) {
    clock_.use(chunk->retention);
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

LevelCounts ChunkStore::count_by_level(const Tenant* tenant) const {
    LevelCounts counts;
    for (const auto& [identity, chunk] : chunks_)
        if (tenant == nullptr || identity->tenant.get() == tenant)
            counts[static_cast<size_t>(chunk->retention.level)].add(chunk->pages.size());
    return counts;
}

std::vector<std::shared_ptr<Chunk>> ChunkStore::evict(int32_t pages) {
    std::vector<Chunk*> idle;
    for (const auto& [identity, chunk] : chunks_)
        if (is_idle(chunk)) idle.push_back(chunk.get());
    std::ranges::sort(idle, [](const Chunk* a, const Chunk* b) { return a->retention.goes_before(b->retention); });
    std::vector<std::shared_ptr<Chunk>> evicted;
    evicted.reserve(idle.size());
    for (const Chunk* chunk : idle) {
        if (pages <= 0) break;
        pages -= chunk->pages.size();
        const auto found = chunks_.find(chunk->identity.get());
        evicted.push_back(std::move(found->second));
        chunks_.erase(found);
        clock_.evicted(chunk->retention);
        count(*chunk->identity, &StoreNumbers::evictions);
    }
    return evicted;
}

}  // namespace nanolith
