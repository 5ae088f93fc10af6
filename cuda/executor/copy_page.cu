// Blocks for each layer, 16 bytes a thread and step. Bytes: the page in all layers, read and written. One launch, where
// the runtime's strided copies take no layers of 2 GiB and more.
#include <algorithm>

#include "executor/copy_page.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 16;  // of a layer

__global__ void __launch_bounds__(kThreads) copy_page_kernel(PagePool pool, int32_t from, int32_t to) {
    std::byte* const layer = pool.data + static_cast<int64_t>(blockIdx.y) * pool.layer_bytes;
    const auto* const source = reinterpret_cast<const uint4*>(layer + from * pool.page_bytes);
    auto* const target = reinterpret_cast<uint4*>(layer + to * pool.page_bytes);
    const int64_t count = pool.page_bytes / static_cast<int64_t>(sizeof(uint4));
    const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
        target[i] = source[i];
}

}  // namespace

Result<void> copy_page(const PagePool& pool, int32_t from, int32_t to, cudaStream_t stream) {
    if (from == to) return {};
    const int64_t pieces = pool.page_bytes / static_cast<int64_t>(sizeof(uint4));
    const int64_t blocks = std::min(kMaxBlocks, (pieces + kThreads - 1) / kThreads);
    const LaunchShape shape{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(pool.num_layers)),
                            dim3(kThreads)};
    return launch(copy_page_kernel, shape, stream, pool, from, to);
}

}  // namespace nanolith::cuda
