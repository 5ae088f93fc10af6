#include "kv/kv_cache.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace nanolith {

int64_t KvCacheShape::page_bytes() const {
    return int64_t{2} * spec.num_kv_heads * spec.page_size * spec.head_dim *
           static_cast<int64_t>(dtype_bytes(spec.kv_dtype));
}

KvCache::KvCache(KvCacheShape shape) : shape_(std::move(shape)), lengths_(static_cast<size_t>(shape_.batch), 0) {}

Result<std::unique_ptr<KvCache>> KvCache::create(Kernels& kernels, const KvCacheShape& shape) {
    const int64_t most_pages = std::min(kMaxRows, int64_t{std::numeric_limits<int32_t>::max()} / shape.spec.page_size);
    if (shape.max_length > most_pages * shape.spec.page_size || shape.batch > most_pages ||
        shape.num_pages() > most_pages)
        return fail(NL_ERROR_INVALID_ARGUMENT, "call.max_length is ", shape.max_length, " for a batch of ", shape.batch,
                    ": expected at most ", most_pages, " pages of ", shape.spec.page_size, " tokens together");
    std::unique_ptr<KvCache> cache(new KvCache(shape));
    const auto bytes = static_cast<__int128>(shape.num_pages()) * shape.page_bytes();
    if (bytes > std::numeric_limits<int64_t>::max())
        return fail(NL_ERROR_OUT_OF_MEMORY, "a cache of ", shape.num_pages(), " pages of ", shape.page_bytes(),
                    " bytes is more than an address space holds");
    NL_ASSIGN(cache->pages_, kernels.allocate(static_cast<uint64_t>(bytes)));
    return cache;
}

Result<void> KvCache::check_lengths(const CachedAttention& call) const {
    for (int64_t sequence = 0; sequence < shape_.batch; ++sequence) {
        const int64_t held = lengths_[sequence];
        const int64_t count = call.count(sequence);
        if (call.brings_keys() && held + count > shape_.max_length)
            return fail(NL_ERROR_CONTEXT_FULL, "sequence ", sequence, " holds ", held, " tokens and would get ", count,
                        " more: expected at most max_length = ", shape_.max_length)
                .with(NL_DETAIL_INDEX, sequence)
                .with(NL_DETAIL_NEEDED, held + count)
                .with(NL_DETAIL_AVAILABLE, shape_.max_length);
        if (!call.brings_keys() && count > held)
            return fail(NL_ERROR_INVALID_ARGUMENT, "sequence ", sequence, " has ", count,
                        " queries without keys and values: expected at most the ", held,
                        " tokens that the cache holds");
    }
    return {};
}

Result<void> KvCache::prepare_plan(Kernels& kernels, const CachedAttention& call) {
    const int64_t rows = shape_.batch * call.num_tokens;
    if (plan_ != nullptr && plan_spec_ == call.spec && rows <= plan_rows_) return {};
    const auto capacity = static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
    const auto batch = static_cast<int32_t>(shape_.batch);
    NL_ASSIGN(auto plan,
              kernels.create_plan(call.spec, {capacity, 2 * batch, batch, static_cast<int32_t>(shape_.num_pages())}));
    plan_ = std::move(plan);
    plan_spec_ = call.spec;
    plan_rows_ = capacity;
    return {};
}

// A sequence's tokens are one segment at base 0. The rows of padding are a sequence without segments, whose keys and
// values are not written.
void KvCache::describe_sequence(const CachedAttention& call, int64_t sequence) {
    const int64_t held = lengths_[sequence];
    const int64_t count = call.count(sequence);
    const int64_t first = call.brings_keys() ? held : held - count;
    const int64_t end = first + count;
    const int64_t first_page = sequence * shape_.pages_per_sequence();
    const auto first_row = static_cast<int32_t>(sequence * call.num_tokens);
    if (count > 0) {
        sequences_.push_back({first_row, static_cast<int32_t>(count), static_cast<int32_t>(segments_.size()), 1});
        segments_.push_back({static_cast<int32_t>(page_table_.size()), static_cast<int32_t>(end), 0});
        for (int64_t page = 0; page * shape_.spec.page_size < end; ++page)
            page_table_.push_back(static_cast<int32_t>(first_page + page));
    }
    if (count < call.num_tokens)
        sequences_.push_back({static_cast<int32_t>(first_row + count), static_cast<int32_t>(call.num_tokens - count),
                              static_cast<int32_t>(segments_.size()), 0});
    for (int64_t i = 0; i < call.num_tokens; ++i) {
        const int64_t position = i < count ? first + i : i - count;
        positions_.push_back(static_cast<int32_t>(position));
        key_positions_.push_back(static_cast<int32_t>(position));
        slots_.push_back(i < count ? static_cast<int32_t>(first_page * shape_.spec.page_size + position) : kNoSlot);
    }
}

void KvCache::describe(const CachedAttention& call) {
    page_table_.clear();
    segments_.clear();
    sequences_.clear();
    positions_.clear();
    slots_.clear();
    key_positions_.clear();
    for (int64_t sequence = 0; sequence < shape_.batch; ++sequence) describe_sequence(call, sequence);
}

Result<void> KvCache::attend(Kernels& kernels, const CachedAttention& call) {
    NL_TRY(check_lengths(call));
    NL_TRY(prepare_plan(kernels, call));
    describe(call);
    if (call.brings_keys()) {
        std::span<const int32_t> turns(key_positions_);
        if (call.spec.rope_frequencies.empty()) turns = {};
        NL_TRY(plan_->set_slots(slots_, turns));
        NL_TRY(plan_->append(call.k, call.v, {pages_->data(), shape_.k_scale, shape_.v_scale}));
    }
    NL_TRY(plan_->set({page_table_, segments_, sequences_, positions_}));
    NL_TRY(plan_->run(call.q, {pages_->data(), shape_.k_scale, shape_.v_scale}, call.out, nullptr));
    if (!call.brings_keys() || !call.update) return {};
    for (int64_t sequence = 0; sequence < shape_.batch; ++sequence) lengths_[sequence] += call.count(sequence);
    return {};
}

}  // namespace nanolith
