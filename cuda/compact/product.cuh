// A warp's product of one block of compact weights (layout.h), 16 rows of 256 columns, with rows of activations.
// Codes alone are multiplied: each group's sum is scaled in float32, so that nothing but x was ever rounded.
#pragma once

#include "compact/scales.cuh"
#include "device/mma.cuh"

namespace nanolith::cuda {

// What is subtracted from a group (its minimum, and what 4-bit codes were multiplied with beside themselves) is
// multiplied with the mean of x over the group. That is two numbers of T: the mean, and what rounding took from it. Of
// a block: [2][groups] T.
template <typename Traits>
constexpr int kMeanBytes = 2 * Traits::kGroups * 2;

// Bytes from the means of one row of x to the next, for rows of so many blocks: lanes of eight rows that read 16 bytes
// each find different banks.
template <typename Traits>
__host__ __device__ constexpr int means_row_bytes(int blocks) {
    return Traits::kMeans ? (blocks * kMeanBytes<Traits> + 127) / 128 * 128 + 16 : 0;
}

// The columns of x of two steps as operands B of mma. `x`: the first of 32 columns in shared memory; kNarrow: groups
// have 16 (layout.h).
template <bool kNarrow>
__device__ void load_steps(const std::byte* x, int c, uint32_t (&b)[2][2]) {
    if constexpr (kNarrow) {
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            const uint2 four = *reinterpret_cast<const uint2*>(x + 32 * step + 8 * c);
            b[step][0] = four.x;
            b[step][1] = four.y;
        }
    } else {
        const uint4 eight = *reinterpret_cast<const uint4*>(x + 16 * c);
        b[0][0] = eight.x;
        b[0][1] = eight.y;
        b[1][0] = eight.z;
        b[1][1] = eight.w;
    }
}

// Rows of activations in shared memory: row lane / 4 of eight, the next eight of each further ones behind them.
struct XRows {
    const std::byte* x;      // the block's first column
    int row_bytes;           // from one row to the next
    const std::byte* means;  // of the block
    int means_bytes;         // from one row to the next
};

// sums[n][i] += what the lane has of C (device/mma.cuh), whose rows are the tile's and whose columns are rows 8 n to
// 8 n + 7 of x. `block` is in shared memory and has `lines` times 64 columns.
template <typename T, typename Traits, int kNTiles>
class BlockProduct {
  public:
    // `power` is kPower in a register, `zero` the form's.
    __device__ BlockProduct(const std::byte* block, int lines, uint32_t power, int zero)
        : block_(block), lines_(lines), power_(power), zero_(zero), g_(lane() / 4), c_(lane() % 4) {}

    __device__ void add(const XRows& x, float (&sums)[kNTiles][4]) const {
        float scaled[kNTiles][4] = {};
        // With few rows whole blocks get code of their own, without branches; with many the loop hides what it costs.
        if (kNTiles == 1 && lines_ == kLines) {
#pragma unroll
            for (int line = 0; line < kLines; ++line) add_line(x, line, scaled);
        } else {
#pragma unroll 1
            for (int line = 0; line < lines_; ++line) add_line(x, line, scaled);
        }
        const auto* const of_rows = reinterpret_cast<const float*>(block_);
        const float scale[2] = {of_rows[g_] * kCodeFactor<T, Traits::kCodes>,
                                of_rows[g_ + 8] * kCodeFactor<T, Traits::kCodes>};
        if constexpr (Traits::kMeans) subtract_means(x, scale, sums);
#pragma unroll
        for (int n = 0; n < kNTiles; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[n][i] = fmaf(scale[i / 2], scaled[n][i], sums[n][i]);
        }
    }

  private:
    static constexpr int kLines = kCompactColumns / kCompactUnit;
    static constexpr bool kNarrow = Traits::kGroup == 16;

    __device__ static int lane() {
        return static_cast<int>(threadIdx.x) % 32;
    }

    // The codes of two steps, the first of which is number `pair` * 2 of the line, as operands A.
    __device__ void load_codes(int line, int pair, uint32_t (&a)[2][4]) const {
        const std::byte* const codes = block_ + Traits::layout().code_offset() + line * Traits::layout().line_bytes();
        if constexpr (Traits::kCodes == CodeKind::bits4) {
            const uint2 words = *reinterpret_cast<const uint2*>(codes + lane() * 16 + pair * 8);
            codes_of_step<T, CodeKind::bits4>(words.x, 0, power_, a[0]);
            codes_of_step<T, CodeKind::bits4>(words.y, 0, power_, a[1]);
        } else {
            const uint4 words = *reinterpret_cast<const uint4*>(codes + pair * 512 + lane() * 16);
            codes_of_step<T, Traits::kCodes>(words.x, words.y, power_, a[0]);
            codes_of_step<T, Traits::kCodes>(words.z, words.w, power_, a[1]);
        }
    }
    // The same steps' columns of x as operands B. `x`: the row's first column of the block.
    __device__ void load_x(const std::byte* x, int line, int pair, uint32_t (&b)[2][2]) const {
        load_steps<kNarrow>(x + (line * kCompactUnit + 32 * pair) * 2, c_, b);
    }

