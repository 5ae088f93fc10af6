// What a warp's product reads of a block of compact weights (layout.h) in shared memory, besides the scales.
#pragma once

#include <type_traits>

#include "compact/scales.cuh"

namespace nanolith::cuda {

// A block in shared memory.
struct SharedBlock {
    const std::byte* bytes;
    int lines;       // times 64 columns that it has
    uint32_t power;  // kPower in a register
    int zero;        // of the form
};

// The codes that a lane has of two steps of 16 columns, as they are stored.
template <CodeKind kCodes>
class CodesOfPair {
  public:
    // Those of steps 2 `pair` and 2 `pair` + 1 behind `codes`, where the codes of a block or of one of its lines begin.
    __device__ void load(const std::byte* codes, int pair) {
        constexpr int kLineBytes = kCompactTile * kCompactUnit / (kCodes == CodeKind::bits4 ? 2 : 1);
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const std::byte* const line = codes + pair / 2 * kLineBytes;
        if constexpr (kCodes == CodeKind::bits4) {
            words_ = *reinterpret_cast<const uint2*>(line + lane * 16 + pair % 2 * 8);
        } else {
            words_ = *reinterpret_cast<const uint4*>(line + pair % 2 * 512 + lane * 16);
        }
    }
    // As operands A (device/mma.cuh) of T. `power` is kPower in a register.
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

// The scales of rows g and g + 8 of the tile, with what codes_of_step() leaves to be multiplied.
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
