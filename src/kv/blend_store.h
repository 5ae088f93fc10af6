// What blended composition recomputed of chunks that stand in some order, kept for the next conversation of the same
// tenant that has the same chunks in the same order. All conversations that use the result name the same lists of
// pages, so that attention reads these once for all of them. Results that no conversation uses are evicted before any
// chunk. Not thread-safe; the engine's mutex guards all of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kv/context.h"

namespace nanolith {

struct KeptBlend {
    std::vector<std::shared_ptr<const ChunkIdentity>> chunks;
    // [chunks] the chunk's pages, some of them exchanged for ones with recomputed tokens; null: none of them. They
    // never change: a larger result has a list of its own.
    std::vector<std::shared_ptr<BlendedPages>> pages;
    uint64_t last_used = 0;  // ticks of the store
};

class BlendStore {
  public:
    explicit BlendStore(int32_t page_size) : units_of_page_(static_cast<size_t>(page_size / kBlendUnit)) {}

    // The result for the context's chunks, or null. Marks it as used.
    std::shared_ptr<KeptBlend> find(const Context& context);
    // Adds the context's recomputed tokens to the result for its chunks; then the context uses the result's pages. If
    // each has recomputed tokens of a page that the other has not, the result takes the context's version of that page.
    std::shared_ptr<KeptBlend> keep(Context& context);

    // How many pages belong to results that no conversation uses, and to nothing else.
    [[nodiscard]] int32_t evictable_pages() const;
    // Evicts such results, the least recently used first, until `pages` pages came free or there are no more.
    void evict(int32_t pages);

  private:
    using Key = std::pair<Digest, std::vector<const ChunkIdentity*>>;  // the tenant's salt, and the chunks
    static Key key_of(const Context& context);

    std::map<Key, std::shared_ptr<KeptBlend>> kept_;
    const size_t units_of_page_;
    uint64_t ticks_ = 0;
};

// Has the context use the result's pages of its chunks.
void use_kept(const KeptBlend& kept, Context& context);

}  // namespace nanolith
