// A model on one GPU.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace nanolith::cuda {

// Uploads the weights and reserves pages and scratch memory on device `index`. The model is checked first.
Result<std::unique_ptr<Executor>> create_cuda_executor(int index, const ModelSpec& spec, const ModelWeights& weights,
                                                       const ExecutorOptions& options);

}  // namespace nanolith::cuda
