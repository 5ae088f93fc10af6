#include "engine/sequence.h"

#include <algorithm>
#include <new>
#include <utility>

#include "backend/page_size.h"

namespace nanolith {

ResidentSequence::ResidentSequence(Context with_context, int32_t page_size)
    : context(std::move(with_context)), page_size_(page_size) {
    planned = context.tail_computed();
    commit();
}

void ResidentSequence::commit() noexcept {
    committed_size_ = context.tail_size();
    committed_computed_ = context.tail_computed();
    replaced_.reset();
    before_blend_.reset();
}

void ResidentSequence::keep_before_blend() {
    if (before_blend_) return;
    before_blend_.emplace(BeforeBlend{context.chunks(), *blend, context.tokens_blended, context.tokens_reused,
                                      context.chunk_tokens_reused});
}

void ResidentSequence::roll_back() noexcept {
    if (replaced_) {
        context.tail_pages().swap_page(replaced_index_, *replaced_);
        replaced_.reset();
    }
    if (before_blend_) {
        context.set_chunks(std::move(before_blend_->chunks));
        blend.emplace(std::move(before_blend_->blend));
        context.tokens_blended = before_blend_->tokens_blended;
        context.tokens_reused = before_blend_->tokens_reused;
        context.chunk_tokens_reused = before_blend_->chunk_tokens_reused;
        before_blend_.reset();
    }
    context.restore(committed_size_, committed_computed_, page_size_);
    planned = committed_computed_;
    draws_in_flight = 0;
}

void ResidentSequence::set_sampling(std::shared_ptr<const Sampling> changed) {
    sampling = std::move(changed);
    surprise_bound = sampling->first_surprise_bound();
    next.reset();
}

void ResidentSequence::append_drawn(const DrawnToken& drawn) {
    next.reset();
    context.append({&drawn.token, 1});
    if (sampling->surprise_counts()) surprise_bound = sampling->next_surprise_bound(surprise_bound, drawn.surprise);
}

void ResidentSequence::truncate(int32_t num_tokens) {
    if (num_tokens == this->num_tokens()) return;
    next.reset();
    surprise_bound = sampling->first_surprise_bound();
    if (num_tokens < context.tail_base()) {
        shares_blend = false;
        kept.reset();
    }
    context.truncate(num_tokens, page_size_);
    planned = context.tail_computed();
    commit();
}

int32_t ResidentSequence::missing_pages(int32_t end) const {
    return std::max(0, pages_for(end, page_size_) - context.tail_pages().size());
}

bool ResidentSequence::writes_shared_page() const {
    const int32_t page = planned / page_size_;
    return page < context.tail_pages().size() && context.tail_pages().shared(page);
}

void ResidentSequence::forget_written_page() {
    const int32_t page = planned / page_size_;
    if (page < context.tail_pages().size()) context.forget_page(page);
}

int32_t ResidentSequence::replace_shared_page(PageList copy) {
    replaced_index_ = planned / page_size_;
    context.tail_pages().swap_page(replaced_index_, copy);
    replaced_.emplace(std::move(copy));
    return (*replaced_)[0];
}

// Without memory there is no reuse, and nothing else is lost.
int32_t ResidentSequence::take_prefix() noexcept {
    if (!shares_prefixes || planned != context.tail_computed()) return 0;
    const int32_t before = planned;
    try {
        context.take_prefix(page_size_);
    } catch (const std::bad_alloc&) {
    }
    planned = context.tail_computed();
    return planned - before;
}

void ResidentSequence::remember_prefix() noexcept {
    if (!shares_prefixes) return;
    try {
        context.remember_prefix(page_size_);
    } catch (const std::bad_alloc&) {
    }
}

}  // namespace nanolith
