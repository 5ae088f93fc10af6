// The scales of a block of compact weights (layout.h), as a lane of a product needs them: those of its rows g and g + 8
// of the tile, g being lane / 4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compact/codes.cuh"
#include "compact/layout.h"
#include "device/mma.cuh"
#include "device/number.cuh"
#include "device/pair.cuh"

namespace nanolith::cuda {

// A form that kernels are compiled for; `zero` alone is no part of it.
template <CodeKind kCodeKind, ScaleKind kScaleKind, int kGroupSize, bool kHasMins>
struct CompactTraits {
    static constexpr CodeKind kCodes = kCodeKind;
    static constexpr ScaleKind kScales = kScaleKind;
    static constexpr int kGroup = kGroupSize;
    static constexpr bool kMins = kHasMins;
    static constexpr int kGroups = kCompactColumns / kGroupSize;
    // Whether something is subtracted from a group's sum that the mean of its x is multiplied with.
    static constexpr bool kMeans = kHasMins || kCodeKind == CodeKind::bits4;
    __host__ __device__ static constexpr CompactLayout layout() {
        CompactLayout layout;
        layout.codes = kCodes;
        layout.scales = kScales;
        layout.group = kGroup;
        layout.mins = kMins;
        return layout;
    }
};

// What a factor is as it is stored: byte `i` of the word.
__device__ inline float factor_of_byte(uint32_t word, int i) {
    constexpr float k2To23 = 8388608;
    return __uint_as_float(__byte_perm(word, __float_as_uint(k2To23), 0x7440U | static_cast<unsigned>(i))) -
           (k2To23 + static_cast<float>(kFactorZero));
}

// What an array [16][groups of a block] of a block in shared memory, kBytes a number, has for the groups of one line
// (64 columns) of a row: two or four bytes, from the lowest on.
template <typename Traits, int kBytes>
__device__ uint32_t word_of_line(const std::byte* array, int row, int line) {
    constexpr int kGroups = kCompactUnit / Traits::kGroup;
    static_assert(kGroups * kBytes == 2 || kGroups * kBytes == 4);
    const std::byte* const from = array + (row * Traits::kGroups + line * kGroups) * kBytes;
    if constexpr (kGroups * kBytes == 2) return *reinterpret_cast<const uint16_t*>(from);
    return *reinterpret_cast<const uint32_t*>(from);
}

// The scales that rows g and g + 8 have for the groups of 64 columns, but for what all groups of a row have in common.
template <typename Traits>
class GroupScales {
  public:
    // `block` in shared memory.
    __device__ GroupScales(const std::byte* block, int line, int g) {
        const std::byte* const scales = block + Traits::layout().group_scales();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            words_[half] = word_of_line<Traits, kBytes>(scales, g + 8 * half, line);
        }
    }

    // Of a group of row g (half 0) or g + 8 (half 1).
    [[nodiscard]] __device__ float of(int half, int group) const {
        if constexpr (Traits::kScales == ScaleKind::two) {
            return factor_of_byte(words_[half], group);
        } else {
            return __half2float(__ushort_as_half(static_cast<unsigned short>(words_[half] >> (16 * group))));
        }
    }

  private:
    static constexpr int kBytes = Traits::kScales == ScaleKind::two ? 1 : 2;
    uint32_t words_[2];
};

// What two rows have for each group, scales or minimums, as operands A of mma: pairs of groups 2 c and 2 c + 1, c being
// lane % 4 (and of 16 groups another one 8 further). They are exact: factors and, where T is float16, float16 scales
// are numbers of T, and the others are sums of two or three.
template <typename T, typename Traits>
class GroupPairs {
    // A number is stored as the sum of this many numbers of T, so that nothing is rounded: float16 has 11 significant
    // bits and bfloat16 8, where a scale has 11, and a scale times a zero point of 4 or 8 bits up to 19.
    static constexpr int parts() {
        if (Traits::kScales == ScaleKind::zeros) return Traits::kCodes == CodeKind::int8 && kIsBFloat16<T> ? 3 : 2;
        return Traits::kScales == ScaleKind::half && kIsBFloat16<T> ? 2 : 1;
    }

