// Copying one page of the pool to another, in every layer.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace nanolith::cuda {

// The pages of all layers on the device.
struct PagePool {
    std::byte* data = nullptr;
    int64_t page_bytes = 0;   // of one page and layer; a multiple of 16
    int64_t layer_bytes = 0;  // from the beginning of one layer's pages to that of the next layer's
    int32_t num_layers = 0;
};

Result<void> copy_page(const PagePool& pool, int32_t from, int32_t to, cudaStream_t stream);

}  // namespace nanolith::cuda
