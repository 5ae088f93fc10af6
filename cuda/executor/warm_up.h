// Steps that are run while an executor is made, so that the first ones of a user find everything there.
#pragma once

#include "backend/executor.h"
#include "backend/model_spec.h"
#include "backend/progress.h"

namespace nanolith::cuda {

// Runs decode steps of the usual sizes, twice each, and prefill steps of some: this loads their kernels, chooses the
// algorithms of matrix products and records graphs. The steps read page 0, which must hold finite numbers, and write no
// page. Of `progress` they are what follows `from`.
Result<void> warm_up(Executor& executor, const ModelSpec& spec, const ExecutorOptions& options,
                     const Progress& progress, double from);

}  // namespace nanolith::cuda
