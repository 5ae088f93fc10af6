// A thread for each entry. Bytes: 8 to write for each; runs once.
#include "rope/rope_table.h"

#include <algorithm>

#include "device/rope.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 4096;

__global__ void __launch_bounds__(kThreads)
    rope_table_kernel(const float* frequencies, const float* magnitudes, int num_pairs, int64_t count, float2* table) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
        const int64_t pair = i % num_pairs;
        table[i] = rope_rotation(static_cast<int>(i / num_pairs), frequencies[pair],
                                 magnitudes != nullptr ? magnitudes[pair] : 1.0F);
    }
}

}  // namespace

Result<void> fill_rope_table(const float* frequencies, const float* magnitudes, int num_pairs, int64_t max_position,
                             float2* table, cudaStream_t stream) {
    const int64_t count = num_pairs * max_position;
    if (count == 0) return {};
    const int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMaxBlocks);
    const LaunchShape launch_shape{dim3(static_cast<unsigned>(blocks)), dim3(kThreads)};
    return launch(rope_table_kernel, launch_shape, stream, frequencies, magnitudes, num_pairs, count, table);
}

}  // namespace nanolith::cuda
