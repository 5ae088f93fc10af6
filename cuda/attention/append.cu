// A warp for each head of each row, the row along the grid's x, four heads a block along its y. A lane holds the
// pairs i, i + head_dim / 2 for i = lane, lane + 32, ... in registers. Bytes: two to read and two to write an
// element; bound by the launch for few rows and by memory for many.
#include "attention/append.h"
#include "backend/backend.h"
#include "device/number.cuh"
#include "device/reduce.cuh"
#include "device/rope.cuh"
#include "runtime/launch.h"

namespace nanolith::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kMaxPairs = 4;  // a lane's share of head_dim / 2 <= 128

// Element pairs of one head in a lane's registers.
struct HeadPairs {
    float low[kMaxPairs];
    float high[kMaxPairs];
};

template <typename T>
__device__ void add_vector(const T* vector, int half, int lane, HeadPairs& pairs) {
#pragma unroll
    for (int j = 0; j < kMaxPairs; ++j) {
        const int i = lane + j * kWarp;
        if (i < half) {
            pairs.low[j] += to_float(vector[i]);
            pairs.high[j] += to_float(vector[i + half]);
        }
    }
}

// RMSNorm of the head.
__device__ inline void normalise(const Norm& norm, int half, int lane, HeadPairs& pairs) {
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kMaxPairs; ++j) squares += pairs.low[j] * pairs.low[j] + pairs.high[j] * pairs.high[j];
    const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(2 * half) + norm.epsilon);
#pragma unroll
    for (int j = 0; j < kMaxPairs; ++j) {
        const int i = lane + j * kWarp;
        if (i < half) {
            pairs.low[j] *= scale * norm.weight[i];
            pairs.high[j] *= scale * norm.weight[i + half];
        }
    }
}

__device__ inline void rotate(const float* frequencies, const float* magnitudes, int position, int half, int lane,
                              HeadPairs& pairs) {
#pragma unroll
    for (int j = 0; j < kMaxPairs; ++j) {
        const int i = lane + j * kWarp;
        if (i < half) {
            const float2 turn = rope_turn(position, frequencies[i], magnitudes != nullptr ? magnitudes[i] : 1.0F);
            const float low = pairs.low[j];
            pairs.low[j] = low * turn.x - pairs.high[j] * turn.y;
            pairs.high[j] = pairs.high[j] * turn.x + low * turn.y;
        }
    }
}

template <typename T>
__device__ void store(T* to, int half, int lane, const HeadPairs& pairs) {
#pragma unroll
    for (int j = 0; j < kMaxPairs; ++j) {
        const int i = lane + j * kWarp;
        if (i < half) {
            to[i] = from_float<T>(pairs.low[j]);
            to[i + half] = from_float<T>(pairs.high[j]);
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(kWarps* kWarp) append_kernel(AppendArguments<T> a, HeadShape shape, int first_head) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int head = first_head + static_cast<int>(blockIdx.y) * kWarps + warp;
    const int num_heads = shape.num_heads + 2 * shape.num_kv_heads;
    if (head >= num_heads) return;
    const int row = static_cast<int>(blockIdx.x);
    const int half = shape.head_dim / 2;
    const bool is_query = head < shape.num_heads;
    const bool is_key = !is_query && head < shape.num_heads + shape.num_kv_heads;
    const int slot = a.slots[row];
    if (!is_query && slot == kNoSlot) return;

    T* const at = a.qkv + (static_cast<int64_t>(row) * num_heads + head) * shape.head_dim;
    HeadPairs pairs = {};
    add_vector(at, half, lane, pairs);
    if (a.bias != nullptr) add_vector(a.bias + static_cast<int64_t>(head) * shape.head_dim, half, lane, pairs);
    if (is_query) {
        if (a.q_norm.weight != nullptr) normalise(a.q_norm, half, lane, pairs);
        store(at, half, lane, pairs);
        return;
    }
    if (is_key) {
        if (a.k_norm.weight != nullptr) normalise(a.k_norm, half, lane, pairs);
        rotate(a.frequencies, a.magnitudes, a.key_positions[row], half, lane, pairs);
    }
    const int kv_head = (head - shape.num_heads) % shape.num_kv_heads;
    const int64_t page = slot / shape.page_size;
    const int64_t tile = (page * 2 + (is_key ? 0 : 1)) * shape.num_kv_heads + kv_head;
    store(a.pages + (tile * shape.page_size + slot % shape.page_size) * shape.head_dim, half, lane, pairs);
}

}  // namespace

template <typename T>
Result<void> append_to_pages(const AppendArguments<T>& arguments, const HeadShape& shape, int rows,
                             cudaStream_t stream) {
    // Queries without bias and norm are already what they should be.
    const bool skip_queries = arguments.bias == nullptr && arguments.q_norm.weight == nullptr;
    const int first_head = skip_queries ? shape.num_heads : 0;
    const int heads = shape.num_heads + 2 * shape.num_kv_heads - first_head;
    const LaunchShape launch_shape{
        dim3(static_cast<unsigned>(rows), static_cast<unsigned>((heads + kWarps - 1) / kWarps)), dim3(kWarps * kWarp)};
    return launch(append_kernel<T>, launch_shape, stream, arguments, shape, first_head);
}

template Result<void> append_to_pages(const AppendArguments<float>&, const HeadShape&, int, cudaStream_t);
template Result<void> append_to_pages(const AppendArguments<__half>&, const HeadShape&, int, cudaStream_t);
template Result<void> append_to_pages(const AppendArguments<__nv_bfloat16>&, const HeadShape&, int, cudaStream_t);

}  // namespace nanolith::cuda