    // 64 columns.
    __device__ void add_line(const XRows& x, int line, float (&sums)[kNTiles][4]) const {
        if constexpr (Traits::kScales == ScaleKind::none) {
            add_unscaled(x, line, sums);
        } else {
            add_scaled(x, line, sums);
        }
    }

    __device__ void add_unscaled(const XRows& x, int line, float (&sums)[kNTiles][4]) const {
        float odd[4] = {};  // of the first rows: two sums, so that fewer products wait for one another
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
            uint32_t a[2][4];
            load_codes(line, pair, a);
#pragma unroll
            for (int n = 0; n < kNTiles; ++n) {
                uint32_t b[2][2];
                load_x(x.x + 8 * n * x.row_bytes, line, pair, b);
                multiply_add(sums[n], a[0], b[0][0], b[0][1], T());
                multiply_add(n == 0 ? odd : sums[n], a[1], b[1][0], b[1][1], T());
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[0][i] += odd[i];
    }

    __device__ void add_scaled(const XRows& x, int line, float (&sums)[kNTiles][4]) const {
        const GroupScales<Traits> scales(block_, line, g_);
        const auto add_group = [](const float(&products)[4], const float(&scale)[2], float(&to)[4]) {
#pragma unroll
            for (int i = 0; i < 4; ++i) to[i] = fmaf(scale[i / 2], products[i], to[i]);
        };
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
            uint32_t a[2][4];
            load_codes(line, pair, a);
            const int group = kNarrow ? 2 * pair : pair;
            const float scale[2] = {scales.of(0, group), scales.of(1, group)};
            const float second[2] = {scales.of(0, kNarrow ? group + 1 : 0), scales.of(1, kNarrow ? group + 1 : 0)};
#pragma unroll
            for (int n = 0; n < kNTiles; ++n) {
                uint32_t b[2][2];
                load_x(x.x + 8 * n * x.row_bytes, line, pair, b);
                float products[4];
                multiply(products, a[0], b[0][0], b[0][1], T());
                if constexpr (kNarrow) {
                    add_group(products, scale, sums[n]);
                    multiply(products, a[1], b[1][0], b[1][1], T());
                    add_group(products, second, sums[n]);
                } else {
                    multiply_add(products, a[1], b[1][0], b[1][1], T());
                    add_group(products, scale, sums[n]);
                }
            }
        }
    }

    __device__ void subtract_means(const XRows& x, const float (&row_scale)[2], float (&sums)[kNTiles][4]) const {
        const auto subtract = [&](const GroupPairs<T, Traits>& pairs, float low, float high) {
#pragma unroll
            for (int n = 0; n < kNTiles; ++n) {
                float products[4];
                multiply_means(pairs, x.means + 8 * n * x.means_bytes, products);
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[n][i] = fmaf(-(i < 2 ? low : high), products[i], sums[n][i]);
            }
        };
        if constexpr (Traits::kCodes == CodeKind::bits4) {
            const auto zero = static_cast<float>(Traits::kGroup * (kBits4Zero<T> + zero_));
            const GroupPairs<T, Traits> scales(block_ + Traits::layout().group_scales(), true, g_, c_);
            subtract(scales, zero * row_scale[0], zero * row_scale[1]);
        }
        if constexpr (Traits::kMins) {
            // Of factors the minimums' own scale; of float16 the row's.
            const auto* const of_rows = reinterpret_cast<const float*>(
                block_ + (Traits::kScales == ScaleKind::two ? Traits::layout().row_mins() : 0));
            const GroupPairs<T, Traits> mins(block_ + Traits::layout().group_mins(), false, g_, c_);
            subtract(mins, Traits::kGroup * of_rows[g_], Traits::kGroup * of_rows[g_ + 8]);
        }
    }
    __device__ void multiply_means(const GroupPairs<T, Traits>& pairs, const std::byte* from,
                                   float (&products)[4]) const {
        constexpr int kPairs = GroupPairs<T, Traits>::kPairs;
        uint32_t means[2][kPairs];
#pragma unroll
        for (int part = 0; part < 2; ++part) {
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                means[part][i] =
                    *reinterpret_cast<const uint32_t*>(from + 2 * (part * Traits::kGroups + 8 * i + 2 * c_));
            }
        }
        pairs.multiply_means(means, products);
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
