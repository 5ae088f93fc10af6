// Tiling: a vector holds one column of `Lanes` rows of a strip, and is stored as such, since panels are stored column
// after column. A vector takes about ten instructions (shift, mask, convert, three operations of the formula, round).
// A line of 64 bytes of codes becomes 128 to 512 bytes of weights. Bound by the instructions.
#include "backend/cpu/compact_expand.h"

#include <algorithm>

#include "backend/cpu/compact_strip.h"
#include "backend/cpu/simd.h"

namespace nanolith::cpu {
namespace {

// The memory that a tile is widened to, as compact_expand.h describes it.
template <typename T>
struct Panels {
    T* to = nullptr;
    int64_t count = 0;  // rows
    int64_t depth = 0;
    int64_t width = 0;

    [[nodiscard]] T* at(int64_t row, int64_t column) const {
        return to + row / width * width * depth + column * width + row % width;
    }
};

// Stores one column of the `Lanes` rows from `row` on. Of these, rows that are not in [0, count) are left out.
template <int Lanes, typename T>
NL_INLINE void store_column(const Panels<T>& panels, int64_t row, int64_t column, Vec<Lanes> values) {
    if (row >= 0 && row % Lanes == 0 && row + Lanes <= panels.count) {
        store<Lanes>(panels.at(row, column), values);
        return;
    }
    T some[Lanes];
    store<Lanes>(some, values);
    for (int lane = 0; lane < Lanes; ++lane) {
        if (row + lane >= 0 && row + lane < panels.count) *panels.at(row + lane, column) = some[lane];
    }
}

// What expand_piece() widens: the first `columns` columns of a block, for as many rows of the strip as a vector has
// lanes.
struct Piece {
    const std::byte* block = nullptr;
    int64_t groups = 0;   // that the block has
    int64_t columns = 0;  // that are widened
    int64_t lane = 0;     // the first row, counted from the strip's first
    int64_t row = 0;      // the same row, counted from the tile's first
    int64_t k = 0;        // the block's first column, counted from the tile's first
};

template <int Lanes, CodeKind Kind, typename T>
NL_INLINE void expand_piece(const CompactForm& form, const Piece& of, Vec<Lanes> row_scales, const Panels<T>& panels) {
    constexpr auto kColumns = static_cast<int>(line_columns(Kind));
    const auto zero = static_cast<float>(form.zero);
    const int64_t group_size = stored_group(form);
    const std::byte* line = of.block + scale_bytes(form, of.groups) + 4 * of.lane;
    Vec<Lanes> scales{};
    Vec<Lanes> mins{};
    for (int64_t i = 0; i < of.columns; i += kColumns, line += kLine) {
        if (i % group_size == 0) {
            scales = group_scales<Lanes>(form, of.block, i / group_size, of.lane);
            if (form.mins) mins = group_mins<Lanes>(form, of.block, of.groups, i / group_size, of.lane);
        }
        const auto words = load_as<Words<Lanes>>(line);
        NL_UNROLL for (int column = 0; column < kColumns; ++column) {
            if (i + column >= of.columns) break;
            const Vec<Lanes> codes = codes_of_column<Lanes, Kind>(words, column) - zero;
            store_column<Lanes>(panels, of.row, of.k + i + column, row_scales * (scales * codes - mins));
        }
    }
}

// Widens one block of a strip: the columns of the tile from `k` on. `row` is the strip's first row, counted from the
// tile's first; it is negative where the strip begins before the tile.
template <int Lanes, typename T>
NL_INLINE void expand_block(const CompactRows& of, int64_t strip, int64_t row, int64_t from, int64_t k,
                            const Panels<T>& panels) {
    const int64_t size = block_size(of.depth, (from + k) / kCompactBlock);
    const std::byte* const block = of.strips.data() + strip * strip_bytes(of.form, of.depth) +
                                   (from + k) / kCompactBlock * block_bytes(of.form, kCompactBlock);
    for (int64_t lane = 0; lane < kStrip; lane += Lanes) {
        if (row + lane + Lanes <= 0 || row + lane >= panels.count) continue;
        const Piece piece{.block = block,
                          .groups = size / stored_group(of.form),
                          .columns = std::min(size, panels.depth - k),
                          .lane = lane,
                          .row = row + lane,
                          .k = k};
        const Vec<Lanes> scales = load<Lanes>(of.scales.data() + strip * kStrip + lane);
        switch (of.form.codes) {
            case CodeKind::bits4:
                expand_piece<Lanes, CodeKind::bits4>(of.form, piece, scales, panels);
                break;
            case CodeKind::int8:
                expand_piece<Lanes, CodeKind::int8>(of.form, piece, scales, panels);
                break;
            case CodeKind::e4m3:
                expand_piece<Lanes, CodeKind::e4m3>(of.form, piece, scales, panels);
                break;
        }
    }
}

template <typename T>
void fill_last_panel(const Panels<T>& panels) {
    const int64_t there = panels.count % panels.width;
    if (there == 0) return;
    for (int64_t k = 0; k < panels.depth; ++k) std::fill_n(panels.at(panels.count, k), panels.width - there, T{});
}

// Widens what the tile has of one part. `first` is the tile's first row, counted from the part's first.
template <int Lanes, typename T>
NL_INLINE void expand_part_body(const CompactRows& of, int64_t first, int64_t from, const Panels<T>& panels) {
    const int64_t last = std::min(of.outputs, first + panels.count);
    // All strips of a block before the next block, so that what is written stays near.
    for (int64_t k = 0; k < panels.depth; k += kCompactBlock) {
        for (int64_t strip = std::max(first, int64_t{0}) / kStrip; strip * kStrip < last; ++strip)
            expand_block<Lanes>(of, strip, strip * kStrip - first, from, k, panels);
    }
}
NL_DISPATCH(expand_part, (const CompactRows& of, int64_t first, int64_t from, const Panels<float>& panels),
            (of, first, from, panels))
NL_DISPATCH(expand_part, (const CompactRows& of, int64_t first, int64_t from, const Panels<BFloat16>& panels),
            (of, first, from, panels))

template <typename T>
void expand_parts(const std::vector<CompactRows>& parts, int64_t first, int64_t from, const Panels<T>& panels) {
    for (const CompactRows& part : parts) {
        if (first < part.outputs && first + panels.count > 0) expand_part(part, first, from, panels);
        first -= part.outputs;
    }
    fill_last_panel(panels);
}

}  // namespace

void expand_tile(const std::vector<CompactRows>& parts, int64_t first, int64_t count, int64_t from, int64_t depth,
                 int64_t width, float* to) {
    expand_parts<float>(parts, first, from, {to, count, depth, width});
}
void expand_tile(const std::vector<CompactRows>& parts, int64_t first, int64_t count, int64_t from, int64_t depth,
                 int64_t width, BFloat16* to) {
    expand_parts<BFloat16>(parts, first, from, {to, count, depth, width});
}

}  // namespace nanolith::cpu
