// Codes of compact weights as pairs of 16-bit floats, by moving bits: integers become a part of a power of two's
// mantissa, and the power is taken away again. Exact.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#include "backend/compact_weight.h"
#include "device/bits.cuh"

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

// Codes of 4 bits are multiplied with this added to them, which is taken away from the sum (product.cuh): 2^4 or 2^7,
// whose mantissa's bits 3 to 6 count in ones.
template <typename T>
constexpr int kBits4Zero = 128;
template <>
inline constexpr int kBits4Zero<__nv_bfloat16> = 16;

// In both halves the power of two that codes are put into.
template <typename T, CodeKind kCodes>
constexpr uint32_t kPower = kCodes == CodeKind::bits4 ? 0x58005800U : 0x64806480U;  // 128, 1024 + 128
template <CodeKind kCodes>
inline constexpr uint32_t kPower<__nv_bfloat16, kCodes> = kCodes == CodeKind::bits4 ? 0x41804180U : 0x43004300U;

// The signed bytes in bits 0 to 7 of both halves. `power` is kPower of int8, in a register.
template <typename T>
__device__ uint32_t pair_of_bytes(uint32_t word, uint32_t power);
// 1024 and a byte that is 128 more than it was, without 1152.
template <>
__device__ inline uint32_t pair_of_bytes<__half>(uint32_t word, uint32_t power) {
    return subtract_pairs<__half>(masked_xor<0x00FF00FFU>(word, power), power);
}
// A mantissa has room for seven bits: 128 + those, without 128 or, of a negative one, 256.
template <>
__device__ inline uint32_t pair_of_bytes<__nv_bfloat16>(uint32_t word, uint32_t power) {
    return subtract_pairs<__nv_bfloat16>(masked_or<0x007F007FU>(word, power), masked_or<0x00800080U>(word, power));
}

// Converts two e4m3 numbers to a pair of T, divided by kCodeFactor. They are in bits 0 to 7 of the word's two halves,
// or in bits 8 to 15 where kHigh is true. A shift to the left is preferred to one to the right: it can be compiled to a
// multiplication, which runs on the multiply-add units while the logic units are busy with the masks.
template <typename T, bool kHigh>
__device__ uint32_t pair_of_e4m3(uint32_t word) {
    constexpr uint32_t kSigns = 0x80008000U;
    const uint32_t signs = kHigh ? word : word << 8;
    if constexpr (kIsBFloat16<T>) {
        // The exponent's bias is 7 in e4m3 and 127 in bfloat16, so that with its bits moved to their places the number
        // is too small by 2^120. It is multiplied here and not through the row's scale, because sums of products that
        // small would leave float32's range.
        constexpr uint32_t k2To120 = 0x7B807B80U;
        const uint32_t rest = kHigh ? word >> 4 : word << 4;
        const uint32_t small = (signs & kSigns) | (rest & 0x07F007F0U);
        return bits_of_pair(__hmul2(as_pair<T>(small), as_pair<T>(k2To120)));
    } else {
        const uint32_t rest = kHigh ? word >> 1 : word << 7;
        return (signs & kSigns) | (rest & 0x3F803F80U);
    }
}

// The word turned right by that many bits.
__device__ inline uint32_t turned(uint32_t word, int bits) {
    return word >> bits | word << (32 - bits);
}

// The operand A of an mma: a step's codes, of which the lane has `first` (and of 8 bits `second`) as layout.h says.
// `power` is kPower, in a register.
template <typename T, CodeKind kCodes>
__device__ void codes_of_step(uint32_t first, uint32_t second, uint32_t power, uint32_t (&a)[4]) {
    if constexpr (kCodes == CodeKind::bits4) {
        constexpr uint32_t kPlace = 0x00780078U;
        a[0] = masked_or<kPlace>(first, power);
        a[1] = masked_or<kPlace>(first >> 4, power);
        a[2] = masked_or<kPlace>(first >> 8, power);
        a[3] = masked_or<kPlace>(turned(first, 12), power);
    } else if constexpr (kCodes == CodeKind::int8) {
        a[0] = pair_of_bytes<T>(first, power);
        a[1] = pair_of_bytes<T>(second, power);
        a[2] = pair_of_bytes<T>(first >> 8, power);
        a[3] = pair_of_bytes<T>(second >> 8, power);
    } else {
        a[0] = pair_of_e4m3<T, false>(first);
        a[1] = pair_of_e4m3<T, false>(second);
        a[2] = pair_of_e4m3<T, true>(first);
        a[3] = pair_of_e4m3<T, true>(second);
    }
}

}  // namespace nanolith::cuda
