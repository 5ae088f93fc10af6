// CUDA C++ for a C++ compiler: included before every .cu file. Only what the kernels here use.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "block.h"

#undef __shared__
#define __shared__ static  // blocks run one after the other
#undef __grid_constant__
#define __grid_constant__
#undef __launch_bounds__
#define __launch_bounds__(...)

using std::isnan;
using std::max;
using std::min;

inline long long clock64() {
    return std::chrono::steady_clock::now().time_since_epoch().count();
}
inline void __syncthreads() {
    cuda_host::synchronise_block();
}
inline void __syncwarp() {
    cuda_host::exchange(0, "syncwarp");
}

namespace cuda_host {

inline int lane() {
    return static_cast<int>(threadIdx.x % 32);
}

template <typename T>
T exchange_value(T value, int source, const char* kind) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = exchange(bits, kind)[static_cast<unsigned>(source) % 32];
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace cuda_host

template <typename T>
T __shfl_sync(unsigned, T value, int source) {
    return cuda_host::exchange_value(value, source, "shfl");
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
    return cuda_host::exchange_value(value, cuda_host::lane() ^ mask, "shfl_xor");
}
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned step) {
    const int source = cuda_host::lane() - static_cast<int>(step);
    return cuda_host::exchange_value(value, source < 0 ? cuda_host::lane() : source, "shfl_up");
}
template <typename T>
T __reduce_max_sync(unsigned mask, T value) {
    for (int step = 16; step > 0; step /= 2) value = std::max(value, __shfl_xor_sync(mask, value, step));
    return value;
}
template <typename T>
T __reduce_min_sync(unsigned mask, T value) {
    for (int step = 16; step > 0; step /= 2) value = std::min(value, __shfl_xor_sync(mask, value, step));
    return value;
}
// Byte i of the result is the one that bits 4 i to 4 i + 2 of the selector name: 0 to 3 of a, 4 to 7 of b.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t both = a | static_cast<uint64_t>(b) << 32;
    unsigned result = 0;
    for (unsigned i = 0; i < 4; ++i)
        result |= static_cast<unsigned>(both >> (8 * (selector >> (4 * i) & 7U)) & 0xFFU) << (8 * i);
    return result;
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fsub_rn(float a, float b) {
    return a - b;
}
inline int __popc(unsigned bits) {
    return __builtin_popcount(bits);
}
inline unsigned __ballot_sync(unsigned, bool bit) {
    return cuda_host::ballot(bit);
}
inline int __ffs(int bits) {
    return __builtin_ffs(bits);
}

template <typename T>
T atomicAdd(T* to, T value) {
    const T before = *to;
    *to += value;
    return before;
}

template <typename T>
T atomicMax(T* to, T value) {
    const T before = *to;
    *to = std::max(*to, value);
    return before;
}
template <typename T>
T atomicMin(T* to, T value) {
    const T before = *to;
    *to = std::min(*to, value);
    return before;
}

inline uint4 __ldcs(const uint4* from) {
    return *from;
}
template <typename T>
T __ldg(const T* from) {
    return *from;
}
template <typename T>
T __ldcg(const T* from) {
    return *from;
}
inline void __threadfence() {}
inline unsigned __float_as_uint(float value) {
    unsigned bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline float __uint_as_float(unsigned bits) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline float rsqrtf(float value) {
    return 1.0F / std::sqrt(value);
}
inline void sincospif(float half_turns, float* sine, float* cosine) {
    constexpr double kPi = 3.14159265358979323846;
    *sine = static_cast<float>(std::sin(kPi * static_cast<double>(half_turns)));
    *cosine = static_cast<float>(std::cos(kPi * static_cast<double>(half_turns)));
}
