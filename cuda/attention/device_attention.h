// Attention over a paged KV cache on one device, for an executor and for a plan of nanolith_ops.h. It has all that both
// need except the pages and the plans' copies on the device: each of the two has its own way of sending those.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "attention/attention.h"
#include "attention/merge/partials.h"
#include "attention/plan/plan.h"
#include "attention/plan/work_arrays.h"
#include "attention/probe/probe.h"
#include "backend/kernels.h"
#include "backend/model_spec.h"
#include "norm/norm.h"
#include "runtime/gpu_facts.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

// NL_ERROR_UNSUPPORTED where there are no kernels for the heads or the number formats.
Result<void> check_attention(const AttentionSpec& spec, const GpuFacts& gpu);

// How the layers that share a DeviceAttention may differ.
struct LayerKinds {
    std::vector<int32_t> windows;  // as AttentionSpec::window, each value once
    std::vector<RopeSpec> ropes;
};
constexpr int32_t kNoRope = -1;

// What is written to the pages of one layer. All pointers are to device memory.
struct AppendCall {
    int32_t rope = kNoRope;  // of the keys: an index of LayerKinds::ropes, or kNoRope
    int rows = 0;
    const int32_t* slots = nullptr;          // [rows]
    const int32_t* key_positions = nullptr;  // [rows]; not read without a rope
    MutableHeadRows queries{};               // bias and norm are applied in place; no data: there are no queries
    ConstHeadRows keys{};
    ConstHeadRows values{};
    const void* bias = nullptr;  // [num_heads + 2 * num_kv_heads, head_dim], or null
    Norm q_norm{};
    Norm k_norm{};
    Pages<void> pages{};
    // The launch may begin while previous launches of the stream still run, and then reads `slots` and `key_positions`
    // at once: none of those launches may write them.
    bool early = false;
};

// The attention of one layer. All pointers are to device memory.
struct AttentionCall {
    int32_t rope = kNoRope;  // of the queries, as AppendCall::rope
    int32_t window = 0;      // one of LayerKinds::windows
    WorkView work{};         // the plan of that window
    ShortView short_work{};  // where it is one for the short kernel
    WorkCounts counts{};     // the room of its arrays
    ConstHeadRows queries{};
    Pages<const void> pages{};
    MutableHeadRows output{};
    float* lse = nullptr;  // [rows, num_heads] natural log-sum-exp, or null
    // The launch may begin while previous launches of the stream still run, and then reads the plan (`work`) at once:
    // none of those launches may write it.
    bool early = false;
};

// The token weights of one layer's probe (probe/probe.h). All pointers are to memory that the device reads and writes.
struct ProbeCall {
    int32_t rope = kNoRope;
    ConstHeadRows queries{};
    Pages<const void> pages{};
    const ProbePage* probed = nullptr;
    int32_t num_pages = 0;
    int32_t num_tokens = 0;
    int32_t first_row = 0;
    int32_t num_rows = 0;
    int32_t first_position = 0;
    float* lse = nullptr;
    float* totals = nullptr;
    float* shares = nullptr;
    float* weights = nullptr;
};

// Not thread-safe. All work is put on the streams that calls name, which must be of one device, the current one.
class DeviceAttention {
  public:
    // The spec is one that check_attention accepts; `layers` stands for its window and rotation. The capacity is the
    // most that a step has.
    DeviceAttention(const AttentionSpec& spec, LayerKinds layers, const PlanCapacity& capacity, const GpuFacts& gpu);

    // Memory for partial results and the rotations of all positions, ready when the call returns. To be called once,
    // before append() and run().
    Result<void> allocate(cudaStream_t stream);

    // Frees what is on the device, which must be the current one.
    void release();

    // Plans a step: a plan for each of LayerKinds::windows, in that order, valid until the next call. Host work alone.
    // Plans of steps with `written` may be for append_and_run().
    std::span<const AttentionPlan* const> plan(const AttentionStep& step, const WrittenRows& written = {});
    // The index among these of the plan for a window.
    [[nodiscard]] size_t plan_of(int32_t window) const;
    // Whether a plan with such counts is for append_and_run().
    [[nodiscard]] static bool appends(const WorkCounts& counts);
    // Whether an early launch behind the attention of a plan with such counts should begin as soon as its blocks leave
    // multiprocessors to it.
    [[nodiscard]] bool lets_next_begin(const WorkCounts& counts, int rows) const;
    // What the plans depend on; its `window` is of no meaning.
    [[nodiscard]] const PlanShape& plan_shape() const { return plan_shape_; }

    // Applies bias and norms, rotates the keys and writes keys and values to their slots (append/append.h).
    Result<void> append(const AppendCall& call, cudaStream_t stream) const;
    // The attention of every row of the plan.
    Result<void> run(const AttentionCall& call, cudaStream_t stream) const;
    // Adds to the token weights of a probe what its rows attend to in a layer without a window.
    Result<void> probe(const ProbeCall& call, cudaStream_t stream) const;
    // append() and run() in one launch, for plans of which appends() says so; these take no other call. The plan is
    // read from `call`; what both arguments have, from `rows`.
    Result<void> append_and_run(const AppendCall& rows, const AttentionCall& call, cudaStream_t stream) const;

  private:
    struct DeviceRope {
        DeviceBuffer frequencies;  // [head_dim / 2]
        DeviceBuffer magnitudes;   // [head_dim / 2], or empty: all 1
        DeviceBuffer rotations;    // [max_position, head_dim / 2] float2, cosine and sine
    };

    Result<DeviceRope> make_rope(const RopeSpec& rope, cudaStream_t stream) const;
    [[nodiscard]] const DeviceRope* rope_of(int32_t index) const;
    template <typename T>
    Result<void> append_typed(const AppendCall& call, cudaStream_t stream) const;
    template <typename T>
    Result<void> probe_typed(const ProbeCall& call, cudaStream_t stream) const;
    template <typename T>
    Result<void> run_typed(const AttentionCall& call, cudaStream_t stream) const;
    template <typename T>
    [[nodiscard]] AttentionArguments<T> arguments_of(const AttentionCall& call) const;
    template <typename T>
    Result<void> run_appending(const AppendCall& rows, const AttentionCall& call, cudaStream_t stream) const;
    template <typename T>
    Result<void> run_short(const AppendCall& rows, const AttentionCall& call, cudaStream_t stream) const;
    [[nodiscard]] AttentionRule rule_of(const AttentionCall& call) const;

    AttentionSpec spec_;
    LayerKinds layers_;
    int32_t max_rows_ = 0;
    HeadShape heads_;
    PlanShape plan_shape_;
    std::vector<AttentionPlanner> planners_;   // [windows]
    std::vector<const AttentionPlan*> plans_;  // [windows] of the latest step
    Partials partials_;
    std::vector<DeviceRope> ropes_;
};

}  // namespace nanolith::cuda
