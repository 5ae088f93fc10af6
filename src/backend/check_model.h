// Whether a model and its options make sense: the same check for every backend.
#pragma once

#include "backend/executor.h"
#include "backend/model_spec.h"
#include "backend/model_weights.h"

namespace nanolith {

// Checks the numbers of `spec` and `options`, and that every weight is there in the shape that they say.
// Errors: INVALID_ARGUMENT.
Result<void> check_model(const ModelSpec& spec, const ModelWeights& weights, const ExecutorOptions& options);

}  // namespace nanolith
