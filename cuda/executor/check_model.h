// Whether a model and its options are ones that this backend can run.
#pragma once

#include "backend/backend.h"

namespace nanolith::cuda {

// Checks the numbers of `spec` and `options`, and that every weight is there in the shape that they say.
// Errors: INVALID_ARGUMENT, or UNSUPPORTED for what is well-formed but beyond the kernels.
Result<void> check_model(const ModelSpec& spec, const ModelWeights& weights, const ExecutorOptions& options);

}  // namespace nanolith::cuda
