// A model on one GPU.
#pragma once

#include <memory>

#include "backend/executor.h"
#include "backend/model_spec.h"
#include "backend/model_weights.h"
#include "backend/progress.h"

namespace nanolith::cuda {

// Uploads the weights, reserves pages and scratch memory on device `index` and runs a few steps (warm_up.h). The model
// is checked first.
Result<std::unique_ptr<Executor>> create_cuda_executor(int index, const ModelSpec& spec, const ModelWeights& weights,
                                                       const ExecutorOptions& options, const Progress& progress);

}  // namespace nanolith::cuda
