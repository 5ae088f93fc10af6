// A model on one GPU.
#pragma once

#include <memory>

#include "backend/executor.h"
#include "backend/model_spec.h"
#include "backend/model_weights.h"
#include "backend/progress.h"

namespace nanolith::cuda {

// Whether compact weights stay compact by default on a GPU of compute capability `major`: where there are kernels that
// multiply them as they are. Elsewhere they would be expanded for every product.
constexpr bool keeps_compact(int major) {
    return major == 9;
}

// Checks the model, uploads its weights to device `index`, allocates pages and scratch memory there and, if the options
// ask for it, runs a few steps (warm_up.h).
Result<std::unique_ptr<Executor>> create_cuda_executor(int index, const ModelSpec& spec, const ModelWeights& weights,
                                                       const ExecutorOptions& options, const Progress& progress);

}  // namespace nanolith::cuda
