// Reads a block of compact weights (layout.h) out of shared memory for a product: the codes, which are widened to
// 16-bit floats, and the scale of each row. scales.cuh reads the scales of groups.
#pragma once

#include <type_traits>

#include "compact/scales.cuh"

namespace nanolith::cuda {

// A block of compact weights (layout.h) that has been copied to shared memory, and the numbers that widening and
// scaling its codes takes.
struct SharedBlock {
    const std::byte* bytes;
    int lines;       // how many lines of 64 columns the block has: 1 to 4
    uint32_t power;  // kPower (codes.cuh), in a register
    int zero;        // CompactLayout::zero
};

// The codes that the calling lane has of a pair of steps (32 columns), as they are stored.
template <CodeKind kCodes>
class CodesOfPair {
  public:
    // Loads those of steps 2 `pair` and 2 `pair` + 1, counted from `codes`: the address of a block's codes, or of the
    // codes of one of its lines of 64 columns.
    __device__ void load(const std::byte* codes, int pair) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const std::byte* const line = codes + pair / 2 * compact_line_bytes(kCodes);
        if constexpr (kCodes == CodeKind::bits4) {
            words_ = *reinterpret_cast<const uint2*>(line + lane * 16 + pair % 2 * 8);
        } else {
            words_ = *reinterpret_cast<const uint4*>(line + pair % 2 * 512 + lane * 16);
        }
    }
    // Writes the codes as numbers of T to `a`: the operand A (device/mma.cuh) of each of the two steps. `power` is
    // kPower (codes.cuh), in a register.
    template <typename T>
    __device__ void widen(uint32_t power, uint32_t (&a)[2][4]) const {
        if constexpr (kCodes == CodeKind::bits4) {
            codes_of_step<T, CodeKind::bits4>(words_.x, 0, power, a[0]);
            codes_of_step<T, CodeKind::bits4>(words_.y, 0, power, a[1]);
        } else {
            codes_of_step<T, kCodes>(words_.x, words_.y, power, a[0]);
            codes_of_step<T, kCodes>(words_.z, words_.w, power, a[1]);
        }
    }

  private:
    std::conditional_t<kCodes == CodeKind::bits4, uint2, uint4> words_;
};

// The float32 scales of rows g and g + 8 of the tile, multiplied by kCodeFactor: what sums of widened codes must be
// multiplied by.
template <typename T, typename Traits>
struct RowFactors {
    float of[2];

    __device__ RowFactors(const std::byte* block, int g) {
        const auto* const of_rows = reinterpret_cast<const float*>(block);
        of[0] = of_rows[g] * kCodeFactor<T, Traits::kCodes>;
        of[1] = of_rows[g + 8] * kCodeFactor<T, Traits::kCodes>;
    }
};

}  // namespace nanolith::cuda