  public:
    static constexpr int kPairs = Traits::kGroups / 8;  // of a row
    static constexpr int kParts = parts();

    // The scales of rows g and g + 8 of a block in shared memory, without what all groups of a row have in common.
    __device__ static GroupPairs of_scales(const std::byte* block, int g, int c) {
        const std::byte* const from = block + Traits::layout().group_scales();
        GroupPairs pairs;
        for_pairs(g, c, [&](int first, int side, int i) {
            if constexpr (Traits::kScales == ScaleKind::two) {
                pairs.set_factors(bytes_at(from, first) ^ 0x8080U, side, i);
            } else {
                pairs.set_numbers(halves_at(from, first), side, i);
            }
        });
        return pairs;
    }
    // The same of minimums.
    __device__ static GroupPairs of_mins(const std::byte* block, int g, int c) {
        const std::byte* const from = block + Traits::layout().group_mins();
        GroupPairs pairs;
        for_pairs(g, c, [&](int first, int side, int i) {
            if constexpr (Traits::kScales == ScaleKind::two) {
                pairs.set_factors(bytes_at(from, first), side, i);
            } else if constexpr (Traits::kScales == ScaleKind::half) {
                pairs.set_numbers(halves_at(from, first), side, i);
            } else {
                const float2 scales = halves_at(block + Traits::layout().group_scales(), first);
                const uint32_t zeros = bytes_at(from, first);
                pairs.set_numbers(make_float2(scales.x * static_cast<float>(static_cast<int8_t>(zeros & 0xFFU)),
                                              scales.y * static_cast<float>(static_cast<int8_t>(zeros >> 8))),
                                  side, i);
            }
        });
        return pairs;
    }

    // The rows' products with the means of x over all groups: means[0] and what rounding took from them, as operands B.
    __device__ void multiply_means(const uint32_t (&means)[2][kPairs], float (&products)[4]) const {
#pragma unroll
        for (float& product : products) product = 0;
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            const auto& row = pairs_[part];
            if constexpr (kPairs == 1) {
                multiply_add(products, {row[0][0], row[1][0], row[0][0], row[1][0]}, means[0][0], means[1][0], T());
            } else {
                const uint32_t a[4] = {row[0][0], row[1][0], row[0][1], row[1][1]};
                multiply_add(products, a, means[0][0], means[0][1], T());
                multiply_add(products, a, means[1][0], means[1][1], T());
            }
        }
    }

  private:
    GroupPairs() = default;

    // Calls work(the place of the first number in an array [16][groups], row g or g + 8, pair) for all pairs.
    template <typename Work>
    __device__ static void for_pairs(int g, int c, const Work& work) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < kPairs; ++i) work((g + 8 * half) * Traits::kGroups + 8 * i + 2 * c, half, i);
        }
    }
    __device__ static uint32_t bytes_at(const std::byte* from, int first) {
        return *reinterpret_cast<const uint16_t*>(from + first);
    }
    __device__ static float2 halves_at(const std::byte* from, int first) {
        return __half22float2(as_pair<__half>(*reinterpret_cast<const uint32_t*>(from + 2 * first)));
    }

    // Two int8.
    __device__ void set_factors(uint32_t bytes, int half, int i) {
        pairs_[0][half][i] = pair_of_bytes<T>(__byte_perm(bytes, 0, 0x4140U), kPower<T, CodeKind::int8>);
    }
    __device__ void set_numbers(float2 exact, int half, int i) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            pairs_[part][half][i] = pack_pair(exact.x, exact.y, T());
            const float2 got = unpack_pair(pairs_[part][half][i], T());
            exact = make_float2(exact.x - got.x, exact.y - got.y);
        }
    }
    uint32_t pairs_[kParts][2][kPairs];
};

}  // namespace nanolith::cuda
