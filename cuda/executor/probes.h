// The probes of a step (backend/batch.h) on the device: the pages they are about, and the weights of their tokens.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "attention/probe/probe.h"
#include "backend/batch.h"
#include "backend/model_spec.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

// One probe: rows of the batch, and its pages and tokens among those of all probes.
struct ProbeShape {
    int32_t first_row = 0;
    int32_t num_rows = 0;
    int32_t first_position = 0;
    int32_t first_page = 0;
    int32_t num_pages = 0;
    int32_t first_token = 0;
    int32_t num_tokens = 0;
};

class Probes {
  public:
    // Makes the probes of `batch` those of the step whose forward pass is put on `stream` next. `pages` is page-locked
    // host memory, which is allocated anew where it is too small; it must stay as it is while the step is in flight.
    Result<void> set(const Batch& batch, int32_t page_size, const ModelSpec& spec, PinnedBuffer& pages,
                     cudaStream_t stream);

    [[nodiscard]] bool empty() const { return shapes_.empty(); }
    // Of all probes.
    [[nodiscard]] size_t num_tokens() const { return num_tokens_; }
    [[nodiscard]] const std::vector<ProbeShape>& shapes() const { return shapes_; }
    [[nodiscard]] const ProbePage* pages() const { return pages_; }
    [[nodiscard]] float* lse() const { return lse_.as<float>(); }
    [[nodiscard]] float* totals() const { return totals_.as<float>(); }
    [[nodiscard]] float* shares() const { return shares_.as<float>(); }
    [[nodiscard]] float* weights() const { return weights_.as<float>(); }

    // Frees what is on the device, which must be the current one.
    void release() { *this = Probes(); }

  private:
    std::vector<ProbeShape> shapes_;
    const ProbePage* pages_ = nullptr;
    size_t num_tokens_ = 0;
    // On the device, grown as needed: of the largest probe, and of all.
    DeviceBuffer lse_;
    DeviceBuffer totals_;
    DeviceBuffer shares_;
    DeviceBuffer weights_;
};

}  // namespace nanolith::cuda
