// Conversions between the storage types (float, __half, __nv_bfloat16) and the float32 in which everything is
// computed, one value at a time or 16 bytes at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

namespace nanolith::cuda {

// Values of T in 16 bytes, the widest access of one thread.
template <typename T>
constexpr int kPack = static_cast<int>(16 / sizeof(T));

__device__ inline float to_float(float value) {
    return value;
}
__device__ inline float to_float(__half value) {
    return __half2float(value);
}
__device__ inline float to_float(__nv_bfloat16 value) {
    return __bfloat162float(value);
}

template <typename T>
__device__ T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
    return value;
}
template <>
__device__ inline __half from_float<__half>(float value) {
    return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
    return __float2bfloat16_rn(value);
}

// The kPack<T> values in 16 bytes that were read as one uint4.
__device__ inline void unpack(uint4 raw, float (&values)[4], float) {
    values[0] = __uint_as_float(raw.x);
    values[1] = __uint_as_float(raw.y);
    values[2] = __uint_as_float(raw.z);
    values[3] = __uint_as_float(raw.w);
}
__device__ inline void unpack(uint4 raw, float (&values)[8], __half) {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        values[2 * i] = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] & 0xffffU)));
        values[2 * i + 1] = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] >> 16)));
    }
}
__device__ inline void unpack(uint4 raw, float (&values)[8], __nv_bfloat16) {
    // A bfloat16 is the upper half of a float32.
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        values[2 * i] = __uint_as_float(words[i] << 16);
        values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
    }
}

// Reads 16 bytes at a 16-byte aligned address.
template <typename T>
__device__ void load_pack(const T* from, float (&values)[kPack<T>]) {
    unpack(*reinterpret_cast<const uint4*>(from), values, T());
}

// Writes kPack<T> values to a 16-byte aligned address.
template <typename T>
__device__ void store_pack(T* to, const float (&values)[kPack<T>]) {
    alignas(16) T rounded[kPack<T>];
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) rounded[i] = from_float<T>(values[i]);
    uint4 raw;
    memcpy(&raw, rounded, sizeof raw);
    *reinterpret_cast<uint4*>(to) = raw;
}

// Reads N values, with one access where they are 16 bytes (at a 16-byte aligned address), else one by one.
template <typename T, int N>
__device__ void load_values(const T* from, float (&values)[N]) {
    if constexpr (N == kPack<T>) {
        load_pack(from, values);
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) values[i] = to_float(from[i]);
    }
}

// Writes N values, with one access where they are 8 or 16 bytes (at an address aligned so), else one by one.
template <typename T, int N>
__device__ void store_values(T* to, const float (&values)[N]) {
    if constexpr (N == kPack<T>) {
        store_pack(to, values);
    } else if constexpr (N * sizeof(T) == sizeof(uint2)) {
        alignas(8) T rounded[N];
#pragma unroll
        for (int i = 0; i < N; ++i) rounded[i] = from_float<T>(values[i]);
        uint2 raw;
        memcpy(&raw, rounded, sizeof raw);
        *reinterpret_cast<uint2*>(to) = raw;
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) to[i] = from_float<T>(values[i]);
    }
}

}  // namespace nanolith::cuda
