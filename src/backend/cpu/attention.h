// Attention over a paged cache on the CPU: the one that both the executor and nl_attention_plan use.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "backend/cpu/attention_plan.h"
#include "backend/cpu/buffer.h"
#include "backend/cpu/kv_pool.h"
#include "backend/cpu/norm_rope.h"
#include "backend/kernels.h"
#include "base/thread_pool.h"

namespace nanolith::cpu {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What never changes: heads, pages, and the number formats of queries and outputs.
struct AttentionShape {
    int32_t num_heads = 0;  // query heads; a multiple of pool.num_kv_heads
    PoolShape pool;
    DType query_dtype = DType::f32;
    DType output_dtype = DType::f32;
    bool batch_invariant = false;  // as ExecutorOptions'

    [[nodiscard]] int32_t group() const { return num_heads / pool.num_kv_heads; }
};

// What a layer's scores are.
struct AttentionRule {
    const RotationTable* turns = nullptr;  // of the queries' distances from a segment's beginning; null: no rotation
    float scale = 0;                       // scores are q.k times this
    float softcap = 0;                     // and become softcap * tanh(score / softcap); 0: they stay
    int32_t window = 0;                    // a query at p sees positions above p - window; 0: all
    bool causal = true;                    // else every query sees all tokens of its segments
};

// One run's memory.
struct AttentionTensors {
    ConstHeadRows queries;  // [rows, num_heads, head_dim], not rotated
    Pages<const void> pages;
    MutableHeadRows output;  // [rows, num_heads, head_dim]
    float* lse = nullptr;    // null, or the log-sum-exps [rows, num_heads]; -infinity for a row that sees no key
};

class Attention {
  public:
    explicit Attention(const AttentionShape& shape) : shape_(shape) {}

    // Bytes that a thread takes.
    static uint64_t scratch_bytes(const AttentionShape& shape);
    // Makes room for runs on up to `num_threads` threads.
    Result<void> reserve(int32_t num_threads);

    // Divides the step's work for as many threads as there is room for; its arrays stay as they are until the last run.
    // Throws std::bad_alloc, and then the step planned before is still there.
    void plan(const AttentionStep& step);

    // Attends to the planned step on the pool's threads, for which there is room. A row that sees no key has output 0.
    void run(const AttentionRule& rule, const AttentionTensors& tensors, ThreadPool& pool);

    [[nodiscard]] const AttentionShape& shape() const { return shape_; }

  private:
    void merge_parts(const AttentionMerge& merged, const AttentionTensors& tensors, float* scratch) const;

    AttentionShape shape_;
    AttentionStep step_;
    AttentionPlan plan_;           // of step_
    std::vector<float> partials_;  // of plan_: sums [head_dim], the highest score, the total
    Buffer<float> scratch_;
    int32_t scratch_threads_ = 0;
};

}  // namespace nanolith::cpu
