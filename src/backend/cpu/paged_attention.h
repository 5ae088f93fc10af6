// Paged attention over tensors of any number format: PagedAttention for host memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/attention.h"
#include "backend/cpu/buffer.h"
#include "backend/kernels.h"

namespace nanolith::cpu {

class CpuPagedAttention final : public PagedAttention {
  public:
    // `num_threads` is read at every run.
    static Result<std::unique_ptr<PagedAttention>> create(const AttentionSpec& spec, const PlanCapacity& capacity,
                                                          const int32_t& num_threads);

    Result<void> set(const AttentionStep& step) override;
    Result<void> set_slots(std::span<const int32_t> slots, std::span<const int32_t> key_positions) override;
    Result<void> append(const ConstHeadRows& k, const ConstHeadRows& v, const Pages<void>& pages) override;
    Result<void> run(const ConstHeadRows& q, const Pages<const void>& pages, const MutableHeadRows& out,
                     float* lse) override;

  private:
    struct Tensors;
    class Scratch;

    CpuPagedAttention(const AttentionSpec& spec, const int32_t& num_threads);
    [[nodiscard]] int32_t group() const { return spec_.num_heads / spec_.num_kv_heads; }
    Result<void> grow_scratch();
    [[nodiscard]] int64_t end_visible(const Segment& segment, int32_t position) const;
    void load_tokens(const Pages<const void>& pages, const Segment& segment, int64_t first, int64_t count,
                     int32_t tile_head, float* to) const;
    void load_queries(const Tensors& tensors, const AttentionBlock& block, const Segment& segment,
                      Scratch& scratch) const;
    void compute_scores(int64_t num_queries, int64_t count, Scratch& scratch) const;
    void attend_segment(const Tensors& tensors, const AttentionBlock& block, const Segment& segment,
                        Scratch& scratch) const;
    void attend(const Tensors& tensors, const AttentionBlock& block, Scratch& scratch) const;
    void append_row(int64_t row, const ConstHeadRows& k, const ConstHeadRows& v, const Pages<void>& pages,
                    float* scratch) const;

    AttentionSpec spec_;
    PoolShape shape_;
    const int32_t& num_threads_;
    Batch batch_;  // the step; nothing but its page table, segments, sequences and positions is used
    Batch next_;
    std::vector<int32_t> page_table_;  // of batch_
    std::vector<int32_t> next_page_table_;
    std::vector<AttentionBlock> blocks_;
    std::vector<AttentionBlock> next_blocks_;
    std::vector<int32_t> slots_;
    std::vector<int32_t> key_positions_;
    Buffer<float> scratch_;
    int32_t scratch_threads_ = 0;
};

}  // namespace nanolith::cpu
