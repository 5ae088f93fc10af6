// Tiling: a packed tile consists of panels of two vectors of outputs, [depth][2 * lanes]. Six rows of x pass over a
// panel at a time, each of their numbers broadcast: twelve multiply-adds for eight loads. A panel (16 KiB of 256 deep
// ones, with 8 lanes) stays in the first-level cache while all rows pass, the rows in the second. Bound by the
// multiply-add units.
//
// Packing transposes blocks of `lanes` words by `lanes` outputs in registers; two bfloat16 are one word until they are
// widened. It takes about half an instruction for each weight, beside one multiply-add for every 8 rows.
#include "backend/cpu/packed_products.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/simd.h"
#include "backend/cpu/tile_block.h"

namespace nanolith::cpu {
namespace {

// The widest panel of any instruction set.
constexpr int64_t kWidestPanel = 32;

// Of two rows of a matrix, blocks of Half words each: the even blocks of both (Odd 0), or the odd ones.
template <int Lanes, int Half, int Odd, int... Word>
NL_INLINE Words<Lanes> blocks_of(Words<Lanes> a, Words<Lanes> b, std::integer_sequence<int, Word...>) {
    return __builtin_shufflevector(a, b, ((Word & Half) != 0 ? Lanes + Word - (1 - Odd) * Half : Word + Odd * Half)...);
}

// Swaps the off-diagonal blocks of Half words, and then those of twice as many within the larger blocks.
template <int Lanes, int Half>
NL_INLINE void transpose(Words<Lanes> (&rows)[Lanes]) {
    if constexpr (Half < Lanes) {
        constexpr auto kWords = std::make_integer_sequence<int, Lanes>();
        NL_UNROLL for (int i = 0; i < Lanes; ++i) {
            if ((i & Half) != 0) continue;
            const Words<Lanes> a = rows[i];
            const Words<Lanes> b = rows[i + Half];
            rows[i] = blocks_of<Lanes, Half, 0>(a, b, kWords);
            rows[i + Half] = blocks_of<Lanes, Half, 1>(a, b, kWords);
        }
        transpose<Lanes, 2 * Half>(rows);
    }
}

// Stores the numbers of one word of each output, in the order of k.
template <int Lanes>
NL_INLINE void store_words(const float*, Words<Lanes> words, float* to) {
    store<Lanes>(to, reinterpret_cast<Vec<Lanes>>(words));
}
template <int Lanes>
NL_INLINE void store_words(const BFloat16*, Words<Lanes> words, float* to) {
    store<Lanes>(to, reinterpret_cast<Vec<Lanes>>(words << 16));
    store<Lanes>(to + 2 * Lanes, reinterpret_cast<Vec<Lanes>>(words & 0xFFFF0000U));
}

// One vector of outputs of a panel, of which `outputs` are there.
template <int Lanes, typename T>
NL_INLINE void pack_vector(const T* weights, int64_t stride, int64_t outputs, int64_t depth, float* to) {
    constexpr int64_t kPanel = 2 * Lanes;
    constexpr int64_t kNumbers = Lanes * static_cast<int64_t>(sizeof(float) / sizeof(T));  // of a vector of words
    int64_t k = 0;
    for (; outputs >= Lanes && k + kNumbers <= depth; k += kNumbers) {
        Words<Lanes> rows[Lanes];
        NL_UNROLL for (int n = 0; n < Lanes; ++n) std::memcpy(&rows[n], weights + n * stride + k, sizeof(rows[n]));
        transpose<Lanes, 1>(rows);
        NL_UNROLL for (int i = 0; i < Lanes; ++i)
            store_words<Lanes>(weights, rows[i], to + (k + i * (kNumbers / Lanes)) * kPanel);
    }
    for (; k < depth; ++k) {
        for (int64_t n = 0; n < Lanes; ++n) to[k * kPanel + n] = n < outputs ? to_float(weights[n * stride + k]) : 0.0F;
    }
}

template <int Lanes, typename T>
NL_INLINE void pack_body(const T* weights, int64_t stride, int64_t outputs, int64_t depth, float* to) {
    constexpr int64_t kPanel = 2 * Lanes;
    for (int64_t n = 0; n < outputs; n += kPanel) {
        for (int64_t half = 0; half < kPanel; half += Lanes)
            pack_vector<Lanes>(weights + (n + half) * stride, stride, outputs - n - half, depth, to + n * depth + half);
    }
}

// Rows of x by one panel, of which `outputs` are there.
template <int Lanes, int Rows>
NL_INLINE void panel_rows(const PackedProduct& of, const float* panel, const float* x, int64_t rows, int64_t outputs,
                          float* y) {
    constexpr int64_t kPanel = 2 * Lanes;
    int64_t row = 0;
    for (; row + Rows <= rows; row += Rows) {
        const float* const from = x + row * of.x_stride;
        float* const to = y + row * of.y_stride;
        if (outputs >= kPanel) {
            product_block<Lanes, Rows, 2>(from, of.x_stride, panel, kPanel, of.depth, of.accumulate, to, of.y_stride);
            continue;
        }
        float whole[Rows * kPanel] = {};
        for (int r = 0; r < Rows; ++r) std::copy_n(to + r * of.y_stride, outputs, whole + r * kPanel);
        product_block<Lanes, Rows, 2>(from, of.x_stride, panel, kPanel, of.depth, of.accumulate, whole, kPanel);
        for (int r = 0; r < Rows; ++r) std::copy_n(whole + r * kPanel, outputs, to + r * of.y_stride);
    }
    if constexpr (Rows > 1) {
        if (row < rows)
            panel_rows<Lanes, Rows - 1>(of, panel, x + row * of.x_stride, rows - row, outputs, y + row * of.y_stride);
    }
}

template <int Lanes>
NL_INLINE void packed_product_body(const PackedProduct& of, int64_t rows) {
    constexpr int64_t kPanel = 2 * Lanes;
    static_assert(kPanel <= kWidestPanel);
    for (int64_t n = 0; n < of.outputs; n += kPanel)
        panel_rows<Lanes, kBlockRows>(of, of.packed + n * of.depth, of.x, rows, of.outputs - n, of.y + n);
}

}  // namespace

int64_t packed_size(int64_t outputs, int64_t depth) {
    return (outputs + kWidestPanel - 1) / kWidestPanel * kWidestPanel * depth;
}

int64_t panel_outputs() {
    switch (simd_level()) {
        case SimdLevel::v4:
            return 32;
        case SimdLevel::v3:
            return 16;
        case SimdLevel::any:
            break;
    }
    return 8;
}

NL_DISPATCH(pack, (const float* weights, int64_t stride, int64_t outputs, int64_t depth, float* to),
            (weights, stride, outputs, depth, to))
NL_DISPATCH(pack, (const BFloat16* weights, int64_t stride, int64_t outputs, int64_t depth, float* to),
            (weights, stride, outputs, depth, to))
NL_DISPATCH(packed_product, (const PackedProduct& of, int64_t rows), (of, rows))

}  // namespace nanolith::cpu
