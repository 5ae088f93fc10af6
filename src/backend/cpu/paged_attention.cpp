#include "backend/cpu/paged_attention.h"

#include <utility>

#include "backend/cpu/rows.h"

namespace nanolith::cpu {

CpuPagedAttention::CpuPagedAttention(const AttentionSpec& spec, const std::unique_ptr<ThreadPool>& pool)
    : spec_(spec),
      pool_(pool),
      attention_(
          {spec.num_heads, {spec.num_kv_heads, spec.page_size, spec.head_dim, spec.kv_dtype}, spec.dtype, spec.dtype}),
      turns_({spec.rope_frequencies, {}}) {}

Result<std::unique_ptr<PagedAttention>> CpuPagedAttention::create(const AttentionSpec& spec,
                                                                  const std::unique_ptr<ThreadPool>& pool) {
    std::unique_ptr<CpuPagedAttention> attention(new CpuPagedAttention(spec, pool));
    NL_TRY(attention->attention_.reserve(pool->num_threads()));
    return std::unique_ptr<PagedAttention>(std::move(attention));
}

Result<void> CpuPagedAttention::set(const AttentionStep& step) {
    next_.page_table.assign(step.page_table.begin(), step.page_table.end());
    next_.segments.assign(step.segments.begin(), step.segments.end());
    next_.sequences.assign(step.sequences.begin(), step.sequences.end());
    next_.positions.assign(step.positions.begin(), step.positions.end());
    attention_.plan({next_.page_table, next_.segments, next_.sequences, next_.positions});
    std::swap(step_, next_);  // their elements stay where they are
    return {};
}

Result<void> CpuPagedAttention::set_slots(std::span<const int32_t> slots, std::span<const int32_t> key_positions) {
    std::vector<int32_t> new_slots(slots.begin(), slots.end());
    key_positions_.assign(key_positions.begin(), key_positions.end());
    slots_ = std::move(new_slots);
    return {};
}

Result<void> CpuPagedAttention::append(const ConstHeadRows& k, const ConstHeadRows& v, const Pages<void>& pages) {
    const int64_t dim = spec_.head_dim;
    NL_ASSIGN(auto scratch, Buffer<float>::allocate("keys and values", {pool_->num_threads(), 3, dim}));
    const auto rows = static_cast<int64_t>(slots_.size());
    const int64_t row_bytes = int64_t{spec_.num_kv_heads} * dim * 4 * static_cast<int64_t>(sizeof(float));
    pool_->run(rows, cost_of_bytes(rows * row_bytes), [&](int64_t row, int32_t thread) {
        const int32_t slot = slots_[row];
        if (slot == kNoSlot) return;
        float* const key = scratch.data() + int64_t{thread} * 3 * dim;
        float* const value = key + dim;
        const float* turn = nullptr;
        if (rotates()) turn = turns_.turn(key_positions_[row], value + dim);
        for (int64_t head = 0; head < spec_.num_kv_heads; ++head) {
            load_head(spec_.dtype, k, row, head, dim, key);
            load_head(spec_.dtype, v, row, head, dim, value);
            append_head(attention_.shape().pool, pages, slot, head, turn, key, value);
        }
    });
    return {};
}

Result<void> CpuPagedAttention::run(const ConstHeadRows& q, const Pages<const void>& pages, const MutableHeadRows& out,
                                    float* lse) {
    NL_TRY(attention_.reserve(pool_->num_threads()));
    const AttentionRule rule{rotates() ? &turns_ : nullptr, spec_.scale, spec_.softcap, spec_.window, spec_.causal};
    attention_.run(rule, {q, pages, out, lse}, *pool_);
    return {};
}

}  // namespace nanolith::cpu
