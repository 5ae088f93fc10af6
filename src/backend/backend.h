// The interface that a device implements. Everything above it (engine, kv, model) knows no device. Everything below it
// (src/backend/cpu, cuda) knows the headers of this folder and src/base alone.
//
// A Backend is a device. It makes an Executor (executor.h) for one model (model_spec.h, model_weights.h). The executor
// takes steps, each a Batch (batch.h), and computes the decoder over them in the order of operations that forward.h
// has for all devices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backend/dtype.h"
#include "backend/executor.h"
#include "backend/model_spec.h"
#include "backend/model_weights.h"
#include "backend/progress.h"
#include "base/result.h"

namespace nanolith {

// One device: what it can do, and how an executor is made on it.
class Backend {
  public:
    Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;
    virtual ~Backend() = default;

    [[nodiscard]] virtual std::string device_name() const = 0;  // "cuda:0 NVIDIA H200"
    // Whether weights and activations may be of this format.
    [[nodiscard]] virtual bool supports(DType dtype) const = 0;
    // Whether compact weights stay as their source has them (WeightForm::source); else they are widened.
    [[nodiscard]] virtual bool keeps_compact() const = 0;
    [[nodiscard]] virtual Result<uint64_t> available_memory() const = 0;  // bytes that an executor could take now

    // Copies the weights (or uses them in place, where the device can), reserves the page pool,
    // [num_layers][num_pages, 2, num_kv_heads, page_size, head_dim], and prepares what the first steps would otherwise
    // wait for: kernels, algorithms, recorded steps. Where uses_weights_in_place() says so, the memory of the views
    // must outlive the executor. CANCELLED where `progress` answers false.
    virtual Result<std::unique_ptr<Executor>> create_executor(const ModelSpec& spec, const ModelWeights& weights,
                                                              const ExecutorOptions& options,
                                                              const Progress& progress) = 0;
};

// The CPU with `num_threads` threads, one of which is the caller's; 0: as many as there are cores that the process may
// use. Where the system refuses some of them, `warn` is called with a sentence that says so. Only one of its executors
// may compute at a time.
Result<std::unique_ptr<Backend>> open_cpu_backend(int32_t num_threads,
                                                  const std::function<void(const std::string&)>& warn = {});

// The GPU `index` through libnanolith_cuda.so, found next to this library or in NANOLITH_BACKEND_PATH (a list of
// folders). NOT_FOUND says what is missing: the library, the driver or the device.
Result<std::unique_ptr<Backend>> open_cuda_backend(int32_t index);

// The function that a backend library exports as kBackendOpenName. `version` must be equal to the backend's own
// nl_version(), since C++ objects cross this boundary.
using BackendOpen = void(const char* version, int32_t index, Result<std::unique_ptr<Backend>>& result);
constexpr const char* kBackendOpenName = "nl_backend_open";

}  // namespace nanolith
