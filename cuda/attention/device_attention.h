// Attention over a paged KV cache on one device: what an executor and a plan of nanolith_ops.h both are made of. It has
// everything but the pages and the device's copy of the plans, which each of the two brings over in its own way.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "attention/attention.h"
#include "attention/merge/partials.h"
#include "attention/plan/plan.h"
#include "attention/plan/work_arrays.h"
#include "backend/kernels.h"
#include "backend/model_spec.h"
#include "norm/norm.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

struct GpuFacts {
    int multiprocessors = 0;
    int major = 0;  // compute capability
};

// UNSUPPORTED where there are no kernels for the heads or the number formats.
Result<void> check_attention(const AttentionSpec& spec, const GpuFacts& gpu);

// What the layers that share the object may differ in.
struct LayerKinds {
    std::vector<int32_t> windows;  // each once
    std::vector<RopeSpec> ropes;
};
constexpr int32_t kNoRope = -1;

struct AppendCall {
    int32_t rope = kNoRope;  // of the keys: an index of LayerKinds::ropes
    int rows = 0;
    const int32_t* slots = nullptr;          // [rows]
    const int32_t* key_positions = nullptr;  // [rows]; used with a rope alone
    MutableHeadRows queries{};               // to be finished in place with bias and norm; no data: there are none
    ConstHeadRows keys{};
    ConstHeadRows values{};
    const void* bias = nullptr;  // [num_heads + 2 * num_kv_heads, head_dim], or null
    Norm q_norm{};
    Norm k_norm{};
    Pages<void> pages{};
};

struct AttentionCall {
    int32_t rope = kNoRope;
    int32_t window = 0;   // one of LayerKinds::windows
    WorkView work{};      // the window's plan on the device
    WorkCounts counts{};  // room that it was given there
    ConstHeadRows queries{};
    Pages<const void> pages{};
    MutableHeadRows output{};
    float* lse = nullptr;  // or null
};

class DeviceAttention {
  public:
    // For specs that check_attention takes; of the spec, window and rotation don't count. The capacity is of a step.
    DeviceAttention(const AttentionSpec& spec, LayerKinds layers, const PlanCapacity& capacity, const GpuFacts& gpu);

    // Memory for partial results and the turns of all positions, ready when the call returns.
    Result<void> allocate(cudaStream_t stream);

    // Frees what is on the device, which must be the current one.
    void release();

    // One for each of LayerKinds::windows, valid until the next call.
    std::span<const AttentionPlan* const> plan(const AttentionStep& step);
    [[nodiscard]] size_t plan_of(int32_t window) const;
    // Whatever the window.
    [[nodiscard]] const PlanShape& plan_shape() const { return plan_shape_; }

    Result<void> append(const AppendCall& call, cudaStream_t stream) const;
    Result<void> run(const AttentionCall& call, cudaStream_t stream) const;

  private:
    struct DeviceRope {
        DeviceBuffer frequencies;  // [head_dim / 2]
        DeviceBuffer magnitudes;   // [head_dim / 2], or empty: all 1
        DeviceBuffer turns;        // [max_position, head_dim / 2] float2
    };

    Result<DeviceRope> make_rope(const RopeSpec& rope, cudaStream_t stream) const;
    [[nodiscard]] const DeviceRope* rope_of(int32_t index) const;
    template <typename T>
    Result<void> append_typed(const AppendCall& call, cudaStream_t stream) const;
    template <typename T>
    Result<void> run_typed(const AttentionCall& call, cudaStream_t stream) const;

    AttentionSpec spec_;
    LayerKinds layers_;
    int32_t max_rows_ = 0;
    HeadShape heads_;
    PlanShape plan_shape_;
    std::vector<AttentionPlanner> planners_;  // for each window
    std::vector<const AttentionPlan*> plans_;
    Partials partials_;
    std::vector<DeviceRope> ropes_;
};

}  // namespace nanolith::cuda
