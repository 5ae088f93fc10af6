// Which experts compute which rows of a batch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/model_spec.h"
#include "base/result.h"

namespace nanolith::cuda {

// A pair is a row and one of the top_k experts that it chose: pair row * top_k + j. Products take pairs grouped by
// expert, in ascending order within each.
struct RoutingView {
    int32_t* experts = nullptr;  // [pairs] by row
    float* shares = nullptr;     // [pairs] by row: how much the expert's output counts
    int32_t* places = nullptr;   // [pairs] by row: where the pair is among those grouped by expert
    int32_t* pairs = nullptr;    // [pairs] grouped by expert
    int32_t* begins = nullptr;   // [experts + 1] where each expert's pairs begin
};

// Chooses for each row the top_k experts with the highest logits (the first of equal ones) and fills all of `to`:
// logits [rows, experts] float32. Rows of NaN choose some experts.
Result<void> route(const float* logits, const ExpertSpec& experts, int rows, const RoutingView& to,
                   cudaStream_t stream);

// residual[row] += the sum of shares * outputs over the row's pairs: outputs [pairs, hidden] float32 grouped by expert.
Result<void> add_experts(const float* outputs, const RoutingView& routing, int top_k, int rows, int hidden,
                         float* residual, cudaStream_t stream);

}  // namespace nanolith::cuda
