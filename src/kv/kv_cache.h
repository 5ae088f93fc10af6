// The cache of nl_attention_with_cache: pages for a fixed number of sequences, all reserved when it is made, and the
// plan that computes attention over them. An engine's caches are not of this kind: see context.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/kernels.h"
#include "backend/page_size.h"

namespace nanolith {

// What a cache holds, and how: fixed when it is made.
struct KvCacheShape {
    AttentionSpec spec;  // its scale, causal, window and softcap don't matter here
    float k_scale = 1;
    float v_scale = 1;
    int64_t batch = 0;
    int64_t max_length = 0;  // tokens of a sequence

    [[nodiscard]] int64_t pages_per_sequence() const { return pages_for(max_length, spec.page_size); }
    [[nodiscard]] int64_t num_pages() const { return batch * pages_per_sequence(); }
    // The size of one page, with keys and values of all KV heads.
    [[nodiscard]] int64_t page_bytes() const;
};

// One call. Row b * num_tokens + i of a tensor is token i of sequence b.
struct CachedAttention {
    AttentionSpec spec;
    int64_t num_tokens = 0;
    std::span<const int64_t> counts;  // [batch] tokens of each sequence, others are padding; empty: all
    ConstHeadRows q;
    ConstHeadRows k;  // without data where the queries come without new keys and values
    ConstHeadRows v;
    MutableHeadRows out;
    bool update = true;  // whether the new keys and values stay in the cache

    [[nodiscard]] bool brings_keys() const { return k.data != nullptr; }
    [[nodiscard]] int64_t count(int64_t sequence) const { return counts.empty() ? num_tokens : counts[sequence]; }
};

class KvCache {
  public:
    // The most rows of a call, and entries of a page table: slots are int32.
    static constexpr int64_t kMaxRows = int64_t{1} << 24;

    // INVALID_ARGUMENT where batch and max_length make more pages or slots than can be counted.
    static Result<std::unique_ptr<KvCache>> create(Kernels& kernels, const KvCacheShape& shape);

    // After an error the lengths, and what the cache holds within them, are as before.
    Result<void> attend(Kernels& kernels, const CachedAttention& call);

    [[nodiscard]] const KvCacheShape& shape() const { return shape_; }
    [[nodiscard]] std::span<const int64_t> lengths() const { return lengths_; }
    [[nodiscard]] int64_t bytes() const { return shape_.num_pages() * shape_.page_bytes(); }
    void truncate(int64_t sequence, int64_t length) { lengths_[sequence] = length; }

  private:
    explicit KvCache(KvCacheShape shape);
    [[nodiscard]] Result<void> check_lengths(const CachedAttention& call) const;
    Result<void> prepare_plan(Kernels& kernels, const CachedAttention& call);
    void describe(const CachedAttention& call);
    void describe_sequence(const CachedAttention& call, int64_t sequence);

    KvCacheShape shape_;
    std::vector<int64_t> lengths_;
    std::unique_ptr<DeviceMemory> pages_;

    std::unique_ptr<PagedAttention> plan_;
    AttentionSpec plan_spec_;
    int32_t plan_rows_ = 0;

    // The step of the call under way; members to reuse their memory.
    std::vector<int32_t> page_table_;
    std::vector<Segment> segments_;
    std::vector<Sequence> sequences_;
    std::vector<int32_t> positions_;
    std::vector<int32_t> slots_;
    std::vector<int32_t> key_positions_;
};

}  // namespace nanolith
