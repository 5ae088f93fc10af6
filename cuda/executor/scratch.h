// The device memory of an executor for activations: what is neither weights nor pages.
#pragma once

#include "attention/common/shape.h"
#include "backend/executor.h"
#include "backend/model_spec.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

// Sizes are for padded_rows() of max_rows rows and of max_output_rows output rows. T is the executor's type.
struct Scratch {
    DeviceBuffer residual;  // [rows, hidden] float32
    DeviceBuffer normed;    // [max(rows, output rows), hidden] T
    DeviceBuffer qkv;       // [rows, num_heads + 2 * num_kv_heads, head_dim] T
    DeviceBuffer attended;  // [rows, num_heads, head_dim] T
    DeviceBuffer gate_up;   // [rows, 2 * intermediate] T
    DeviceBuffer inner;     // [rows, intermediate] T
    DeviceBuffer added;     // [rows, hidden] float32: products that get a bias or a norm before they are added
    DeviceBuffer logits;    // [output rows, vocab] float32
    DeviceBuffer sampled;   // [output rows] int32 drawn tokens; until head(), those of the step before
};

Result<Scratch> allocate_scratch(const ModelSpec& spec, const HeadShape& heads, const ExecutorOptions& options);

}  // namespace nanolith::cuda
