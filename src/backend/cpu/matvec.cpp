// Tiling: four weight rows against up to four rows of x, so every vector of weights that comes from memory meets all
// rows while it is in a register or in the first-level cache. Bytes: the weights once (2 or 4 a weight); x and y stay
// in cache. Flops: 2 * rows a weight. Bound by memory bandwidth up to about eight rows.
#include "backend/cpu/matvec.h"

#include "backend/cpu/simd.h"

namespace nanolith::cpu {
namespace {

template <int Lanes, int Rows, int Outputs, typename T>
NL_INLINE void block(const T* weights, int64_t depth, const float* x, float* y, int64_t y_stride, bool accumulate) {
    Vec<Lanes> sums[Rows][Outputs] = {};
    int64_t k = 0;
    for (; k + Lanes <= depth; k += Lanes) {
        Vec<Lanes> w[Outputs];
        for (int n = 0; n < Outputs; ++n) w[n] = load<Lanes>(weights + n * depth + k);
        for (int r = 0; r < Rows; ++r) {
            const Vec<Lanes> v = load<Lanes>(x + r * depth + k);
            for (int n = 0; n < Outputs; ++n) sums[r][n] += v * w[n];
        }
    }
    for (int r = 0; r < Rows; ++r) {
        for (int n = 0; n < Outputs; ++n) {
            float total = sum<Lanes>(sums[r][n]);
            for (int64_t rest = k; rest < depth; ++rest)
                total += to_float(weights[n * depth + rest]) * x[r * depth + rest];
            float& to = y[r * y_stride + n];
            to = accumulate ? to + total : total;
        }
    }
}

template <int Lanes, int Outputs, typename T>
NL_INLINE void all_rows(const T* weights, int64_t depth, const float* x, int64_t rows, float* y, int64_t y_stride,
                        bool accumulate) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
        block<Lanes, 4, Outputs>(weights, depth, x + r * depth, y + r * y_stride, y_stride, accumulate);
    for (; r + 2 <= rows; r += 2)
        block<Lanes, 2, Outputs>(weights, depth, x + r * depth, y + r * y_stride, y_stride, accumulate);
    if (r < rows) block<Lanes, 1, Outputs>(weights, depth, x + r * depth, y + r * y_stride, y_stride, accumulate);
}

template <int Lanes, typename T>
NL_INLINE void matvec_body(const T* weights, int64_t depth, const float* x, int64_t rows, int64_t first, int64_t last,
                           float* y, int64_t y_stride, bool accumulate) {
    int64_t n = first;
    for (; n + 4 <= last; n += 4) all_rows<Lanes, 4>(weights + n * depth, depth, x, rows, y + n, y_stride, accumulate);
    for (; n < last; ++n) all_rows<Lanes, 1>(weights + n * depth, depth, x, rows, y + n, y_stride, accumulate);
}

}  // namespace

NL_DISPATCH(matvec,
            (const float* weights, int64_t depth, const float* x, int64_t rows, int64_t first, int64_t last, float* y,
             int64_t y_stride, bool accumulate),
            (weights, depth, x, rows, first, last, y, y_stride, accumulate))
NL_DISPATCH(matvec,
            (const BFloat16* weights, int64_t depth, const float* x, int64_t rows, int64_t first, int64_t last,
             float* y, int64_t y_stride, bool accumulate),
            (weights, depth, x, rows, first, last, y, y_stride, accumulate))

}  // namespace nanolith::cpu
