// A warp's product of one block of compact weights (layout.h), 16 rows of 256 columns, with up to eight rows of
// activations. The tensor cores multiply codes, which 16-bit floats hold exactly, and each group's sum is multiplied by
// the group's scale in float32: weights are never rounded to 16 bits.
#pragma once

#include "compact/means.cuh"
#include "device/mma.cuh"

namespace nanolith::cuda {

// The result is [16 weight rows, 8 rows of x]; each lane has four numbers of it, those of C in device/mma.cuh.
template <typename T, typename Traits>
class BlockProduct {
  public:
    // block.power must have been set after x was complete in shared memory: load_matrices_after() relies on it.
    __device__ explicit BlockProduct(const SharedBlock& block)
        : block_(block), g_(static_cast<int>(threadIdx.x) % 32 / 4) {}

    // Adds the lane's part of the product to `sums`. Both pointers are into shared memory and differ from lane to lane.
    // `x`: row lane % 8 at the block's column 8 (lane / 8), the address that ldmatrix wants from this lane. `means`:
    // the means (means.cuh) of row lane / 4 for this block.
    __device__ void add(const std::byte* x, const std::byte* means, float (&sums)[1][4]) const {
        float scaled[4] = {};
        // A whole block, as most are, gets unrolled code without branches.
        if (block_.lines == kLines) {
#pragma unroll
            for (int line = 0; line < kLines; ++line) add_line(x, line, scaled);
        } else {
#pragma unroll 1
            for (int line = 0; line < block_.lines; ++line) add_line(x, line, scaled);
        }
        const RowFactors<T, Traits> factors(block_.bytes, g_);
        if constexpr (Traits::kMeans) subtract_means<T, Traits, 1>(block_.bytes, block_.zero, factors, means, 0, sums);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[0][i] = fmaf(factors.of[i / 2], scaled[i], sums[0][i]);
    }

  private:
    static constexpr int kLines = kCompactColumns / kCompactUnit;
    static constexpr bool kNarrow = Traits::kGroup == 16;

    // 64 columns.
    __device__ void add_line(const std::byte* x, int line, float (&sums)[4]) const {
        if constexpr (Traits::kScales == ScaleKind::none) {
            add_unscaled(x, line, sums);
        } else {
            add_scaled(x, line, sums);
        }
    }
    __device__ void load_codes(int line, int pair, uint32_t (&a)[2][4]) const {
        CodesOfPair<Traits::kCodes> codes;
        codes.load(block_.bytes + Traits::layout().code_offset(), 2 * line + pair);
        codes.template widen<T>(block_.power, a);
    }
    // Loads the 32 columns of x of a pair of steps as operands B: b[0] and b[1] of the first step, b[2] and b[3] of the
    // second.
    __device__ void load_x(const std::byte* x, int line, int pair, uint32_t (&b)[4]) const {
        load_matrices_after(block_.power, b, x + (line * kCompactUnit + 32 * pair) * 2);
    }

    __device__ void add_unscaled(const std::byte* x, int line, float (&sums)[4]) const {
        float odd[4] = {};  // every second step's sums: two chains of products run side by side
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
            uint32_t a[2][4];
            uint32_t b[4];
            load_codes(line, pair, a);
            load_x(x, line, pair, b);
            multiply_add(sums, a[0], b[0], b[1], T());
            multiply_add(odd, a[1], b[2], b[3], T());
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i] += odd[i];
    }

    __device__ void add_scaled(const std::byte* x, int line, float (&sums)[4]) const {
        const GroupScales<Traits> scales(block_.bytes, line, g_);
        const auto add_group = [&](const float(&products)[4], int group) {
            const float scale[2] = {scales.of(0, group), scales.of(1, group)};
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[i] = fmaf(scale[i / 2], products[i], sums[i]);
        };
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
            uint32_t a[2][4];
            uint32_t b[4];
            load_codes(line, pair, a);
            load_x(x, line, pair, b);
            float products[4];
            multiply(products, a[0], b[0], b[1], T());
            if constexpr (kNarrow) {
                add_group(products, 2 * pair);
                multiply(products, a[1], b[2], b[3], T());
                add_group(products, 2 * pair + 1);
            } else {
                multiply_add(products, a[1], b[2], b[3], T());
                add_group(products, pair);
            }
        }
    }

    const SharedBlock block_;
    const int g_;
};

}  // namespace nanolith::cuda
