// PagedAttention for host memory: what nl_attention_plan is on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/attention.h"
#include "backend/kernels.h"

namespace nanolith::cpu {

class CpuPagedAttention final : public PagedAttention {
  public:
    // `pool` is read at every run, and holds one then.
    static Result<std::unique_ptr<PagedAttention>> create(const AttentionSpec& spec,
                                                          const std::unique_ptr<ThreadPool>& pool);

    Result<void> set(const AttentionStep& step) override;
    Result<void> set_slots(std::span<const int32_t> slots, std::span<const int32_t> key_positions) override;
    Result<void> append(const ConstHeadRows& k, const ConstHeadRows& v, const Pages<void>& pages) override;
    Result<void> run(const ConstHeadRows& q, const Pages<const void>& pages, const MutableHeadRows& out,
                     float* lse) override;

  private:
    // A step's arrays, for as long as it is the plan's.
    struct Step {
        std::vector<int32_t> page_table;
        std::vector<Segment> segments;
        std::vector<Sequence> sequences;
        std::vector<int32_t> positions;
    };

    CpuPagedAttention(const AttentionSpec& spec, const std::unique_ptr<ThreadPool>& pool);
    [[nodiscard]] bool rotates() const { return !spec_.rope_frequencies.empty(); }

    AttentionSpec spec_;
    const std::unique_ptr<ThreadPool>& pool_;
    Attention attention_;
    // Nothing is tabulated: positions may be so far that a table of them would be larger than the cache.
    RotationTable turns_;
    Step step_;
    Step next_;
    std::vector<int32_t> slots_;
    std::vector<int32_t> key_positions_;
};

}  // namespace nanolith::cpu
