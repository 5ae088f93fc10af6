// Chunks and the store that keeps them. A chunk is found again by its identity: its tokens, the identities of the
// chunks after which it was computed, and its tenant; so exact composition is a prefix tree. Chunks that nobody uses
// stay in the store until pages run short. Not thread-safe; the engine's mutex guards all of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "base/digest.h"
#include "kv/page_pool.h"
#include "kv/retention.h"
#include "kv/tenant.h"
#include "nanolith/nanolith.h"

namespace nanolith {

// Interned by the store: equal identities are the same object, so that comparing pointers is enough. It outlives the
// chunk's pages if a chunk that was computed after it lives longer.
struct ChunkIdentity {
    std::vector<int32_t> tokens;
    std::vector<std::shared_ptr<const ChunkIdentity>> before;
    std::shared_ptr<Tenant> tenant = nullptr;             // null: of the engine itself
    mutable std::optional<Digest> digest = std::nullopt;  // set when it is first asked for (digest_of)
};

struct Chunk {
    Chunk(std::shared_ptr<const ChunkIdentity> what, int32_t cascade_level, PageList page_list)
        : identity(std::move(what)), pages(std::move(page_list)), retention{.level = cascade_level} {}

    enum class State { computing, ready, failed };
    enum class Origin : int32_t {
        computed = NL_ORIGIN_COMPUTED,
        host = NL_ORIGIN_HOST,
        file = NL_ORIGIN_FILE,
        server = NL_ORIGIN_SERVER
    };

    std::shared_ptr<const ChunkIdentity> identity;
    PageList pages;
    Retention retention;
    State state = State::computing;
    Origin origin = Origin::computed;  // where its pages came from

    [[nodiscard]] int32_t num_tokens() const { return static_cast<int32_t>(identity->tokens.size()); }
};

class ChunkStore {
  public:
    using Identities = std::vector<std::shared_ptr<const ChunkIdentity>>;

    // The tenant with this salt, which is not all zeros.
    std::shared_ptr<Tenant> tenant(const Digest& salt);
    // The one object for these tokens after these chunks. A tenant that is null: the engine itself.
    std::shared_ptr<const ChunkIdentity> intern(std::span<const int32_t> tokens, Identities before,
                                                const std::shared_ptr<Tenant>& tenant = nullptr);

    // The chunk of this identity, ready or being computed, or null. Marks it as used and keeps the lower level.
    std::shared_ptr<Chunk> find(const ChunkIdentity& identity, int32_t level);
    void insert(const std::shared_ptr<Chunk>& chunk);
    void remove(const Chunk& chunk);

    // How many pages belong to chunks that only the store holds, and that are not pinned.
    [[nodiscard]] int32_t evictable_pages() const;
    // Takes unused chunks out of the store, in the order of retention.h, that have at least `pages` pages together. The
    // caller has checked evictable_pages(); the pages are free when it lets go of the chunks.
    std::vector<std::shared_ptr<Chunk>> evict(int32_t pages);

    [[nodiscard]] int64_t num_chunks() const { return static_cast<int64_t>(chunks_.size()); }
    // Of all, or of one tenant's.
    [[nodiscard]] LevelCounts count_by_level(const Tenant* tenant) const;
    // Adds to a number of all chunks, and to the same of the chunk's tenant.
    template <typename Number>
    void count(const ChunkIdentity& identity, Number StoreNumbers::*number, std::type_identity_t<Number> amount = 1) {
        numbers_.*number += amount;
        if (identity.tenant) identity.tenant->numbers.*number += amount;
    }
    [[nodiscard]] const StoreNumbers& numbers() const { return numbers_; }

  private:
    void forget_dead_identities();

    std::map<Digest, std::weak_ptr<Tenant>> tenants_;
    std::unordered_multimap<uint64_t, std::weak_ptr<const ChunkIdentity>> identities_;
    std::unordered_map<const ChunkIdentity*, std::shared_ptr<Chunk>> chunks_;
    size_t sweep_at_ = 64;
    size_t sweep_tenants_at_ = 64;
    RetentionClock clock_;
    StoreNumbers numbers_;
};

}  // namespace nanolith
