// Tiling: five rows of x and two outputs at a time; four outputs where vectors have 16 lanes, or where x is one row.
// Each pair of row and output has a vector of sums in a register. With 8 lanes these are ten of 16 registers: enough to
// keep two multiply-add units with a latency of four cycles busy, and few enough that GCC keeps them in registers. A
// vector of weights is loaded and widened once for the five rows.
//
// Few rows: the weights are read once, 2 or 4 bytes each; x and y stay in cache. Bound by memory. Many rows: 2 flops
// for each weight and row; 20 KiB of x stay in the first-level cache. Bound by the multiply-add units: with 8 lanes,
// ten multiply-adds take five cycles and the seven loads beside them three and a half.
#include "backend/cpu/dot_products.h"

#include <algorithm>

#include "backend/cpu/simd.h"

namespace nanolith::cpu {
namespace {

constexpr int kRows = 5;
// Of so much depth five rows of x fit a first-level cache beside two outputs' weights.
constexpr int64_t kDepthAtOnce = 1024;

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

// Fetches that many elements into the first-level cache.
template <int Size, typename T>
NL_INLINE void prefetch(const T* from) {
    constexpr int kLine = 64 / sizeof(T);
    NL_UNROLL for (int i = 0; i < Size; i += kLine) __builtin_prefetch(from + i);
}

template <int Lanes, int Rows, int Outputs, bool Few, typename T>
NL_INLINE void block(const DotProducts<T>& of, const T* weights, const float* x, int64_t depth, float* y,
                     bool accumulate) {
    Vec<Lanes> sums[Rows][Outputs] = {};
    int64_t k = 0;
    for (; k + 2 * Lanes <= depth; k += 2 * Lanes) {
        // Fetches the weights of the next tile, which lie right after this tile's, a part in each turn of this loop.
        // The processor's own prefetcher starts anew with each weight row and so fetches too late.
        if constexpr (Few) prefetch<Outputs * 2 * Lanes>(weights + Outputs * (depth + k));
        NL_UNROLL for (int half = 0; half < 2; ++half) {
            Vec<Lanes> w[Outputs];
            NL_UNROLL for (int n = 0; n < Outputs; ++n) w[n] = load_half<Lanes>(weights + n * of.depth + k, half);
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
    for (; k < depth; ++k) {
        for (int r = 0; r < Rows; ++r) {
            for (int n = 0; n < Outputs; ++n) totals[r][n] += to_float(weights[n * of.depth + k]) * x[r * of.depth + k];
        }
    }
    for (int r = 0; r < Rows; ++r) {
        for (int n = 0; n < Outputs; ++n) {
            float& to = y[r * of.y_stride + n];
            to = accumulate ? to + totals[r][n] : totals[r][n];
        }
    }
}

template <int Lanes, int Rows, int Outputs, bool Few, typename T>
NL_INLINE void all_rows(const DotProducts<T>& of, const T* weights, const float* x, int64_t depth, int64_t rows,
                        float* y, bool accumulate) {
    int64_t r = 0;
    for (; r + Rows <= rows; r += Rows)
        block<Lanes, Rows, Outputs, Few>(of, weights, x + r * of.depth, depth, y + r * of.y_stride, accumulate);
    if constexpr (Rows > 1) {
        if (r < rows)
            all_rows<Lanes, Rows - 1, Outputs, Few>(of, weights, x + r * of.depth, depth, rows - r, y + r * of.y_stride,
                                                    accumulate);
    }
}

// Elements [first, first + depth) of the sums of rows [row, row + rows), in tiles of Rows by Outputs.
template <int Lanes, int Rows, int Outputs, bool Few, typename T>
NL_INLINE void all_outputs(const DotProducts<T>& of, int64_t first, int64_t depth, int64_t row, int64_t rows,
                           int64_t outputs) {
    const T* const weights = of.weights + first;
    const float* const x = of.x + row * of.depth + first;
    float* const y = of.y + row * of.y_stride;
    const bool accumulate = of.accumulate || first > 0;
    int64_t n = 0;
    for (; n + Outputs <= outputs; n += Outputs)
        all_rows<Lanes, Rows, Outputs, Few>(of, weights + n * of.depth, x, depth, rows, y + n, accumulate);
    for (; n < outputs; ++n)
        all_rows<Lanes, Rows, 1, Few>(of, weights + n * of.depth, x, depth, rows, y + n, accumulate);
}

template <int Lanes, typename T>
NL_INLINE void dot_products_body(const DotProducts<T>& of, int64_t rows, int64_t outputs, bool few) {
    constexpr int kOutputs = Lanes == 16 ? 4 : 2;
    if (few && rows == 1) return all_outputs<Lanes, 1, 4, true>(of, 0, of.depth, 0, 1, outputs);
    if (few) return all_outputs<Lanes, kRows, kOutputs, true>(of, 0, of.depth, 0, rows, outputs);
    for (int64_t first = 0; first < of.depth; first += kDepthAtOnce) {
        const int64_t depth = std::min(kDepthAtOnce, of.depth - first);
        for (int64_t row = 0; row < rows; row += kRows)
            all_outputs<Lanes, kRows, kOutputs, false>(of, first, depth, row, std::min<int64_t>(kRows, rows - row),
                                                       outputs);
    }
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

NL_DISPATCH(dot_products, (const DotProducts<float>& of, int64_t rows, int64_t outputs, bool few),
            (of, rows, outputs, few))
NL_DISPATCH(dot_products, (const DotProducts<BFloat16>& of, int64_t rows, int64_t outputs, bool few),
            (of, rows, outputs, few))
NL_DISPATCH(spread, (const float* x, int64_t depth, float* to), (x, depth, to))
NL_DISPATCH(spread, (const BFloat16* x, int64_t depth, float* to), (x, depth, to))

}  // namespace nanolith::cpu
