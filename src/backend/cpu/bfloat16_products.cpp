// Tiling: all rows of x, up to eight, by three outputs, or by four where there are up to four rows. Each pair of row
// and output has a vector of 16 sums in a register; a vector of 32 weights is loaded once for all rows. Two products
// and their addition to a sum are one instruction.
//
// The weights are read once, 2 bytes each; x and y stay in cache. Bound by memory: the outputs that are computed
// together lie far apart, so that a core reads several runs of addresses at a time (see dot_products.cpp). With more
// rows a core comes to the next weights so late that it also has to ask for them in advance.
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

constexpr int64_t kNumbers = 32;  // of a vector

// Not sum() of simd.h: Clang gives a vector to no function of another instruction set.
NL_TARGET_V4_BF16 inline float total_of(Vec<16> sums) {
    Vec<8> halves[2];
    std::memcpy(halves, &sums, sizeof(halves));
    const Vec<8> half = halves[0] + halves[1];
    Vec<4> quarters[2];
    std::memcpy(quarters, &half, sizeof(quarters));
    const Vec<4> quarter = quarters[0] + quarters[1];
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

// Rows of x by outputs that lie `apart` from each other. What lies `next` numbers behind the weights is fetched beside
// them; 0: nothing.
template <int Rows, int Outputs>
NL_TARGET_V4_BF16 void block(const BFloat16Products& of, const BFloat16* weights, int64_t apart, float* y,
                             int64_t next) {
    Vec<16> sums[Rows][Outputs] = {};
    for (int64_t k = 0; k < of.depth; k += kNumbers) {
        // All numbers of the vectors, or those that are left at the end.
        const __mmask32 there = of.depth - k >= kNumbers ? ~0U : (1U << (of.depth - k)) - 1;
        __m512i w[Outputs];
        NL_UNROLL for (int n = 0; n < Outputs; ++n) {
            const BFloat16* const from = weights + n * apart * of.depth + k;
            w[n] = _mm512_maskz_loadu_epi16(there, from);
            if (next != 0) __builtin_prefetch(from + next);
        }
        NL_UNROLL for (int r = 0; r < Rows; ++r) {
            const __m512i v = _mm512_maskz_loadu_epi16(there, of.x + r * of.depth + k);
            NL_UNROLL for (int n = 0; n < Outputs; ++n) {
                sums[r][n] =
                    _mm512_dpbf16_ps(sums[r][n], reinterpret_cast<__m512bh>(v), reinterpret_cast<__m512bh>(w[n]));
            }
        }
    }
    NL_UNROLL for (int r = 0; r < Rows; ++r) {
        NL_UNROLL for (int n = 0; n < Outputs; ++n) {
            const float total = total_of(sums[r][n]);
            float& to = y[r * of.y_stride + n * apart];
            to = of.accumulate ? to + total : total;
        }
    }
}

// All outputs, in so many runs that are read at a time.
template <int Rows, int Runs>
NL_TARGET_V4_BF16 void all_outputs(const BFloat16Products& of, int64_t outputs) {
    const int64_t apart = outputs / Runs;
    for (int64_t n = 0; n < apart; ++n)
        block<Rows, Runs>(of, of.weights + n * of.depth, apart, of.y + n, Rows > 2 && n + 1 < apart ? of.depth : 0);
    for (int64_t n = Runs * apart; n < outputs; ++n) block<Rows, 1>(of, of.weights + n * of.depth, 0, of.y + n, 0);
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
