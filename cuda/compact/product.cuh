// A warp's product of one block of compact weights (layout.h), 16 rows of 256 columns, with eight rows of activations.
// Codes alone are multiplied: each group's sum is scaled in float32, so that nothing but x was ever rounded.
#pragma once

#include "compact/scales.cuh"
#include "device/mma.cuh"

namespace nanolith::cuda {

// What is subtracted from a group (its minimum, and what 4-bit codes were multiplied with beside themselves) is
// multiplied with the mean of x over the group. That is two numbers of T: the mean, and what rounding took from it. Of a
// block: [2][groups] T.
template <typename Traits>
constexpr int kMeanBytes = 2 * Traits::kGroups * 2;

// Bytes from the means of one row of x to the next, for rows of so many blocks: lanes of eight rows that read 16 bytes
// each find different banks.
template <typename Traits>
__host__ __device__ constexpr int means_row_bytes(int blocks) {
    return Traits::kMeans ? (blocks * kMeanBytes<Traits> + 127) / 128 * 128 + 16 : 0;
}

// sums[i] += what the lane has of C (device/mma.cuh), whose rows are the tile's and whose columns are rows of x.
// `block` and `x`, the block's columns of row lane / 4 of x, are in shared memory; `means` that row's for the block.
// `lines`: of 64 columns.
template <typename T, typename Traits>
class BlockProduct {
  public:
    // `power` is kPower in a register, `zero` the form's.
    __device__ BlockProduct(const std::byte* block, int lines, uint32_t power, int zero)
        : block_(block), lines_(lines), power_(power), zero_(zero), g_(lane() / 4), c_(lane() % 4) {}

    __device__ void add(const std::byte* x, const std::byte* means, float (&sums)[4]) const {
        float scaled[4] = {};
        if (lines_ == kLines) {
            add_lines<true>(x, scaled);
        } else {
            add_lines<false>(x, scaled);
        }
        const auto* const of_rows = reinterpret_cast<const float*>(block_);
        const float scale[2] = {of_rows[g_] * kCodeFactor<T, Traits::kCodes>,
                                of_rows[g_ + 8] * kCodeFactor<T, Traits::kCodes>};
        if constexpr (Traits::kMeans) subtract_means(means, scale, sums);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i] = fmaf(scale[i / 2], scaled[i], sums[i]);
    }

  private:
    static constexpr int kLines = kCompactColumns / kCompactUnit;
    static constexpr bool kNarrow = Traits::kGroup == 16;

    __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

    // The codes of two steps as operands A, and x as their operands B.
    struct Steps {
        uint32_t a[2][4];
        uint32_t b[2][2];
    };
    __device__ void load(const std::byte* x, int line, int pair, Steps& steps) const {
        const std::byte* const codes = block_ + Traits::layout().code_offset() + line * Traits::layout().line_bytes();
        if constexpr (Traits::kCodes == CodeKind::bits4) {
            const uint2 words = *reinterpret_cast<const uint2*>(codes + lane() * 16 + pair * 8);
            codes_of_step<T, CodeKind::bits4>(words.x, 0, power_, steps.a[0]);
            codes_of_step<T, CodeKind::bits4>(words.y, 0, power_, steps.a[1]);
        } else {
            const uint4 words = *reinterpret_cast<const uint4*>(codes + pair * 512 + lane() * 16);
            codes_of_step<T, Traits::kCodes>(words.x, words.y, power_, steps.a[0]);
            codes_of_step<T, Traits::kCodes>(words.z, words.w, power_, steps.a[1]);
        }
        const std::byte* const columns = x + (line * kCompactUnit + 32 * pair) * 2;
        if constexpr (kNarrow) {
#pragma unroll
            for (int step = 0; step < 2; ++step) {
                const uint2 four = *reinterpret_cast<const uint2*>(columns + 32 * step + 8 * c_);
                steps.b[step][0] = four.x;
                steps.b[step][1] = four.y;
            }
        } else {
            const uint4 eight = *reinterpret_cast<const uint4*>(columns + 16 * c_);
            steps.b[0][0] = eight.x;
            steps.b[0][1] = eight.y;
            steps.b[1][0] = eight.z;
            steps.b[1][1] = eight.w;
        }
    }

