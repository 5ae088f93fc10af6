// A layer's experts for up to four rows of 16-bit activations on Hopper, in two launches. Each row has chosen some of
// them; an expert's weights are read through shared memory to the tensor cores, as linear/streamed.h and
// compact/streamed_compact.h do it, once for each row that has chosen it.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/model_spec.h"
#include "compact/layout.h"
#include "experts/routing.h"
#include "linear/streamed.h"

namespace nanolith::cuda {

// The experts of a layer, and the rows that they are for.
struct ExpertRows {
    ExpertSpec spec;
    int hidden = 0;
    int rows = 0;

    [[nodiscard]] __host__ __device__ int pairs() const { return rows * spec.top_k; }
};

// Whether the functions below take such rows, with that StreamedLaunch::half.
template <typename T>
bool streamed_experts_support(const ExpertRows& rows, bool half, const GpuFacts& gpu);

// Chooses each row's experts by the router's logits [rows, experts] and writes them, and how much each counts, to
// routing.experts and routing.shares; then inner [pairs, intermediate] = activation(norm(x) W_gate^T) * (norm(x)
// W_up^T) with the weights of each pair's expert, gate_up [experts, 2 * intermediate, hidden]. x has all of `rows`.
template <typename T>
Result<void> streamed_experts_gate_up(const ExpertRows& rows, const NormedRows<T>& x, const float* logits,
                                      Activation activation, const T* gate_up, const RoutingView& routing, T* inner,
                                      const StreamedLaunch& how);

// residual [rows, hidden] += the sum of share * inner W^T over each row's pairs, down [experts, hidden, intermediate].
template <typename T>
Result<void> streamed_experts_down(const ExpertRows& rows, const T* inner, const T* down, const RoutingView& routing,
                                   float* residual, const StreamedLaunch& how);

// The same for compact experts of these forms; `first` is the matrix of the first one, as ExpertMatrix has it.
bool streamed_compact_experts_support(const ExpertRows& rows, const CompactLayout& gate_up, const CompactLayout& down,
                                      bool half, const GpuFacts& gpu);
template <typename T>
Result<void> streamed_compact_gate_up(const ExpertRows& rows, const NormedRows<T>& x, const float* logits,
                                      Activation activation, const CompactMatrix& first, const RoutingView& routing,
                                      T* inner, const StreamedLaunch& how);
template <typename T>
Result<void> streamed_compact_down(const ExpertRows& rows, const T* inner, const CompactMatrix& first,
                                   const RoutingView& routing, float* residual, const StreamedLaunch& how);

}  // namespace nanolith::cuda
