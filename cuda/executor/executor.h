// A model on one GPU.
#pragma once

#include <memory>

#include "backend/executor.h"
#include "backend/model_spec.h"
#include "backend/model_weights.h"
#include "backend/progress.h"

namespace nanolith::cuda {

// Checks the model, uploads its weights to device `index`, allocates pages and scratch memory there and, if the options
// ask for it, runs a few steps (warm_up.h).
Result<std::unique_ptr<Executor>> create_cuda_executor(int index, const ModelSpec& spec, const ModelWeights& weights,
                                                       const ExecutorOptions& options, const Progress& progress);

}  // namespace nanolith::cuda
