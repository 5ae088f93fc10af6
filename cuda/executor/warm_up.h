// Steps that are run while an executor is made, so that a user's first steps are not slower than later ones.
#pragma once

#include <functional>

#include "backend/batch.h"
#include "backend/executor.h"
#include "backend/model_spec.h"
#include "backend/model_weights.h"
#include "backend/progress.h"

namespace nanolith::cuda {

// Runs a step through the first `num_layers` layers of the model, and waits for its end.
using RunStep = std::function<Result<void>(const Batch& batch, int32_t num_layers)>;

// Runs decode steps of the usual sizes through all layers, twice each, and prefill steps of some sizes through only as
// many layers, from the first on, as it takes to have one of each kind. This loads the kernels, chooses the algorithms
// of matrix products and records the graphs of decode steps. The steps read page 0, which must hold finite numbers, and
// write no page.
Result<void> warm_up(const RunStep& run, const ModelSpec& spec, const ModelWeights& weights,
                     const ExecutorOptions& options, const Progress& progress);

}  // namespace nanolith::cuda
