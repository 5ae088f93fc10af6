// A warpgroup's product of four blocks of compact weights (layout.h), 16 rows of 256 columns for each of its warps,
// with 16 or 32 rows of activations. The tensor cores multiply codes, which 16-bit floats hold exactly, and each
// group's sum is multiplied by the group's scale in float32: weights are never rounded to 16 bits.
#pragma once

#include "experts/tiled_x.cuh"

namespace nanolith::cuda {

// X is a TiledX. All four warps must make every call together, as wgmma requires. A warp that has no tile passes any
// readable block of shared memory and ignores its sums.
template <typename T, typename Traits, typename X, int kRows>
class TiledProduct {
  public:
    // `block`: the calling warp's own.
    __device__ explicit TiledProduct(const SharedBlock& block)
        : block_(block), g_(static_cast<int>(threadIdx.x) % 32 / 4) {}

    // Adds the calling warp's part of the product, [16 weight rows, kRows], to `sums`. `x`: the stage (TiledX) that has
    // the block's columns. `means`: the means (means.cuh) of those columns for row lane / 4 of x.
    __device__ void add(const std::byte* x, const std::byte* means, Fragment<kRows>& sums) const {
        const RowFactors<T, Traits> factors(block_.bytes, g_);
        if constexpr (Traits::kScales == ScaleKind::none) {
            add_unscaled(x, factors, sums);
        } else {
            add_scaled(x, factors, sums);
        }
        if constexpr (Traits::kMeans) {
            subtract_means<T, Traits, kRows / 8>(block_.bytes, block_.zero, factors, means, X::kMeansRowBytes,
                                                 sums.octets);
        }
    }

  private:
    static constexpr int kLines = kCompactColumns / kCompactUnit;
    static constexpr int kPairs = 2 * kLines;  // pairs of steps of 16 columns in a block
    static constexpr bool kNarrow = Traits::kGroup == 16;

    // The stored codes of kCount adjacent pairs of steps, which are loaded well before they are widened. In a block of
    // fewer columns the last loads read what lies behind it in shared memory; those codes are never multiplied.
    template <int kCount>
    struct Codes {
        CodesOfPair<Traits::kCodes> next[kCount];

        __device__ void load(const SharedBlock& block, int pair) {
#pragma unroll
            for (int i = 0; i < kCount; ++i) {
                if (pair + i < kPairs) next[i].load(block.bytes + Traits::layout().code_offset(), pair + i);
            }
        }
        __device__ void widen(uint32_t power, uint32_t (&a)[kCount][2][4]) const {
#pragma unroll
            for (int i = 0; i < kCount; ++i) next[i].template widen<T>(power, a[i]);
        }
    };

    // For forms without groups: the tensor cores add up the whole block's products, and the sum is scaled once. While
    // they multiply one pair of steps, the warp widens the codes of the next pair.
    __device__ void add_unscaled(const std::byte* x, const RowFactors<T, Traits>& factors,
                                 Fragment<kRows>& sums) const {
        Fragment<kRows> products;
        Codes<1> codes;
        uint32_t a[2][1][2][4];
        codes.load(block_, 0);
        codes.widen(block_.power, a[0]);
        codes.load(block_, 1);
#pragma unroll
        for (int pair = 0; pair < kPairs; ++pair) {
            if (pair / 2 >= block_.lines) break;
            wgmma_hold(a[pair % 2][0][0]);
            wgmma_hold(a[pair % 2][0][1]);
            wgmma_fence();
            multiply(x, 2 * pair, a[pair % 2][0][0], products, pair > 0);
            multiply(x, 2 * pair + 1, a[pair % 2][0][1], products, true);
            wgmma_commit();
            wgmma_wait<1>();
            if (pair + 1 < kPairs) {
                codes.widen(block_.power, a[(pair + 1) % 2]);
                codes.load(block_, pair + 2);
            }
        }
        wgmma_wait<0>();
        wgmma_hold(products);
        add_group(products, factors.of, sums);
    }

    // For forms with groups: the tensor cores add up each group's products by itself, and the sum is scaled when it is
    // complete. The sums of all groups of 64 columns are multiplied at the same time. While the tensor cores multiply,
    // the warp widens the codes of the next columns.
    __device__ void add_scaled(const std::byte* x, const RowFactors<T, Traits>& factors, Fragment<kRows>& sums) const {
        constexpr int kOfGroup = kNarrow ? 1 : 2;  // steps in a group
        constexpr int kSteps = 4;                  // steps that are multiplied together
        constexpr int kHeld = 2;                   // pairs of steps that are widened together
        Fragment<kRows> products[kSteps / kOfGroup];
        Codes<kHeld> codes;
        uint32_t a[2][kHeld][2][4];
        codes.load(block_, 0);
        codes.widen(block_.power, a[0]);
        codes.load(block_, kHeld);
#pragma unroll
        for (int step = 0; step < 2 * kPairs; step += kSteps) {
            if (step / 4 >= block_.lines) break;
            const int held = step / (2 * kHeld);
#pragma unroll
            for (int i = 0; i < kSteps; ++i) wgmma_hold(a[held % 2][(step + i) / 2 % kHeld][(step + i) % 2]);
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < kSteps; ++i) {
                multiply(x, step + i, a[held % 2][(step + i) / 2 % kHeld][(step + i) % 2], products[i / kOfGroup],
                         i % kOfGroup > 0);
            }
            wgmma_commit();
            const GroupScales<Traits> scales(block_.bytes, step / 4, g_);
            if ((held + 1) * kHeld < kPairs) {
                codes.widen(block_.power, a[(held + 1) % 2]);
                codes.load(block_, (held + 2) * kHeld);
            }
            wgmma_wait<0>();
#pragma unroll
            for (int i = 0; i < kSteps / kOfGroup; ++i) {
                const int group = step % 4 / kOfGroup + i;
                const float scale[2] = {factors.of[0] * scales.of(0, group), factors.of[1] * scales.of(1, group)};
                wgmma_hold(products[i]);
                add_group(products[i], scale, sums);
            }
        }
    }

    // Starts the product of one step. It is added to `to`, or replaces what `to` has where `adds` is false; it is
    // complete after wgmma_wait().
    __device__ static void multiply(const std::byte* x, int step, const uint32_t (&a)[4], Fragment<kRows>& to,
                                    bool adds) {
        Wgmma<T, kRows>::template multiply_add<false>(to, a, X::operand(x, step / 4, step % 4), adds);
    }

    __device__ static void add_group(const Fragment<kRows>& products, const float (&scale)[2], Fragment<kRows>& sums) {
#pragma unroll
        for (int octet = 0; octet < kRows / 8; ++octet) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sums.octets[octet][i] = fmaf(scale[i / 2], products.octets[octet][i], sums.octets[octet][i]);
            }
        }
    }

    const SharedBlock block_;
    const int g_;
};

}  // namespace nanolith::cuda
