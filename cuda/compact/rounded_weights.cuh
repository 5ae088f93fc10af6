// Compact weights as operands A of the tensor cores, rounded to 16 bits: for products with so many rows of activations
// that scaling each weight once takes fewer instructions than scaling the sums of each group.
#pragma once

#include "compact/block.cuh"
#include "device/pair.cuh"

namespace nanolith::cuda {

// What rows g and g + 8 of a block (g being lane / 4) have in common for all of their groups: the row's scale and, of
// ScaleKind::two with minimums, the scale of those.
template <typename Traits>
struct RowNumbers {
    float scale[2];
    float min[2];

    __device__ void load(const std::byte* block, int g) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            scale[half] = reinterpret_cast<const float*>(block)[g + 8 * half];
            if constexpr (Traits::kScales == ScaleKind::two && Traits::kMins) {
                min[half] = reinterpret_cast<const float*>(block + Traits::layout().row_mins())[g + 8 * half];
            } else {
                min[half] = scale[half];
            }
        }
    }
};

// What rows g and g + 8 have for one group: weight = scale * number - min, number being what pairs_of_codes() makes of
// the weight's code.
struct GroupFactors {
    float scale[2];
    float min[2];
};

// Codes as pairs of 16-bit floats that hold them exactly, with as few instructions as possible: those of 4 bits as
// bfloat16 with kBits4Zero added, bytes as float16 with 1,152 added, e4m3 as float16 divided by 256.
template <CodeKind kCodes>
struct PlainCodes {
    using Number = __half;
    static constexpr float kFactor = kCodeFactor<__half, kCodes>;
    static constexpr int kZero = kCodes == CodeKind::int8 ? 1024 + 128 : 0;
};
template <>
struct PlainCodes<CodeKind::bits4> {
    using Number = __nv_bfloat16;
    static constexpr float kFactor = 1;
    static constexpr int kZero = kBits4Zero<__nv_bfloat16>;
};

// The scales and minimums that rows g and g + 8 have for the groups of a line (64 columns) of a block.
template <typename Traits>
class LineNumbers {
  public:
    __device__ LineNumbers(const std::byte* block, int line, int g) : scales_(block, line, g) {
        if constexpr (Traits::kMins) {
            const std::byte* const mins = block + Traits::layout().group_mins();
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                mins_[half] = word_of_line<Traits, kMinBytes>(mins, g + 8 * half, line);
            }
        }
    }

    // What group number `group` of the line is multiplied with and what is subtracted. `zero`: how much greater the
    // numbers of pairs_of_codes() are than the codes that the form means (PlainCodes::kZero + CompactLayout::zero).
    [[nodiscard]] __device__ GroupFactors factors(const RowNumbers<Traits>& rows, int group, float zero) const {
        GroupFactors factors;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float scale = rows.scale[half] * scales_.of(half, group);
            factors.min[half] = scale * zero;
            if constexpr (Traits::kScales == ScaleKind::zeros) {
                factors.min[half] = scale * (zero + signed_byte(mins_[half], group));
            } else if constexpr (Traits::kMins && Traits::kScales == ScaleKind::two) {
                factors.min[half] = fmaf(rows.min[half], signed_byte(mins_[half], group), factors.min[half]);
            } else if constexpr (Traits::kMins) {
                const auto bits = static_cast<unsigned short>(mins_[half] >> (16 * group));
                factors.min[half] = fmaf(rows.min[half], __half2float(__ushort_as_half(bits)), factors.min[half]);
            }
            factors.scale[half] = scale * PlainCodes<Traits::kCodes>::kFactor;
        }
        return factors;
    }

  private:
    static constexpr int kMinBytes = Traits::kScales == ScaleKind::half ? 2 : 1;

    __device__ static float signed_byte(uint32_t word, int i) {
        return factor_of_byte(word ^ 0x80808080U, i);
    }

    GroupScales<Traits> scales_;
    uint32_t mins_[2];
};

// The codes of a pair of steps as the operands A of both, in PlainCodes' numbers.
template <CodeKind kCodes>
__device__ void pairs_of_codes(const std::byte* codes, int pair, uint32_t power, uint32_t (&a)[2][4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (kCodes == CodeKind::int8) {
        const auto words = *reinterpret_cast<const uint4*>(codes + pair * 512 + lane * 16);
        constexpr uint32_t kBytes = 0x00FF00FFU;
        a[0][0] = masked_xor<kBytes>(words.x, power);
        a[0][1] = masked_xor<kBytes>(words.y, power);
        a[0][2] = masked_xor<kBytes>(words.x >> 8, power);
        a[0][3] = masked_xor<kBytes>(words.y >> 8, power);
        a[1][0] = masked_xor<kBytes>(words.z, power);
        a[1][1] = masked_xor<kBytes>(words.w, power);
        a[1][2] = masked_xor<kBytes>(words.z >> 8, power);
        a[1][3] = masked_xor<kBytes>(words.w >> 8, power);
    } else {
        CodesOfPair<kCodes> of_pair;
        of_pair.load(codes, pair);
        of_pair.template widen<typename PlainCodes<kCodes>::Number>(power, a);
    }
}

// The weights of a block of compact weights in shared memory as operands A of the tensor cores, 32 columns at a time.
template <typename T, typename Traits>
class RoundedBlock {
  public:
    // `zero`: CompactLayout::zero.
    __device__ explicit RoundedBlock(int zero)
        : power_(in_register(kScaled ? kPower<Number, Traits::kCodes> : kPower<T, Traits::kCodes>)),
          zero_(static_cast<float>(PlainCodes<Traits::kCodes>::kZero + zero)) {}

    __device__ void begin(const std::byte* block) {
        block_ = block;
        if constexpr (kScaled) rows_.load(block, g());
    }

    // Writes columns 32 `pair` to 32 `pair` + 31 to `a`, the operands A (device/mma.cuh) of two steps. Those of forms
    // without scales are left without the row's scale, and are exact.
    __device__ void round(int pair, uint32_t (&a)[2][4]) const {
        const std::byte* const codes = block_ + Traits::layout().code_offset();
        if constexpr (!kScaled) {
            CodesOfPair<Traits::kCodes> of_pair;
            of_pair.load(codes, pair);
            of_pair.template widen<T>(power_, a);
        } else {
            constexpr int kGroupsOfPair = 32 / Traits::kGroup;
            const LineNumbers<Traits> line(block_, pair / 2, g());
            uint32_t plain[2][4];
            pairs_of_codes<Traits::kCodes>(codes, pair, power_, plain);
#pragma unroll
            for (int step = 0; step < 2; ++step) {
                const int group = (pair % 2 * 2 + step) * kGroupsOfPair / 2;
                const GroupFactors factors = line.factors(rows_, group, zero_);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float2 two = unpack_pair(plain[step][i], Number());
                    a[step][i] = pack_pair(fmaf(factors.scale[i % 2], two.x, -factors.min[i % 2]),
                                           fmaf(factors.scale[i % 2], two.y, -factors.min[i % 2]), T());
                }
            }
        }
    }

  private:
    using Number = typename PlainCodes<Traits::kCodes>::Number;
    static constexpr bool kScaled = Traits::kScales != ScaleKind::none;

    __device__ static int g() {
        return static_cast<int>(threadIdx.x) % 32 / 4;
    }

    const uint32_t power_;
    const float zero_;
    const std::byte* block_ = nullptr;
    RowNumbers<Traits> rows_;
};

}  // namespace nanolith::cuda
