#include "compact/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace nanolith::cuda {

namespace {

template <typename T>
void put(T value, std::byte* to) {
    std::memcpy(to, &value, sizeof value);
}

// Writes a number for each group of the row: convert(the form's number).
template <typename T, typename Convert>
void put_groups(const CompactForm& form, const CompactLayout& layout, const T* numbers, int columns, int row,
                const Convert& convert, std::byte* to) {
    using Stored = decltype(convert(*numbers));
    for (int group = 0; group < columns / layout.group; ++group) {
        const T number = numbers[group * layout.group / form.group];
        put(convert(number), to + (row * layout.groups() + group) * static_cast<int>(sizeof(Stored)));
    }
}

void put_scales(const CompactForm& form, const CompactBlock& block, float row_scale, int columns, int row,
                std::byte* to) {
    const CompactLayout layout(form);
    std::byte* const of_row = to + 4 * row;
    const auto as_half = [](Half half) { return half.bits; };
    const auto as_it_is = [](int8_t factor) { return factor; };
    switch (form.scales) {
        case ScaleKind::none:
            return put(row_scale, of_row);
        case ScaleKind::half:
            put(row_scale, of_row);
            put_groups(form, layout, block.scales, columns, row, as_half, to + layout.group_scales());
            if (form.mins) put_groups(form, layout, block.mins, columns, row, as_half, to + layout.group_mins());
            return;
        case ScaleKind::zeros:
            put(row_scale, of_row);
            put_groups(form, layout, block.scales, columns, row, as_half, to + layout.group_scales());
            return put_groups(form, layout, block.min_factors, columns, row, as_it_is, to + layout.group_mins());
        case ScaleKind::two:
            break;
    }
    put(row_scale * to_float(block.scale), of_row);
    const auto biased = [](int8_t factor) { return static_cast<uint8_t>(factor + kFactorZero); };
    put_groups(form, layout, block.factors, columns, row, biased, to + layout.group_scales());
    if (!form.mins) return;
    put(row_scale * to_float(block.min), of_row + layout.row_mins());
    put_groups(form, layout, block.min_factors, columns, row, as_it_is, to + layout.group_mins());
}

// Adds four codes of a row to a step's word of 4-bit codes. Those of rows 8 to 15 are 4 bits further.
void add_bits4(const int8_t* codes, int row, std::byte* word) {
    uint32_t bits = 0;
    for (int j = 0; j < 4; ++j) {
        const int place = 8 * (j / 2) + 16 * (j % 2) + (row < kCompactTile / 2 ? 0 : 4);
        bits |= (static_cast<uint32_t>(codes[j]) & 15U) << place;
    }
    uint32_t before = 0;
    std::memcpy(&before, word, sizeof before);
    put(before | std::rotl(bits, kBits4Turn), word);
}

// The codes of 64 columns of a row.
void put_line(const CompactLayout& layout, const int8_t* codes, int row, std::byte* line) {
    for (int step = 0; step < 4; ++step) {
        for (int c = 0; c < 4; ++c) {
            const int lane = row % 8 * 4 + c;
            const int8_t* const of_lane = codes + 16 * step + 2 * c;
            const int8_t four[4] = {of_lane[0], of_lane[1], of_lane[8], of_lane[9]};
            if (layout.codes == CodeKind::bits4) {
                add_bits4(four, row, line + lane * 16 + step * 4);
                continue;
            }
            const int8_t ordered[4] = {four[0], four[2], four[1], four[3]};
            std::memcpy(line + step / 2 * 512 + lane * 16 + step % 2 * 8 + row / 8 * 4, ordered, sizeof ordered);
        }
    }
}

}  // namespace

void pack_row(const CompactForm& form, std::span<const CompactBlock> blocks, float row_scale, int size, int row,
              std::byte* tile) {
    const CompactLayout layout(form);
    const int padded = (size + kCompactUnit - 1) / kCompactUnit * kCompactUnit;
    for (int first = 0; first < padded; first += kCompactColumns) {
        const CompactBlock& block = blocks[static_cast<size_t>(first / kCompactColumns)];
        const int columns = std::min(kCompactColumns, padded - first);
        put_scales(form, block, row_scale, columns, row, tile);
        std::byte* line = tile + layout.code_offset();
        for (int column = 0; column < columns; column += kCompactUnit, line += layout.line_bytes()) {
            put_line(layout, block.codes + column, row, line);
        }
        tile += layout.block_bytes(columns);
    }
}

}  // namespace nanolith::cuda
