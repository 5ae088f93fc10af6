// choose: a warp for each row. group: a block for each expert reads all choices twice, to count those of experts before
// it and then to write its own in order; no atomics, so that sums come in the same order every time. add: a block for
// each row. Bytes: 4 experts a row; 8 pairs an expert (from L2); 4 top_k hidden a row. Bound by latency for few rows.
#include "device/reduce.cuh"
#include "experts/choose.cuh"
#include "experts/routing.h"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

__global__ void __launch_bounds__(kThreads)
    choose_kernel(const float* logits, ExpertSpec spec, int rows, int32_t* experts, float* shares) {
    const int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
    if (row >= rows) return;
    choose_experts(logits + static_cast<int64_t>(row) * spec.count, spec,
                   experts + static_cast<int64_t>(row) * spec.top_k, shares + static_cast<int64_t>(row) * spec.top_k);
}

// Sum over the block of what each thread counted.
__device__ inline int block_count(int value, int* counts) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
    __syncthreads();
    if (lane == 0) counts[warp] = value;
    __syncthreads();
    int total = 0;
    for (int i = 0; i < kWarps; ++i) total += counts[i];
    return total;
}

__global__ void __launch_bounds__(kThreads) group_kernel(RoutingView routing, int num_pairs, int num_experts) {
    __shared__ int counts[kWarps];
    const int expert = static_cast<int>(blockIdx.x);
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % kWarp;
    const int warp = thread / kWarp;
    int before = 0;
    for (int i = thread; i < num_pairs; i += kThreads) before += routing.experts[i] < expert ? 1 : 0;
    int place = block_count(before, counts);
    if (thread == 0) routing.begins[expert] = place;
    if (thread == 0 && expert == num_experts - 1) routing.begins[num_experts] = num_pairs;

    for (int first = 0; first < num_pairs; first += kThreads) {
        const int pair = first + thread;
        const bool mine = pair < num_pairs && routing.experts[pair] == expert;
        const unsigned votes = __ballot_sync(kAllLanes, mine);
        const int total = block_count(mine ? 1 : 0, counts);
        int in_order = __popc(votes & ((1U << lane) - 1U));
        for (int i = 0; i < warp; ++i) in_order += counts[i];
        if (mine) {
            routing.pairs[place + in_order] = pair;
            routing.places[pair] = place + in_order;
        }
        place += total;
    }
}

__global__ void __launch_bounds__(kThreads)
    add_kernel(const float* outputs, RoutingView routing, int top_k, int hidden, float* residual) {
    const int64_t row = blockIdx.x;
    for (int i = static_cast<int>(threadIdx.x); i < hidden; i += kThreads) {
        float sum = 0;
        for (int j = 0; j < top_k; ++j) {
            const int64_t pair = row * top_k + j;
            sum += routing.shares[pair] * outputs[static_cast<int64_t>(routing.places[pair]) * hidden + i];
        }
        residual[row * hidden + i] += sum;
    }
}

}  // namespace

Result<void> route(const float* logits, const ExpertSpec& experts, int rows, const RoutingView& to,
                   cudaStream_t stream) {
    const LaunchShape by_row{dim3(static_cast<unsigned>((rows + kWarps - 1) / kWarps)), dim3(kThreads)};
    NL_TRY(launch(choose_kernel, by_row, stream, logits, experts, rows, to.experts, to.shares));
    const LaunchShape by_expert{dim3(static_cast<unsigned>(experts.count)), dim3(kThreads)};
    return launch(group_kernel, by_expert, stream, to, rows * experts.top_k, experts.count);
}

Result<void> add_experts(const float* outputs, const RoutingView& routing, int top_k, int rows, int hidden,
                         float* residual, cudaStream_t stream) {
    const LaunchShape shape{dim3(static_cast<unsigned>(rows)), dim3(kThreads)};
    return launch(add_kernel, shape, stream, outputs, routing, top_k, hidden, residual);
}

}  // namespace nanolith::cuda
