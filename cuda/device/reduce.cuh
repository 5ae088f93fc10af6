// Sums and maxima over the 32 lanes of a warp; every lane gets the result. All lanes must take part.
#pragma once

namespace nanolith::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffU;

__device__ inline float warp_sum(float value) {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
    return value;
}

__device__ inline float warp_max(float value) {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
    return value;
}

// The same over the four lanes 4 i to 4 i + 3, which have the same rows of a product (device/fragment.cuh).
__device__ inline float four_lanes_sum(float value) {
    value += __shfl_xor_sync(kAllLanes, value, 1);
    return value + __shfl_xor_sync(kAllLanes, value, 2);
}

__device__ inline float four_lanes_max(float value) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, 1));
    return fmaxf(value, __shfl_xor_sync(kAllLanes, value, 2));
}

// The sum over the eight lanes i, i + 4, ... i + 28, which have the same columns of a product.
__device__ inline float eight_lanes_sum(float value) {
#pragma unroll
    for (int step = 4; step < kWarp; step *= 2) value += __shfl_xor_sync(kAllLanes, value, step);
    return value;
}

// Over a block of at most 32 whole warps. The caller must not be in divergent code; may be called repeatedly.
__device__ inline float block_sum(float value) {
    __shared__ float sums[kWarp];
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    value = warp_sum(value);
    __syncthreads();
    if (lane == 0) sums[warp] = value;
    __syncthreads();
    return warp_sum(lane < static_cast<int>(blockDim.x) / kWarp ? sums[lane] : 0.0F);
}

}  // namespace nanolith::cuda
