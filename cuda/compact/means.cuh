// Corrections of a product that depend on a group's columns of x through their sum alone.
//
// A weight is scale * (code - zero) - minimum, but the tensor cores multiply x with the widened codes alone, and
// widening leaves a constant added to each 4-bit code (kBits4Zero in codes.cuh). So two terms are subtracted from each
// group's sum afterwards: minimum * sum(x), and for 4-bit codes scale * (constant + zero) * sum(x), where sum(x) is
// over the group's columns. The tensor cores compute each term for all groups of a block at once, as a product of the
// minimums or the scales with the means of x.
//
// To keep float32's accuracy a mean is stored as two numbers of T: the mean rounded to T, and the rest that rounding
// left, also rounded to T. For one row of x and one block of weights (layout.h) they are an array [2][groups] of T.
#pragma once

#include "compact/block.cuh"
#include "compact/scales.cuh"
#include "device/mma.cuh"

namespace nanolith::cuda {

template <typename Traits>
constexpr int kMeanBytes = 2 * Traits::kGroups * 2;

// Bytes from the means of one row of x to the next, where a row has `blocks` blocks. Not a multiple of 128, so that
// lanes which read the same 16 bytes of eight rows use different banks of shared memory.
template <typename Traits>
__host__ __device__ constexpr int means_row_bytes(int blocks) {
    return Traits::kMeans ? (blocks * kMeanBytes<Traits> + 127) / 128 * 128 + 16 : 0;
}

// Writes `mean`, rounded, to means[0] and the rest that rounding left to means[distance].
template <typename T>
__device__ void put_mean(float mean, T* means, int distance) {
    const T rounded = from_float<T>(mean);
    means[0] = rounded;
    means[distance] = from_float<T>(mean - to_float(rounded));
}

// Computes the mean of `group` adjacent columns of x in shared memory and writes it as put_mean() does.
template <typename T>
__device__ void write_mean(const std::byte* x, int group, T* means, int distance) {
    float sum = 0;
    for (int i = 0; i < group; i += 8) {
        float eight[8];
        load_pack(reinterpret_cast<const T*>(x) + i, eight);
#pragma unroll
        for (int j = 0; j < 8; ++j) sum += eight[j];
    }
    put_mean(sum / static_cast<float>(group), means, distance);
}

// Multiplies the scales or minimums of a tile's rows, [16, groups], with the means of eight rows of x, [groups, 8]. The
// lane's four results are those of C in device/mma.cuh. `means`: those of row lane / 4 of the eight.
template <typename T, typename Traits>
__device__ void multiply_means(const GroupPairs<T, Traits>& pairs, const std::byte* means, float (&products)[4]) {
    constexpr int kPairs = GroupPairs<T, Traits>::kPairs;
    const int c = static_cast<int>(threadIdx.x) % 4;
    uint32_t operands[2][kPairs];
#pragma unroll
    for (int part = 0; part < 2; ++part) {
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
            operands[part][i] =
                *reinterpret_cast<const uint32_t*>(means + 2 * (part * Traits::kGroups + 8 * i + 2 * c));
        }
    }
    pairs.multiply_means(operands, products);
}

// Subtracts both terms from a warp's sums of a block with 8 kOctets rows of x. `means`: those of row lane / 4; those of
// each further row are `row_bytes` behind. `zero`: CompactLayout::zero.
template <typename T, typename Traits, int kOctets>
__device__ void subtract_means(const std::byte* block, int zero, const RowFactors<T, Traits>& factors,
                               const std::byte* means, int row_bytes, float (&sums)[kOctets][4]) {
    constexpr CompactLayout kLayout = Traits::layout();
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane / 4;
    const int c = lane % 4;
    const auto subtract = [&](const GroupPairs<T, Traits>& pairs, float low, float high) {
#pragma unroll
        for (int octet = 0; octet < kOctets; ++octet) {
            float products[4];
            multiply_means(pairs, means + 8 * octet * row_bytes, products);
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[octet][i] = fmaf(-(i < 2 ? low : high), products[i], sums[octet][i]);
        }
    };
    if constexpr (Traits::kCodes == CodeKind::bits4) {
        const auto added = static_cast<float>(Traits::kGroup * (kBits4Zero<T> + zero));
        const auto scales = GroupPairs<T, Traits>::of_scales(block, g, c);
        subtract(scales, added * factors.of[0], added * factors.of[1]);
    }
    if constexpr (Traits::kMins) {
        // Minimums that are factors have a scale of their own for each row; others share the row's scale.
        const auto* const of_rows =
            reinterpret_cast<const float*>(block + (Traits::kScales == ScaleKind::two ? kLayout.row_mins() : 0));
        const auto mins = GroupPairs<T, Traits>::of_mins(block, g, c);
        subtract(mins, Traits::kGroup * of_rows[g], Traits::kGroup * of_rows[g + 8]);
    }
}

}  // namespace nanolith::cuda
