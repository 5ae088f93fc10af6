// The shape of a plan that the planner's tests and its benchmark share.
#pragma once

#include "attention/plan/plan_shape.h"

namespace nanolith::cuda {

// Llama-3.1-8B in float16 on an H200, pages of 64 tokens.
inline PlanShape llama_shape(int wide_vectors) {
    PlanShape shape;
    shape.num_heads = 32;
    shape.num_kv_heads = 8;
    shape.page_size = 64;
    shape.multiprocessors = 132;
    shape.tile_bytes = 2 * kNarrowTokens * 128 * 2;
    shape.kernel = NarrowKernel::hopper;
    shape.wide_vectors = wide_vectors;
    return shape;
}

}  // namespace nanolith::cuda
