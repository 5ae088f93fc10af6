// Tiling: up to eight rows of x, in two parts of four where there are more than six, by two to four outputs. Each pair
// of row and output has a vector of sums in a register; a vector of weights is loaded and widened once for the part's
// rows.
//
// The weights are read once for eight rows, 2 or 4 bytes each; x and y stay in cache. One row is bound by memory, and
// by how much of it is under way: a processor fetches ahead in each run of addresses that a core reads, but in one
// alone not far enough. So the outputs that are computed together lie far apart, and a core reads two to four runs at a
// time. Eight rows are bound by the multiply-add units.
#include "backend/cpu/dot_products.h"

#include <algorithm>

#include "backend/cpu/simd.h"

namespace nanolith::cpu {
namespace {

// One half of the 2 * Lanes values at `from`, as float32. Of bfloat16 the values with an even number (half 0) or an odd
// one (half 1), since a shift or a mask is enough to widen those; of float32 the first or the last ones.
template <int Lanes>
NL_INLINE Vec<Lanes> load_half(const float* from, int half) {
    return load<Lanes>(from + half * Lanes);
}
template <int Lanes>
NL_INLINE Vec<Lanes> load_half(const BFloat16* from, int half) {
    typename SimdTypes<Lanes>::Words words;
    std::memcpy(&words, from, sizeof(words));
    return reinterpret_cast<Vec<Lanes>>(half == 0 ? words << 16 : words & 0xFFFF0000U);
}

// The value in a register: GCC would load it anew for each product that takes it, and loads become the bound.
template <int Lanes>
NL_INLINE Vec<Lanes> in_register(Vec<Lanes> value) {
#if defined(__x86_64__) && !defined(__clang__)
    asm("" : "+v"(value));
#endif
    return value;
}

// Rows of x by outputs that lie `apart` from each other.
template <int Lanes, int Rows, int Outputs, typename T>
NL_INLINE void block(const DotProducts<T>& of, const T* weights, int64_t apart, const float* x, float* y) {
    Vec<Lanes> sums[Rows][Outputs] = {};
    int64_t k = 0;
    const int64_t next = of.next == nullptr ? 0 : of.next - of.weights;
    for (; k + 2 * Lanes <= of.depth; k += 2 * Lanes) {
        if (next != 0) {
            NL_UNROLL for (int n = 0; n < Outputs; ++n) fetch<2 * Lanes>(weights + next + n * apart * of.depth + k);
        }
        NL_UNROLL for (int half = 0; half < 2; ++half) {
            Vec<Lanes> w[Outputs];
            NL_UNROLL for (int n = 0; n < Outputs; ++n) w[n] =
                load_half<Lanes>(weights + n * apart * of.depth + k, half);
            NL_UNROLL for (int r = 0; r < Rows; ++r) {
                const Vec<Lanes> v = in_register<Lanes>(load<Lanes>(x + r * of.depth + k + half * Lanes));
                NL_UNROLL for (int n = 0; n < Outputs; ++n) sums[r][n] += v * w[n];
            }
        }
    }
    float totals[Rows][Outputs];
    NL_UNROLL for (int r = 0; r < Rows; ++r) {
        NL_UNROLL for (int n = 0; n < Outputs; ++n) totals[r][n] = sum<Lanes>(sums[r][n]);
    }
    for (; k < of.depth; ++k) {
        for (int r = 0; r < Rows; ++r) {
            for (int n = 0; n < Outputs; ++n)
                totals[r][n] += to_float(weights[n * apart * of.depth + k]) * x[r * of.depth + k];
        }
    }
    for (int r = 0; r < Rows; ++r) {
        for (int n = 0; n < Outputs; ++n) {
            float& to = y[r * of.y_stride + n * apart];
            to = of.accumulate ? to + totals[r][n] : totals[r][n];
        }
    }
}

// First + Second rows by outputs that lie `apart`.
template <int Lanes, int First, int Second, int Outputs, typename T>
NL_INLINE void few_rows_block(const DotProducts<T>& of, int64_t n, int64_t apart) {
    const T* const weights = of.weights + n * of.depth;
    float* const y = of.y + n;
    block<Lanes, First, Outputs>(of, weights, apart, of.x, y);
    if constexpr (Second > 0)
        block<Lanes, Second, Outputs>(of, weights, apart, of.x + First * of.depth, y + First * of.y_stride);
}

// First + Second rows, with `Runs` runs of weights read at a time.
template <int Lanes, int First, int Second, int Runs, typename T>
NL_INLINE void few_rows(const DotProducts<T>& of, int64_t outputs) {
    const int64_t apart = outputs / Runs;
    for (int64_t n = 0; n < apart; ++n) few_rows_block<Lanes, First, Second, Runs>(of, n, apart);
    for (int64_t n = Runs * apart; n < outputs; ++n) few_rows_block<Lanes, First, Second, 1>(of, n, 0);
}

// As many rows at a time, and then runs, as there are registers for their sums.
template <int Lanes, typename T>
NL_INLINE void any_few_rows(const DotProducts<T>& of, int64_t rows, int64_t outputs) {
    constexpr bool kManyRegisters = Lanes == 16;
    constexpr int kRuns = kManyRegisters ? 4 : 2;
    switch (rows) {
        case 1:
            return few_rows<Lanes, 1, 0, 4>(of, outputs);
        case 2:
            return few_rows<Lanes, 2, 0, 4>(of, outputs);
        case 3:
            return few_rows < Lanes, 3, 0, kManyRegisters ? 4 : 3 > (of, outputs);
        case 4:
            return few_rows<Lanes, 4, 0, kRuns>(of, outputs);
        case 5:
            return few_rows<Lanes, 5, 0, kRuns>(of, outputs);
        case 6:
            return few_rows<Lanes, 6, 0, kRuns>(of, outputs);
        case 7:
            return few_rows<Lanes, 4, 3, kRuns>(of, outputs);
        default:
            return few_rows<Lanes, 4, 4, kRuns>(of, outputs);
    }
}

template <int Lanes, typename T>
NL_INLINE void dot_products_body(const DotProducts<T>& of, int64_t rows, int64_t outputs) {
    DotProducts<T> some = of;
    for (int64_t row = 0; row < rows; row += kFewRows) {
        some.x = of.x + row * of.depth;
        some.y = of.y + row * of.y_stride;
        any_few_rows<Lanes>(some, std::min(kFewRows, rows - row), outputs);
        some.next = nullptr;  // the first rows have fetched it
    }
}

template <int Lanes>
NL_INLINE void spread_pairs_body(const float* x, int64_t depth, float* to) {
    int64_t k = 0;
    for (; k + 2 * Lanes <= depth; k += 2 * Lanes) {
        for (int i = 0; i < Lanes; ++i) {
            to[k + i] = x[k + 2 * i];
            to[k + Lanes + i] = x[k + 2 * i + 1];
        }
    }
    for (; k < depth; ++k) to[k] = x[k];
}

template <int Lanes, typename T>
NL_INLINE void spread_body(const T* x, int64_t depth, float* to) {
    int64_t k = 0;
    for (; k + 2 * Lanes <= depth; k += 2 * Lanes) {
        for (int half = 0; half < 2; ++half) store<Lanes>(to + k + half * Lanes, load_half<Lanes>(x + k, half));
    }
    for (; k < depth; ++k) to[k] = to_float(x[k]);
}

}  // namespace

NL_DISPATCH(dot_products, (const DotProducts<float>& of, int64_t rows, int64_t outputs), (of, rows, outputs))
NL_DISPATCH(dot_products, (const DotProducts<BFloat16>& of, int64_t rows, int64_t outputs), (of, rows, outputs))
NL_DISPATCH(spread, (const float* x, int64_t depth, float* to), (x, depth, to))
NL_DISPATCH(spread, (const BFloat16* x, int64_t depth, float* to), (x, depth, to))
NL_DISPATCH(spread_pairs, (const float* x, int64_t depth, float* to), (x, depth, to))

}  // namespace nanolith::cpu
