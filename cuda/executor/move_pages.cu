// Gathers pages into host memory, or scatters them from there. The pool is layer first, [layers, pages, page_bytes],
// the host page first, [pages, layers, page_bytes]. Grid: parts of a layer's page (x), pages and their layers (y). A
// thread has kUnroll loads of 16 bytes under way, since the way to the host is long. Bytes: each page once over PCI
// Express, which bounds it; one launch for up to kMostPages pages, where the copy engine would take one call for each
// page, and none for layers of 2 GiB and more.
#include <algorithm>

#include "executor/move_pages.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 4;
constexpr int kMostPages = 64;      // of a launch
constexpr int kMostInGrid = 65535;  // blocks in y

// Which pages of the pool a launch moves: an argument by value, so that nothing has to be copied to the device first.
struct PageNumbers {
    int32_t page[kMostPages];
};

// Copies this block's part of `count` pieces of 16 bytes.
__device__ void copy_part(const uint4* __restrict__ source, uint4* __restrict__ target, int64_t count) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads * kUnroll;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads * kUnroll + threadIdx.x; i < count; i += step) {
        uint4 pieces[kUnroll];
#pragma unroll
        for (int j = 0; j < kUnroll; ++j)
            if (i + j * kThreads < count) pieces[j] = source[i + j * kThreads];
#pragma unroll
        for (int j = 0; j < kUnroll; ++j)
            if (i + j * kThreads < count) target[i + j * kThreads] = pieces[j];
    }
}

template <bool kToHost>
__global__ void __launch_bounds__(kThreads) move_pages_kernel(PagePool pool, PageNumbers pages, std::byte* host) {
    const int64_t layer = blockIdx.y % pool.num_layers;
    const int32_t page = pages.page[blockIdx.y / pool.num_layers];
    auto* const inside = reinterpret_cast<uint4*>(pool.data + layer * pool.layer_bytes + page * pool.page_bytes);
    auto* const outside = reinterpret_cast<uint4*>(host + blockIdx.y * pool.page_bytes);
    const int64_t count = pool.page_bytes / static_cast<int64_t>(sizeof(uint4));
    if constexpr (kToHost) {
        copy_part(inside, outside, count);
    } else {
        copy_part(outside, inside, count);
    }
}

template <bool kToHost>
Result<void> move_pages(const PagePool& pool, std::span<const int32_t> pages, std::byte* host, cudaStream_t stream) {
    constexpr int64_t kPiecesOfBlock = int64_t{kThreads} * kUnroll;
    const int64_t pieces = pool.page_bytes / static_cast<int64_t>(sizeof(uint4));
    const int64_t parts = (pieces + kPiecesOfBlock - 1) / kPiecesOfBlock;
    const auto most = static_cast<size_t>(std::clamp(kMostInGrid / pool.num_layers, 1, kMostPages));
    for (size_t first = 0; first < pages.size(); first += most) {
        const size_t count = std::min(most, pages.size() - first);
        PageNumbers numbers{};
        std::copy_n(pages.begin() + static_cast<std::ptrdiff_t>(first), count, numbers.page);
        const LaunchShape shape{
            dim3(static_cast<unsigned>(parts), static_cast<unsigned>(count) * static_cast<unsigned>(pool.num_layers)),
            dim3(kThreads)};
        std::byte* const place = host + static_cast<int64_t>(first) * pool.num_layers * pool.page_bytes;
        NL_TRY(launch(move_pages_kernel<kToHost>, shape, stream, pool, numbers, place));
    }
    return {};
}

}  // namespace

Result<void> pages_to_host(const PagePool& pool, std::span<const int32_t> pages, std::byte* host, cudaStream_t stream) {
    return move_pages<true>(pool, pages, host, stream);
}

Result<void> pages_from_host(const PagePool& pool, std::span<const int32_t> pages, const std::byte* host,
                             cudaStream_t stream) {
    return move_pages<false>(pool, pages, const_cast<std::byte*>(host), stream);  // read alone
}

}  // namespace nanolith::cuda
