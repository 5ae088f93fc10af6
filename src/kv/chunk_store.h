// Chunks and the store that keeps them. A chunk is found again by its identity: its tokens, and the identities of the
// chunks after which it was computed; so exact composition is a prefix tree. Chunks that nobody uses stay in the store
// until pages run short. Not thread-safe; the engine's mutex guards all of it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/digest.h"
#include "kv/page_pool.h"
#include "nanolith/nanolith.h"

namespace nanolith {

// Interned by the store: equal identities are the same object, so that comparing pointers is enough. It outlives the
// chunk's pages if a chunk that was computed after it lives longer.
struct ChunkIdentity {
    std::vector<int32_t> tokens;
    std::vector<std::shared_ptr<const ChunkIdentity>> before;
    mutable std::optional<Digest> name = std::nullopt;  // outside the engine, once it was asked for (name_of)
};

struct Chunk {
    Chunk(std::shared_ptr<const ChunkIdentity> what, int32_t cascade_level, PageList page_list)
        : identity(std::move(what)), level(cascade_level), pages(std::move(page_list)) {}

    enum class State { computing, ready, failed };
    enum class Origin : int32_t {
        computed = NL_ORIGIN_COMPUTED,
        host = NL_ORIGIN_HOST,
        file = NL_ORIGIN_FILE,
        server = NL_ORIGIN_SERVER
    };

    std::shared_ptr<const ChunkIdentity> identity;
    int32_t level;
    PageList pages;
    State state = State::computing;
    Origin origin = Origin::computed;  // where its pages came from
    uint64_t last_used = 0;            // ticks of the store

    [[nodiscard]] int32_t num_tokens() const { return static_cast<int32_t>(identity->tokens.size()); }
};

// Chunks of one level, and the pages that they have.
struct LevelCount {
    int64_t chunks = 0, pages = 0;
};
using LevelCounts = std::array<LevelCount, 3>;

class ChunkStore {
  public:
    using Identities = std::vector<std::shared_ptr<const ChunkIdentity>>;

    std::shared_ptr<const ChunkIdentity> intern(std::span<const int32_t> tokens, Identities before);

    // The chunk of this identity, ready or being computed, or null. Marks it as used and keeps the lower level.
    std::shared_ptr<Chunk> find(const ChunkIdentity& identity, int32_t level);
    void insert(const std::shared_ptr<Chunk>& chunk);
    void remove(const Chunk& chunk);

    // How many pages belong to chunks that only the store holds.
    [[nodiscard]] int32_t evictable_pages() const;
    // Takes unused chunks out of the store, level 2 before 1 before 0 and the least recently used first, that have at
    // least `pages` pages together. The caller has checked evictable_pages(); the pages are free when it lets go of the
    // chunks.
    std::vector<std::shared_ptr<Chunk>> evict(int32_t pages);

    [[nodiscard]] int64_t num_chunks() const { return static_cast<int64_t>(chunks_.size()); }
    [[nodiscard]] LevelCounts count_by_level() const;
    [[nodiscard]] int64_t evictions() const { return evictions_; }

  private:
    void forget_dead_identities();

    std::unordered_multimap<uint64_t, std::weak_ptr<const ChunkIdentity>> identities_;
    std::unordered_map<const ChunkIdentity*, std::shared_ptr<Chunk>> chunks_;
    size_t sweep_at_ = 64;
    uint64_t ticks_ = 0;
    int64_t evictions_ = 0;
};

}  // namespace nanolith
