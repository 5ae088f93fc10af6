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

// Of 16 codes of a row, those that lane c has: codes 2 c, 2 c + 8, 2 c + 1 and 2 c + 9, a byte each from the lowest on.
// `mask`: the bits of a code.
uint32_t codes_of_lane(const uint64_t (&codes)[2], int c, uint32_t mask) {
    const auto two = [&](uint64_t eight) {
        const auto pair = static_cast<uint32_t>(eight >> (16 * c));
        return (pair & mask) | (pair & mask << 8U) << 8U;
    };
    return two(codes[0]) | two(codes[1]) << 8U;
}

// The codes of 64 columns of a row.
void put_line(const CompactLayout& layout, const int8_t* codes, int row, std::byte* line) {
    const bool is_4_bits = layout.codes == CodeKind::bits4;
    for (int step = 0; step < 4; ++step) {
        uint64_t of_step[2];
        std::memcpy(of_step, codes + 16 * step, sizeof of_step);
        for (int c = 0; c < 4; ++c) {
            std::byte* const of_lane = line + (row % 8 * 4 + c) * 16;
            const uint32_t four = codes_of_lane(of_step, c, is_4_bits ? 0x0FU : 0xFFU);
            if (!is_4_bits) {
                put(four, of_lane + step / 2 * 512 + step % 2 * 8 + row / 8 * 4);
                continue;
            }
            // Two rows share the word: rows 8 to 15 have the upper four bits of each byte.
            uint32_t word = 0;
            std::memcpy(&word, of_lane + step * 4, sizeof word);
            put(word | std::rotl(four << (row / 8 * 4), kBits4Turn), of_lane + step * 4);
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
