// A warp for each head of each row, the row along the grid's x, four heads a block along its y. A lane holds the
// pairs i, i + head_dim / 2 for i = lane, lane + 32, ... in registers. Bytes: each element read and written once, by
// accesses of neighbouring lanes; bound by the launch for few rows and by memory for many.
#include "attention/append/append.h"

#include <cuda_fp8.h>

#include <type_traits>

#include "backend/backend.h"
#include "device/dependent.cuh"
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
            const float2 rotation =
                rope_rotation(position, frequencies[i], magnitudes != nullptr ? magnitudes[i] : 1.0F);
            const float low = pairs.low[j];
            pairs.low[j] = low * rotation.x - pairs.high[j] * rotation.y;
            pairs.high[j] = pairs.high[j] * rotation.x + low * rotation.y;
        }
    }
}

template <typename P>
__device__ P stored(float value) {
    if constexpr (std::is_same_v<P, __nv_fp8_e4m3>) {
        P number;
        number.__x = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
        return number;
    } else {
        return from_float<P>(value);
    }
}

template <typename P>
__device__ void store(P* to, int half, int lane, const HeadPairs& pairs, float factor) {
#pragma unroll
    for (int j = 0; j < kMaxPairs; ++j) {
        const int i = lane + j * kWarp;
        if (i < half) {
            to[i] = stored<P>(pairs.low[j] * factor);
            to[i + half] = stored<P>(pairs.high[j] * factor);
        }
    }
}

// P: the pages' number format.
template <typename T, typename P>
__global__ void __launch_bounds__(kWarps* kWarp) append_kernel(AppendArguments<T> a, HeadShape shape, int first_head) {
    let_next_launch_begin();
    wait_for_launches_before();
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int head = first_head + static_cast<int>(blockIdx.y) * kWarps + warp;
    if (head >= shape.num_heads + 2 * shape.num_kv_heads) return;
    const int row = static_cast<int>(blockIdx.x);
    const int half = shape.head_dim / 2;
    const bool is_query = head < shape.num_heads;
    const bool is_key = !is_query && head < shape.num_heads + shape.num_kv_heads;
    const int slot = a.slots[row];
    if (!is_query && slot == kNoSlot) return;

    const int kv_head = (head - shape.num_heads) % shape.num_kv_heads;
    const T* const at = is_query ? a.queries + a.query_layout.offset(row, head)
                        : is_key ? a.keys + a.key_layout.offset(row, kv_head)
                                 : a.values + a.value_layout.offset(row, kv_head);
    HeadPairs pairs = {};
    add_vector(at, half, lane, pairs);
    if (a.bias != nullptr) add_vector(a.bias + static_cast<int64_t>(head) * shape.head_dim, half, lane, pairs);
    if (is_query) {
        if (a.q_norm.weight != nullptr) normalise(a.q_norm, half, lane, pairs);
        store(a.queries + a.query_layout.offset(row, head), half, lane, pairs, 1.0F);
        return;
    }
    if (is_key) {
        if (a.k_norm.weight != nullptr) normalise(a.k_norm, half, lane, pairs);
        if (a.frequencies != nullptr) rotate(a.frequencies, a.magnitudes, a.key_positions[row], half, lane, pairs);
    }
    const int64_t page = slot / shape.page_size;
    const int64_t tile = (page * 2 + (is_key ? 0 : 1)) * shape.num_kv_heads + kv_head;
    store(static_cast<P*>(a.pages) + (tile * shape.page_size + slot % shape.page_size) * shape.head_dim, half, lane,
          pairs, is_key ? a.key_factor : a.value_factor);
}

}  // namespace

template <typename T>
Result<void> append_to_pages(const AppendArguments<T>& arguments, const HeadShape& shape, int rows, bool early,
                             cudaStream_t stream) {
    if (rows == 0) return {};
    // Queries without bias and norm need no change.
    const bool skip_queries =
        arguments.queries == nullptr || (arguments.bias == nullptr && arguments.q_norm.weight == nullptr);
    const int first_head = skip_queries ? shape.num_heads : 0;
    const int heads = shape.num_heads + 2 * shape.num_kv_heads - first_head;
    const LaunchShape launch_shape{
        dim3(static_cast<unsigned>(rows), static_cast<unsigned>((heads + kWarps - 1) / kWarps)), dim3(kWarps * kWarp),
        0, early};
    if constexpr (sizeof(T) == 2) {
        if (arguments.fp8) {
            return launch(append_kernel<T, __nv_fp8_e4m3>, launch_shape, stream, arguments, shape, first_head);
        }
    }
    return launch(append_kernel<T, T>, launch_shape, stream, arguments, shape, first_head);
}

template Result<void> append_to_pages(const AppendArguments<float>&, const HeadShape&, int, bool, cudaStream_t);
template Result<void> append_to_pages(const AppendArguments<__half>&, const HeadShape&, int, bool, cudaStream_t);
template Result<void> append_to_pages(const AppendArguments<__nv_bfloat16>&, const HeadShape&, int, bool, cudaStream_t);

}  // namespace nanolith::cuda
