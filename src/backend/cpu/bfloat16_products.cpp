// Tiling: all rows of x, up to eight, by three outputs, or by four where there are up to four rows. Each pair of row
// and output has a vector of 16 sums in a register; a vector of 32 weights is loaded once for all rows. Two products
// and their addition to a sum are one instruction.
//
// The weights are read once, 2 bytes each; x and y stay in cache. Bound by memory: the outputs that are computed
// together lie far apart, so that a core reads several runs of addresses at a time (see dot_products.cpp). The
// processor fetches ahead in each run by itself; prefetches of the next output's weights made four rows a fifth slower.
#include "backend/cpu/bfloat16_products.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

#include <cassert>
#include <cstring>

#include "backend/cpu/dot_products.h"
#include "backend/cpu/simd.h"

namespace nanolith::cpu {

#if defined(__x86_64__) && defined(__GNUC__)
namespace {

constexpr int64_t kNumbers = 32;  // bfloat16 numbers of a vector

// The sum of a vector's lanes. sum() of simd.h can't be called here: Clang refuses to pass a vector of 64 bytes to a
// function that is not compiled for AVX-512, although that one would be inlined.
NL_TARGET_V4_BF16 inline float total_of(Vec<16> sums) {
    Vec<8> halves[2];
    std::memcpy(halves, &sums, sizeof(halves));
    const Vec<8> half = halves[0] + halves[1];
    Vec<4> quarters[2];
    std::memcpy(quarters, &half, sizeof(quarters));
    const Vec<4> quarter = quarters[0] + quarters[1];
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

// Multiplies all rows of x by the outputs n, n + apart, n + 2 * apart ..
template <int Rows, int Outputs>
NL_TARGET_V4_BF16 void block(const BFloat16Products& of, int64_t n, int64_t apart) {
    const BFloat16* const weights = of.weights + n * of.depth;
    float* const y = of.y + n;
    Vec<16> sums[Rows][Outputs] = {};
    for (int64_t k = 0; k < of.depth; k += kNumbers) {
        // Which of a vector's 32 numbers are read: all of them, or at the end of a row those that are left.
        const __mmask32 there = of.depth - k >= kNumbers ? ~0U : (1U << (of.depth - k)) - 1;
        __m512i w[Outputs];
        NL_UNROLL for (int i = 0; i < Outputs; ++i) w[i] =
            _mm512_maskz_loadu_epi16(there, weights + i * apart * of.depth + k);
        NL_UNROLL for (int r = 0; r < Rows; ++r) {
            const __m512i v = _mm512_maskz_loadu_epi16(there, of.x + r * of.depth + k);
            NL_UNROLL for (int i = 0; i < Outputs; ++i) {
                sums[r][i] =
                    _mm512_dpbf16_ps(sums[r][i], reinterpret_cast<__m512bh>(v), reinterpret_cast<__m512bh>(w[i]));
            }
        }
    }
    NL_UNROLL for (int r = 0; r < Rows; ++r) {
        NL_UNROLL for (int i = 0; i < Outputs; ++i) {
            const float total = total_of(sums[r][i]);
            float& to = y[r * of.y_stride + i * apart];
            to = of.accumulate ? to + total : total;
        }
    }
}

// Multiplies all rows of x by all outputs, which are divided into `Runs` runs of neighbours: a block has one of each.
template <int Rows, int Runs>
NL_TARGET_V4_BF16 void all_outputs(const BFloat16Products& of, int64_t outputs) {
    const int64_t apart = outputs / Runs;
    for (int64_t n = 0; n < apart; ++n) block<Rows, Runs>(of, n, apart);
    for (int64_t n = Runs * apart; n < outputs; ++n) block<Rows, 1>(of, n, 0);
}

}  // namespace

void bfloat16_products(const BFloat16Products& of, int64_t rows, int64_t outputs) {
    static_assert(kFewRows == 8);
    switch (rows) {
        case 1:
            return all_outputs<1, 4>(of, outputs);
        case 2:
            return all_outputs<2, 4>(of, outputs);
        case 3:
            return all_outputs<3, 4>(of, outputs);
        case 4:
            return all_outputs<4, 4>(of, outputs);
        case 5:
            return all_outputs<5, 3>(of, outputs);
        case 6:
            return all_outputs<6, 3>(of, outputs);
        case 7:
            return all_outputs<7, 3>(of, outputs);
        default:
            assert(rows == 8);
            return all_outputs<8, 3>(of, outputs);
    }
}
#else
void bfloat16_products(const BFloat16Products&, int64_t, int64_t) {
    assert(!has_bfloat16_products());
}
#endif

}  // namespace nanolith::cpu
