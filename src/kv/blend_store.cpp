#include "kv/blend_store.h"

#include <algorithm>

namespace nanolith {
namespace {

// Whether each of units [begin, end) that `of` marks as recomputed is marked in `in` too.
bool are_in(const std::vector<bool>& of, const std::vector<bool>& in, size_t begin, size_t end) {
    for (size_t unit = begin; unit < std::min(end, of.size()); ++unit)
        if (of[unit] && !in[unit]) return false;
    return true;
}

// Whether the context has recomputed tokens that the result, or the chunk where that is null, does not have.
bool adds_to(const ChunkUse& use, const BlendedPages* kept) {
    if (!use.blended || use.blended.get() == kept) return false;
    const std::vector<bool>& recomputed = use.blended->recomputed;
    return kept == nullptr || !are_in(recomputed, kept->recomputed, 0, recomputed.size());
}

// The union of both. Of each page it has the result's version where that has every token that the context has
// recomputed in it, and the context's version elsewhere.
std::shared_ptr<BlendedPages> merged(const ChunkUse& use, const BlendedPages& kept, size_t units_of_page) {
    auto all = std::make_shared<BlendedPages>(BlendedPages{use.blended->pages.share(), use.blended->recomputed});
    for (int32_t page = 0; page < all->pages.size(); ++page) {
        const size_t begin = static_cast<size_t>(page) * units_of_page;
        if (!are_in(use.blended->recomputed, kept.recomputed, begin, begin + units_of_page)) continue;
        PageList single = kept.pages.share_page(page);
        all->pages.swap_page(page, single);
        const size_t end = std::min(begin + units_of_page, kept.recomputed.size());
        for (size_t unit = begin; unit < end; ++unit) all->recomputed[unit] = kept.recomputed[unit];
    }
    return all;
}

// Pages that no other list holds, of lists that nobody else uses: a truncated context goes on to use them on its own.
int32_t own_pages(const KeptBlend& kept) {
    int32_t pages = 0;
    for (const auto& blended : kept.pages) {
        if (!blended || blended.use_count() > 1) continue;
        const PageList& list = blended->pages;
        for (int32_t page = 0; page < list.size(); ++page) pages += list.shared(page) ? 0 : 1;
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
        kept->pages[i] = kept->pages[i] ? merged(use, *kept->pages[i], units_of_page_) : use.blended;
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
