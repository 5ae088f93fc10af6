// tile_product keeps six rows by two vectors of c in registers and reads b row by row, converting it on the way: twelve
// multiply-adds for eight loads. Fewer rows take more vectors, so that as many sums are under way. Bound by the
// multiply-add units; b (a tile of values, 16 to 32 KiB) stays in the first two cache levels while the rows pass over
// it.
#include "backend/cpu/attention_tile.h"

#include <cmath>
#include <limits>

#include "backend/cpu/simd.h"
#include "backend/cpu/tile_block.h"

namespace nanolith::cpu {
namespace {

template <int Lanes, int Rows, typename T>
NL_INLINE void product_rows(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t columns,
                            int64_t depth, bool accumulate, float* c, int64_t c_stride, const T* next) {
    constexpr int kVectors = Rows > 2 ? 2 : 8 / Rows;
    int64_t n = 0;
    for (; n + kVectors * Lanes <= columns; n += kVectors * Lanes)
        product_block<Lanes, Rows, kVectors>(a, a_stride, b + n, b_stride, depth, accumulate, c + n, c_stride,
                                             next == nullptr ? next : next + n);
    for (; n + Lanes <= columns; n += Lanes)
        product_block<Lanes, Rows, 1>(a, a_stride, b + n, b_stride, depth, accumulate, c + n, c_stride);
    for (; n < columns; ++n) {
        for (int m = 0; m < Rows; ++m) {
            float total = accumulate ? c[m * c_stride + n] : 0.0F;
            for (int64_t k = 0; k < depth; ++k) total += a[m * a_stride + k] * to_float(b[k * b_stride + n]);
            c[m * c_stride + n] = total;
        }
    }
}

// Rows at a time, and then the rest.
template <int Lanes, int Rows, typename T>
NL_INLINE void all_rows(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t rows, int64_t columns,
                        int64_t depth, bool accumulate, float* c, int64_t c_stride, const T* next) {
    int64_t m = 0;
    for (; m + Rows <= rows; m += Rows)
        product_rows<Lanes, Rows>(a + m * a_stride, a_stride, b, b_stride, columns, depth, accumulate, c + m * c_stride,
                                  c_stride, m == 0 ? next : nullptr);
    if constexpr (Rows > 1) {
        if (m < rows)
            all_rows<Lanes, Rows - 1>(a + m * a_stride, a_stride, b, b_stride, rows - m, columns, depth, accumulate,
                                      c + m * c_stride, c_stride, m == 0 ? next : nullptr);
    }
}

template <int Lanes, typename T>
NL_INLINE void tile_product_body(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t rows,
                                 int64_t columns, int64_t depth, bool accumulate, float* c, int64_t c_stride,
                                 const T* next) {
    all_rows<Lanes, kBlockRows>(a, a_stride, b, b_stride, rows, columns, depth, accumulate, c, c_stride, next);
}

template <int Lanes, typename T>
NL_INLINE void scale_row_body(const float* x, float factor, int64_t size, T* y) {
    int64_t i = 0;
    for (; i + Lanes <= size; i += Lanes) store<Lanes>(y + i, load<Lanes>(x + i) * factor);
    for (; i < size; ++i) y[i] = from_float<T>(x[i] * factor);
}

// Minus infinity where there is none; NaN counts for nothing.
template <int Lanes>
NL_INLINE float highest_of(const float* scores, int64_t count) {
    Vec<Lanes> tops = broadcast<Lanes>(-std::numeric_limits<float>::infinity());
    int64_t t = 0;
    for (; t + Lanes <= count; t += Lanes) {
        const Vec<Lanes> some = load<Lanes>(scores + t);
        tops = some > tops ? some : tops;
    }
    float top = -std::numeric_limits<float>::infinity();
    for (int i = 0; i < Lanes; ++i) top = tops[i] > top ? tops[i] : top;
    for (; t < count; ++t) top = scores[t] > top ? scores[t] : top;
    return top;
}

template <int Lanes>
NL_INLINE void softmax_tile_body(float* scores, int64_t visible, int64_t count, float* highest, float* total,
                                 float* sums, int64_t dim) {
    const float top_score = highest_of<Lanes>(scores, visible);
    float top = top_score > *highest ? top_score : *highest;
    if (top > *highest) {  // exp(-inf - top) is 0: the first tile clears nothing but zeros
        const float shrink = std::exp(*highest - top);
        *total *= shrink;
        scale_row_body<Lanes>(sums, shrink, dim, sums);
        *highest = top;
    }
    if (top == -std::numeric_limits<float>::infinity()) top = 0;  // no numbers so far, but there may be NaN
    Vec<Lanes> masses{};
    int64_t t = 0;
    for (; t + Lanes <= visible; t += Lanes) {
        const Vec<Lanes> mass = exp<Lanes>(load<Lanes>(scores + t) - top);
        masses += mass;
        store<Lanes>(scores + t, mass);
    }
    *total += sum<Lanes>(masses);
    for (; t < visible; ++t) {
        scores[t] = std::exp(scores[t] - top);
        *total += scores[t];
    }
    for (; t < count; ++t) scores[t] = 0;
}

}  // namespace

NL_DISPATCH(tile_product,
            (const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t rows, int64_t columns,
             int64_t depth, bool accumulate, float* c, int64_t c_stride, const float* next),
            (a, a_stride, b, b_stride, rows, columns, depth, accumulate, c, c_stride, next))
NL_DISPATCH(tile_product,
            (const float* a, int64_t a_stride, const BFloat16* b, int64_t b_stride, int64_t rows, int64_t columns,
             int64_t depth, bool accumulate, float* c, int64_t c_stride, const BFloat16* next),
            (a, a_stride, b, b_stride, rows, columns, depth, accumulate, c, c_stride, next))
NL_DISPATCH(softmax_tile,
            (float* scores, int64_t visible, int64_t count, float* highest, float* total, float* sums, int64_t dim),
            (scores, visible, count, highest, total, sums, dim))
NL_DISPATCH(scale_row, (const float* x, float factor, int64_t size, float* y), (x, factor, size, y))
NL_DISPATCH(scale_row, (const float* x, float factor, int64_t size, BFloat16* y), (x, factor, size, y))

}  // namespace nanolith::cpu
