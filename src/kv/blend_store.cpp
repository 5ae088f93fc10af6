#include "kv/blend_store.h"

#include <algorithm>

namespace nanolith {
namespace {

// Whether the list has a recomputed page that the other, or the chunk where that is null, does not have.
bool adds_to(const ChunkUse& use, const PageList* kept) {
    if (!use.blended || use.blended.get() == kept) return false;
    if (kept == nullptr) return true;
    for (int32_t page = 0; page < use.blended->size(); ++page)
        if ((*use.blended)[page] != use.chunk->pages[page] && (*kept)[page] == use.chunk->pages[page]) return true;
    return false;
}

// The first list, with the second one's recomputed pages where it has the chunk's own.
std::shared_ptr<PageList> merged(const ChunkUse& use, const PageList& kept) {
    auto list = std::make_shared<PageList>(kept.share());
    for (int32_t page = 0; page < list->size(); ++page) {
        if ((*list)[page] != use.chunk->pages[page]) continue;
        PageList single = use.blended->share_page(page);
        list->swap_page(page, single);
    }
    return list;
}

// Pages that no other list holds, of lists that nobody else uses: a truncated context goes on to use them on its own.
int32_t own_pages(const KeptBlend& kept) {
    int32_t pages = 0;
    for (const auto& list : kept.pages) {
        if (!list || list.use_count() > 1) continue;
        for (int32_t page = 0; page < list->size(); ++page) pages += list->shared(page) ? 0 : 1;
    }
    return pages;
}

}  // namespace

void use_kept(const KeptBlend& kept, Context& context) {
    std::vector<ChunkUse> uses = context.chunks();
    for (size_t i = 0; i < uses.size(); ++i)
        if (kept.pages[i]) uses[i].blended = kept.pages[i];
    context.set_chunks(std::move(uses));
}

BlendStore::Key BlendStore::key_of(const Context& context) {
    Key key{salt_of(context.tenant.get()), {}};
    for (const ChunkUse& use : context.chunks()) key.second.push_back(use.chunk->identity.get());
    return key;
}

std::shared_ptr<KeptBlend> BlendStore::find(const Context& context) {
    const auto at = kept_.find(key_of(context));
    if (at == kept_.end()) return nullptr;
    at->second->last_used = ++ticks_;
    return at->second;
}

std::shared_ptr<KeptBlend> BlendStore::keep(Context& context) {
    auto kept = find(context);
    if (!kept) {
        kept = std::make_shared<KeptBlend>();
        for (const ChunkUse& use : context.chunks()) kept->chunks.push_back(use.chunk->identity);
        kept->pages.resize(kept->chunks.size());
        kept->last_used = ++ticks_;
        kept_.emplace(key_of(context), kept);
    }
    for (size_t i = 0; i < kept->pages.size(); ++i) {
        const ChunkUse& use = context.chunks()[i];
        if (!adds_to(use, kept->pages[i].get())) continue;
        kept->pages[i] = kept->pages[i] ? merged(use, *kept->pages[i]) : use.blended;
    }
    use_kept(*kept, context);
    return kept;
}

int32_t BlendStore::evictable_pages() const {
    int32_t pages = 0;
    for (const auto& [key, kept] : kept_)
        if (kept.use_count() == 1) pages += own_pages(*kept);
    return pages;
}

void BlendStore::evict(int32_t pages) {
    std::vector<std::pair<uint64_t, Key>> idle;
    for (const auto& [key, kept] : kept_)
        if (kept.use_count() == 1) idle.emplace_back(kept->last_used, key);
    std::ranges::sort(idle);
    for (const auto& [used, key] : idle) {
        if (pages <= 0) return;
        const auto at = kept_.find(key);
        pages -= own_pages(*at->second);
        kept_.erase(at);
    }
}

}  // namespace nanolith
