#include "kv/context.h"

#include <algorithm>

#include "backend/page_size.h"

namespace nanolith {

Context::Context(PagePool& pool, std::vector<ChunkUse> chunks)
    : pool_(&pool), chunks_(std::move(chunks)), tail_pages_(pool) {
    if (!chunks_.empty()) tail_base_ = chunks_.back().base + chunks_.back().length;
}

std::vector<int32_t> Context::tokens(int32_t count) const {
    std::vector<int32_t> all;
    all.reserve(count);
    for (const ChunkUse& use : chunks_) {
        const auto& tokens = use.chunk->identity->tokens;
        all.insert(all.end(), tokens.begin(), tokens.begin() + use.length);
    }
    all.insert(all.end(), tail_.begin(), tail_.begin() + (count - tail_base_));
    return all;
}

int32_t Context::token_at(int32_t position) const {
    if (position >= tail_base_) return tail_[position - tail_base_];
    const auto use = std::ranges::find_if(chunks_, [&](const ChunkUse& u) { return position < u.base + u.length; });
    return use->chunk->identity->tokens[position - use->base];
}

int32_t Context::num_pages() const {
    int32_t pages = tail_pages_.size();
    for (const ChunkUse& use : chunks_) pages += use.chunk->pages.size();
    return pages;
}

int32_t Context::num_private_pages() const {
    int32_t pages = tail_pages_.size();
    for (const ChunkUse& use : chunks_) {
        if (!use.blended) continue;
        for (int32_t page = 0; page < use.blended->pages.size(); ++page)
            pages += use.blended->pages[page] != use.chunk->pages[page] ? 1 : 0;
    }
    return pages;
}

std::vector<PageCopy> Context::exchange_pages(std::span<const ChunkRun> runs, int32_t page_size) {
    std::vector<ChunkUse> chunks = chunks_;
    std::vector<PageCopy> copies;
    for (const ChunkRun& run : runs) {
        const ChunkUse& before = chunks_[run.chunk];
        ChunkUse& use = chunks[run.chunk];
        if (use.blended == before.blended) {  // its first run
            const auto units = static_cast<size_t>(units_for(use.chunk->num_tokens()));
            use.blended = std::make_shared<BlendedPages>(BlendedPages{
                before.pages().share(), before.blended ? before.blended->recomputed : std::vector<bool>(units)});
        }
        for (int32_t page = run.begin / page_size; page < pages_for(run.end, page_size); ++page) {
            if (use.blended->pages[page] != before.pages()[page]) continue;  // an earlier run has tokens in it too
            PageList single(*pool_);
            single.grow(1);
            const bool is_whole =
                run.begin <= page * page_size && run.end >= std::min(use.length, (page + 1) * page_size);
            if (!is_whole) copies.push_back({before.pages()[page], single[0]});
            use.blended->pages.swap_page(page, single);
        }
        for (int32_t unit = run.begin / kBlendUnit; unit < units_for(run.end); ++unit)
            use.blended->recomputed[unit] = true;
    }
    chunks_ = std::move(chunks);
    return copies;
}

Context Context::fork() const {
    Context fork(*pool_, chunks_);
    fork.tail_ = tail_;
    fork.tail_computed_ = tail_computed_;
    fork.tail_pages_ = tail_pages_.share();
    fork.nodes_ = nodes_;
    fork.tenant = tenant;
    fork.tokens_reused = tail_base_ + tail_computed_;
    fork.chunk_tokens_reused = tail_base_;
    return fork;
}

void Context::truncate(int32_t num_tokens, int32_t page_size) {
    const int32_t kept = std::max(0, num_tokens - tail_base_);
    restore(kept, std::min(tail_computed_, kept), page_size);
    if (num_tokens >= tail_base_) return;
    while (!chunks_.empty() && chunks_.back().base >= num_tokens) chunks_.pop_back();
    if (!chunks_.empty()) chunks_.back().length = num_tokens - chunks_.back().base;
    tail_base_ = num_tokens;
    nodes_.clear();  // other chunks are in front of the tail now
}

void Context::reserve(int32_t more) {
    const size_t needed = tail_.size() + static_cast<size_t>(more);
    if (needed > tail_.capacity()) tail_.reserve(std::max(needed, 2 * tail_.capacity()));
}

void Context::append(std::span<const int32_t> tokens) {
    tail_.insert(tail_.end(), tokens.begin(), tokens.end());
}

void Context::restore(int32_t tail_size, int32_t tail_computed, int32_t page_size) {
    tail_.resize(tail_size);
    tail_computed_ = tail_computed;
    const int32_t pages = pages_for(tail_computed, page_size);
    if (pages < tail_pages_.size()) tail_pages_.truncate(pages);
    const auto nodes = static_cast<size_t>(tail_computed / page_size) + 1;
    if (nodes < nodes_.size()) nodes_.resize(nodes);
}

// The node below which page `page` of the tail is; those of all pages before it are known.
PrefixIndex::Node Context::node_above(int32_t page) {
    if (nodes_.empty()) {
        std::vector<PrefixIndex::Before> before;
        for (const ChunkUse& use : chunks_) before.push_back({use.chunk->identity, use.length});
        nodes_.push_back(pool_->prefixes().root(salt_of(tenant.get()), before));
    }
    return nodes_[page];
}

void Context::take_prefix(int32_t page_size) {
    while (tail_pages_.size() * page_size == tail_computed_ && tail_computed_ + page_size < tail_size()) {
        const int32_t page = tail_pages_.size();
        if (page > 0 && static_cast<size_t>(page) >= nodes_.size()) break;  // a page could not be remembered
        const auto tokens =
            std::span(tail_).subspan(static_cast<size_t>(tail_computed_), static_cast<size_t>(page_size));
        const auto found = pool_->prefixes().find(node_above(page), tokens);
        if (!found) break;
        nodes_.reserve(nodes_.size() + 1);
        tail_pages_.append(found->page);
        nodes_.push_back(found->node);
        tail_computed_ += page_size;
        tokens_reused += page_size;
    }
}

void Context::remember_prefix(int32_t page_size) {
    const int32_t full = tail_computed_ / page_size;
    for (auto page = static_cast<int32_t>(nodes_.empty() ? 0 : nodes_.size() - 1); page < full; ++page) {
        const auto tokens =
            std::span(tail_).subspan(static_cast<size_t>(page * page_size), static_cast<size_t>(page_size));
        const PrefixIndex::Node above = node_above(page);
        nodes_.reserve(nodes_.size() + 1);
        nodes_.push_back(pool_->prefixes().remember(above, tokens, tail_pages_[page]));
    }
}

void Context::forget_page(int32_t index) {
    pool_->prefixes().forget(tail_pages_[index]);
}

}  // namespace nanolith
