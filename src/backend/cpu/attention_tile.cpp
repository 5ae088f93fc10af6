// tile_product keeps 4 rows by 4 vectors of c in registers (4 by 2 with 8 lanes or fewer) and reads b row by row,
// converting it on the way: 16 multiply-adds for 8 loads. Bound by the multiply-add units; b (a tile of keys or of
// values, 16 to 32 KiB) stays in the first two cache levels while the rows pass over it.
#include "backend/cpu/attention_tile.h"

#include <cmath>
#include <limits>

#include "backend/cpu/simd.h"

namespace nanolith::cpu {
namespace {

template <int Lanes, int Rows, int Vectors, typename T>
NL_INLINE void product_block(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t depth,
                             bool accumulate, float* c, int64_t c_stride) {
    Vec<Lanes> sums[Rows][Vectors] = {};
    if (accumulate) {
        for (int m = 0; m < Rows; ++m) {
            for (int v = 0; v < Vectors; ++v) sums[m][v] = load<Lanes>(c + m * c_stride + v * Lanes);
        }
    }
    for (int64_t k = 0; k < depth; ++k) {
        Vec<Lanes> values[Vectors];
        for (int v = 0; v < Vectors; ++v) values[v] = load<Lanes>(b + k * b_stride + v * Lanes);
        for (int m = 0; m < Rows; ++m) {
            const float factor = a[m * a_stride + k];
            for (int v = 0; v < Vectors; ++v) sums[m][v] += factor * values[v];
        }
    }
    for (int m = 0; m < Rows; ++m) {
        for (int v = 0; v < Vectors; ++v) store<Lanes>(c + m * c_stride + v * Lanes, sums[m][v]);
    }
}

template <int Lanes, int Rows, typename T>
NL_INLINE void product_rows(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t columns,
                            int64_t depth, bool accumulate, float* c, int64_t c_stride) {
    constexpr int kVectors = Lanes == 16 ? 4 : 2;
    int64_t n = 0;
    for (; n + kVectors * Lanes <= columns; n += kVectors * Lanes)
        product_block<Lanes, Rows, kVectors>(a, a_stride, b + n, b_stride, depth, accumulate, c + n, c_stride);
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

template <int Lanes, typename T>
NL_INLINE void tile_product_body(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t rows,
                                 int64_t columns, int64_t depth, bool accumulate, float* c, int64_t c_stride) {
    int64_t m = 0;
    for (; m + 4 <= rows; m += 4)
        product_rows<Lanes, 4>(a + m * a_stride, a_stride, b, b_stride, columns, depth, accumulate, c + m * c_stride,
                               c_stride);
    for (; m < rows; ++m)
        product_rows<Lanes, 1>(a + m * a_stride, a_stride, b, b_stride, columns, depth, accumulate, c + m * c_stride,
                               c_stride);
}

template <int Lanes, typename T>
NL_INLINE void dot_scores_body(const float* queries, int64_t num_queries, const T* keys, int64_t num_keys, int64_t dim,
                               float* scores, int64_t score_stride) {
    for (int64_t t = 0; t < num_keys; ++t) {
        const T* key = keys + t * dim;
        for (int64_t q = 0; q < num_queries; ++q) {
            const float* query = queries + q * dim;
            Vec<Lanes> sums{};
            int64_t i = 0;
            for (; i + Lanes <= dim; i += Lanes) sums += load<Lanes>(query + i) * load<Lanes>(key + i);
            float total = sum<Lanes>(sums);
            for (; i < dim; ++i) total += query[i] * to_float(key[i]);
            scores[q * score_stride + t] = total;
        }
    }
}

template <int Lanes, typename T>
NL_INLINE void scale_row_body(const float* x, float factor, int64_t size, T* y) {
    int64_t i = 0;
    for (; i + Lanes <= size; i += Lanes) store<Lanes>(y + i, load<Lanes>(x + i) * factor);
    for (; i < size; ++i) y[i] = from_float<T>(x[i] * factor);
}

template <int Lanes>
NL_INLINE void softmax_tile_body(float* scores, int64_t visible, int64_t count, float* highest, float* total,
                                 float* sums, int64_t dim) {
    float top = *highest;
    for (int64_t t = 0; t < visible; ++t) top = scores[t] > top ? scores[t] : top;
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
             int64_t depth, bool accumulate, float* c, int64_t c_stride),
            (a, a_stride, b, b_stride, rows, columns, depth, accumulate, c, c_stride))
NL_DISPATCH(tile_product,
            (const float* a, int64_t a_stride, const BFloat16* b, int64_t b_stride, int64_t rows, int64_t columns,
             int64_t depth, bool accumulate, float* c, int64_t c_stride),
            (a, a_stride, b, b_stride, rows, columns, depth, accumulate, c, c_stride))
NL_DISPATCH(dot_scores,
            (const float* queries, int64_t num_queries, const float* keys, int64_t num_keys, int64_t dim, float* scores,
             int64_t score_stride),
            (queries, num_queries, keys, num_keys, dim, scores, score_stride))
NL_DISPATCH(dot_scores,
            (const float* queries, int64_t num_queries, const BFloat16* keys, int64_t num_keys, int64_t dim,
             float* scores, int64_t score_stride),
            (queries, num_queries, keys, num_keys, dim, scores, score_stride))
NL_DISPATCH(softmax_tile,
            (float* scores, int64_t visible, int64_t count, float* highest, float* total, float* sums, int64_t dim),
            (scores, visible, count, highest, total, sums, dim))
NL_DISPATCH(scale_row, (const float* x, float factor, int64_t size, float* y), (x, factor, size, y))
NL_DISPATCH(scale_row, (const float* x, float factor, int64_t size, BFloat16* y), (x, factor, size, y))

}  // namespace nanolith::cpu
