// Moving pages between the pool on the device and page-locked memory of the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "executor/copy_page.h"

namespace nanolith::cuda {

// The host's order is page first, [pages, num_layers, page_bytes]. The memory there must be page-locked, and stay until
// the stream has done the copy.
Result<void> pages_to_host(const PagePool& pool, std::span<const int32_t> pages, std::byte* host, cudaStream_t stream);
Result<void> pages_from_host(const PagePool& pool, std::span<const int32_t> pages, const std::byte* host,
                             cudaStream_t stream);

}  // namespace nanolith::cuda