    // kAll: all lines of a whole block.
    template <bool kAll>
    __device__ void add_lines(const std::byte* x, float (&sums)[4]) const {
        if constexpr (Traits::kScales == ScaleKind::none) {
            add_unscaled<kAll>(x, sums);
        } else {
            add_scaled<kAll>(x, sums);
        }
    }

    template <bool kAll>
    __device__ void add_unscaled(const std::byte* x, float (&sums)[4]) const {
        float odd[4] = {};
#pragma unroll
        for (int line = 0; line < kLines; ++line) {
            if (!kAll && line >= lines_) break;
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                Steps steps;
                load(x, line, pair, steps);
                multiply_add(sums, steps.a[0], steps.b[0][0], steps.b[0][1], T());
                multiply_add(odd, steps.a[1], steps.b[1][0], steps.b[1][1], T());
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i] += odd[i];
    }

    template <bool kAll>
    __device__ void add_scaled(const std::byte* x, float (&sums)[4]) const {
        const GroupScales<Traits> scales(block_, g_);
        const auto add_group = [&](const float(&products)[4], int group) {
            const float scale[2] = {scales.of(0, group), scales.of(1, group)};
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[i] = fmaf(scale[i / 2], products[i], sums[i]);
        };
#pragma unroll
        for (int line = 0; line < kLines; ++line) {
            if (!kAll && line >= lines_) break;
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                Steps steps;
                load(x, line, pair, steps);
                float products[4];
                multiply(products, steps.a[0], steps.b[0][0], steps.b[0][1], T());
                if constexpr (kNarrow) {
                    add_group(products, 4 * line + 2 * pair);
                    multiply(products, steps.a[1], steps.b[1][0], steps.b[1][1], T());
                    add_group(products, 4 * line + 2 * pair + 1);
                } else {
                    multiply_add(products, steps.a[1], steps.b[1][0], steps.b[1][1], T());
                    add_group(products, 2 * line + pair);
                }
            }
        }
    }

    __device__ void subtract_means(const std::byte* from, const float (&row_scale)[2], float (&sums)[4]) const {
        using Pairs = GroupPairs<T, Traits>;
        uint32_t means[2][Pairs::kPairs];
#pragma unroll
        for (int part = 0; part < 2; ++part) {
#pragma unroll
            for (int i = 0; i < Pairs::kPairs; ++i) {
                means[part][i] =
                    *reinterpret_cast<const uint32_t*>(from + 2 * (part * Traits::kGroups + 8 * i + 2 * c_));
            }
        }
        const auto subtract = [&](const Pairs& pairs, float low, float high) {
            float products[4];
            pairs.multiply_means(means, products);
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[i] = fmaf(-(i < 2 ? low : high), products[i], sums[i]);
        };
        if constexpr (Traits::kCodes == CodeKind::bits4) {
            const auto zero = static_cast<float>(Traits::kGroup * (kBits4Zero<T> + zero_));
            const Pairs scales(block_ + Traits::layout().group_scales(), true, g_, c_);
            subtract(scales, zero * row_scale[0], zero * row_scale[1]);
        }
        if constexpr (Traits::kMins) {
            // Of factors the minimums' own scale; of float16 the row's.
            const auto* const of_rows = reinterpret_cast<const float*>(
                block_ + (Traits::kScales == ScaleKind::two ? Traits::layout().row_mins() : 0));
            const Pairs mins(block_ + Traits::layout().group_mins(), false, g_, c_);
            subtract(mins, Traits::kGroup * of_rows[g_], Traits::kGroup * of_rows[g_ + 8]);
        }
    }

    const std::byte* block_;
    const int lines_;
    const uint32_t power_;
    const int zero_;
    const int g_;
    const int c_;
};

// Writes the mean of a group of x, `group` columns in shared memory, and what rounding takes from it, to `means` and
// `distance` elements further.
template <typename T>
__device__ void write_mean(const std::byte* x, int group, T* means, int distance) {
    float sum = 0;
    for (int i = 0; i < group; i += 8) {
        float eight[8];
        load_pack(reinterpret_cast<const T*>(x) + i, eight);
#pragma unroll
        for (int j = 0; j < 8; ++j) sum += eight[j];
    }
    const float mean = sum / static_cast<float>(group);
    const T rounded = from_float<T>(mean);
    means[0] = rounded;
    means[distance] = from_float<T>(mean - to_float(rounded));
}

}  // namespace nanolith::cuda
