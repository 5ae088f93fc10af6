// Codes of compact weights as pairs of 16-bit floats, by moving bits: an integer in the mantissa of a power of two, from
// which a subtraction takes the power away again. Exact.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#include "backend/compact_weight.h"

namespace nanolith::cuda {

// What a pair must be multiplied by besides its scale. Eight-bit floats become float16 with another exponent.
template <typename T, CodeKind kCodes>
constexpr float kCodeFactor = 1;
template <>
inline constexpr float kCodeFactor<__half, CodeKind::e4m3> = 256;

template <typename T>
constexpr bool kIsBFloat16 = false;
template <>
inline constexpr bool kIsBFloat16<__nv_bfloat16> = true;

template <typename T>
struct PairOf;
template <>
struct PairOf<__half> {
    using Type = __half2;
};
template <>
struct PairOf<__nv_bfloat16> {
    using Type = __nv_bfloat162;
};

template <typename T>
__device__ auto as_pair(uint32_t bits) {
    typename PairOf<T>::Type pair;
    memcpy(static_cast<void*>(&pair), &bits, sizeof pair);
    return pair;
}
template <typename Pair>
__device__ uint32_t bits_of_pair(Pair pair) {
    uint32_t bits = 0;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}
template <typename T>
__device__ uint32_t subtract_pairs(uint32_t a, uint32_t b) {
    return bits_of_pair(__hsub2(as_pair<T>(a), as_pair<T>(b)));
}

// Of T: the bits, in both halves, of a power of two whose mantissa's last bits count in ones.
template <typename T>
constexpr uint32_t kOnes = 0x64006400U;  // 1024
template <>
inline constexpr uint32_t kOnes<__nv_bfloat16> = 0x43004300U;  // 128

// The codes of 4 bits in bits 0 to 3 of both halves, without what `zeros` has in both halves: kOnes plus the zero.
template <typename T>
__device__ uint32_t pair_of_bits4(uint32_t word, uint32_t zeros) {
    return subtract_pairs<T>((word & 0x000F000FU) | kOnes<T>, zeros);
}
// kOnes plus a zero of 0 to 15, in both halves.
template <typename T>
__device__ uint32_t zeros_of(int zero) {
    return kOnes<T> + static_cast<uint32_t>(zero) * 0x00010001U;
}

// The signed bytes in bits 0 to 7 of both halves.
template <typename T>
__device__ uint32_t pair_of_bytes(uint32_t word);
template <>
__device__ inline uint32_t pair_of_bytes<__half>(uint32_t word) {
    constexpr uint32_t k1152 = 0x64806480U;  // and a byte that is 128 more than it was
    return subtract_pairs<__half>((word & 0x00FF00FFU) ^ k1152, k1152);
}
// A mantissa has room for seven bits: 128 + those, without 128 or, of a negative one, 256.
template <>
__device__ inline uint32_t pair_of_bytes<__nv_bfloat16>(uint32_t word) {
    constexpr uint32_t k128 = 0x43004300U;
    return subtract_pairs<__nv_bfloat16>((word & 0x007F007FU) | k128, (word & 0x00800080U) | k128);
}

// The e4m3 in bits 8 to 15 of both halves, divided by kCodeFactor.
template <typename T>
__device__ uint32_t pair_of_e4m3(uint32_t word);
template <>
__device__ inline uint32_t pair_of_e4m3<__half>(uint32_t word) {
    return (word & 0x80008000U) | ((word >> 1) & 0x3F803F80U);
}
// With its exponent in the place of bfloat16's it is too small by 2^120. (As float32, such numbers could be too small
// to be multiplied.)
template <>
__device__ inline uint32_t pair_of_e4m3<__nv_bfloat16>(uint32_t word) {
    constexpr uint32_t kPower = 0x7B807B80U;  // 2^120
    const uint32_t small = (word & 0x80008000U) | ((word >> 4) & 0x07F007F0U);
    return bits_of_pair(__hmul2(as_pair<__nv_bfloat16>(small), as_pair<__nv_bfloat16>(kPower)));
}

// The operand A of an mma: a step's codes, of which the lane has `first` (and of 8 bits `second`) as layout.h says.
template <typename T, CodeKind kCodes>
__device__ void codes_of_step(uint32_t first, uint32_t second, uint32_t zeros, uint32_t (&a)[4]) {
    if constexpr (kCodes == CodeKind::bits4) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = pair_of_bits4<T>(first >> (4 * i), zeros);
    } else if constexpr (kCodes == CodeKind::int8) {
        a[0] = pair_of_bytes<T>(first);
        a[1] = pair_of_bytes<T>(second);
        a[2] = pair_of_bytes<T>(first >> 8);
        a[3] = pair_of_bytes<T>(second >> 8);
    } else {
        a[0] = pair_of_e4m3<T>(first << 8);
        a[1] = pair_of_e4m3<T>(second << 8);
        a[2] = pair_of_e4m3<T>(first);
        a[3] = pair_of_e4m3<T>(second);
    }
}

}  // namespace nanolith::cuda
