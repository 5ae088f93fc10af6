// Pages for rows that are about to be computed, and the jobs that compute them.
#include <algorithm>

#include "engine/engine.h"
#include "engine/sampling.h"

namespace nanolith {

Result<void> Engine::make_room(int32_t pages) {
    const int32_t missing = pages - pool_->num_free();
    if (missing <= 0) return {};
    const int32_t evictable = store_.evictable_pages();
    if (evictable < missing)
        return fail(NL_ERROR_OUT_OF_PAGES, pages, " pages are needed, ", pool_->num_free(), " are free and ", evictable,
                    " held by unused chunks, of ", pool_->num_pages(), " in the pool (num_pages)");
    store_.evict(missing);
    return {};
}

Result<Engine::Growth> Engine::plan_growth(const Context& context, int32_t rows) {
    Growth growth(*pool_);
    const int32_t have = context.tail_pages().size();
    const int32_t first_written = context.tail_computed() / page_size_;
    const bool copies = rows > 0 && first_written < have && context.tail_pages().shared(first_written);
    const int32_t need = (context.tail_computed() + rows + page_size_ - 1) / page_size_ - have;
    NL_TRY(make_room(need + (copies ? 1 : 0)));
    if (need > 0) growth.added.grow(need);
    if (copies) {
        growth.copy.grow(1);
        growth.copy_index = first_written;
    }
    return growth;
}

void Engine::commit_growth(Context& context, Growth&& growth) {
    if (growth.copy.size() > 0) context.commit_copy(growth.copy_index, std::move(growth.copy));
    context.commit_pages(std::move(growth.added));
}

Result<void> Engine::check_tokens(std::span<const int32_t> tokens) const {
    const auto bad =
        std::ranges::find_if(tokens, [&](int32_t token) { return token < 0 || token >= spec().vocab_size; });
    if (bad == tokens.end()) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, "tokens[", bad - tokens.begin(), "] is ", *bad,
                ": expected an id from 0 to ", spec().vocab_size - 1);
}

Job Engine::make_job(const Cache& cache, std::span<const int32_t> more, const Growth& growth) const {
    const Context& context = *cache.context;
    Job job;
    for (const ChunkUse& use : context.chunks()) {
        const auto pages = use.chunk->pages.pages();
        job.history.push_back({use.chunk.get(), {pages.begin(), pages.end()}, use.length, use.base});
    }
    const auto tail = context.tail_pages().pages();
    job.own = {nullptr, {tail.begin(), tail.end()}, context.tail_computed(), context.tail_base()};
    const auto pending = context.pending();
    job.tokens.assign(pending.begin(), pending.end());
    job.tokens.insert(job.tokens.end(), more.begin(), more.end());
    if (job.tokens.empty()) {
        job.recompute_last = true;
        job.tokens = {context.token_at(context.num_tokens() - 1)};
        if (job.own.length == 0) {  // the last token is a chunk's
            job.own = std::move(job.history.back());
            job.history.pop_back();
        }
    }
    if (growth.copy.size() > 0) {
        int32_t& page = job.own.pages[static_cast<size_t>(growth.copy_index)];
        job.copy = PageCopy{page, growth.copy[0]};
        page = growth.copy[0];
    }
    const auto added = growth.added.pages();
    job.own.pages.insert(job.own.pages.end(), added.begin(), added.end());
    job.wants_token = true;
    job.sampling = sample_params(cache.sampling, context.num_tokens() + static_cast<int32_t>(more.size()));
    return job;
}

}  // namespace nanolith
