#include "backend/cpu/compact_matrix.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backend/compact_reader.h"

namespace nanolith::cpu {
namespace {

// The group of the source that a stored group is a part of.
int64_t source_group(const CompactForm& form, int64_t group) {
    return group * stored_group(form) / form.group;
}

template <typename T>
void put(const T& value, std::byte* to) {
    std::memcpy(to, &value, sizeof(value));
}

// Stores one number for each group of a row, which is row `lane` of its strip. Returns the address behind the numbers
// of all 16 rows.
template <typename T>
std::byte* store_groups(const CompactForm& form, const T* numbers, int64_t groups, int64_t lane, std::byte* to) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    for (int64_t group = 0; group < groups; ++group)
        put(numbers[source_group(form, group)], to + (group * kStrip + lane) * kSize);
    return to + groups * kStrip * kSize;
}

void store_scales(const CompactForm& form, const CompactBlock& block, int64_t groups, int64_t lane, std::byte* to) {
    constexpr auto kHalf = static_cast<int64_t>(sizeof(Half));
    if (form.scales == ScaleKind::half) {
        to = store_groups(form, block.scales, groups, lane, to);
        if (form.mins) store_groups(form, block.mins, groups, lane, to);
    } else if (form.scales == ScaleKind::zeros) {
        to = store_groups(form, block.scales, groups, lane, to);
        store_groups(form, block.min_factors, groups, lane, to);
    } else if (form.scales == ScaleKind::two) {
        put(block.scale, to + lane * kHalf);
        put(form.mins ? block.min : Half{}, to + (kStrip + lane) * kHalf);
        to = store_groups(form, block.factors, groups, lane, to + 2 * kStrip * kHalf);
        if (form.mins) store_groups(form, block.min_factors, groups, lane, to);
    }
}

// The word of a line that has a row's codes from `codes` on.
uint32_t word_of(CodeKind kind, const int8_t* codes) {
    uint32_t first = 0;
    std::memcpy(&first, codes, sizeof(first));
    if (kind == CodeKind::e4m3) return first;
    if (kind == CodeKind::int8) return first ^ 0x80808080U;
    uint32_t second = 0;
    std::memcpy(&second, codes + 4, sizeof(second));
    return (first & 0x0F0F0F0FU) | (second & 0x0F0F0F0FU) << 4U;
}

// Stores the first `columns` columns of a row's block. `to` is the block of the whole strip, of which the row is row
// `lane`.
void store_block(const CompactForm& form, const CompactBlock& block, int64_t columns, int64_t lane, std::byte* to) {
    const int64_t groups = columns / stored_group(form);
    store_scales(form, block, groups, lane, to);
    to += scale_bytes(form, groups) + lane * static_cast<int64_t>(sizeof(uint32_t));
    for (int64_t k = 0; k < columns; k += line_columns(form.codes), to += kLine)
        put(word_of(form.codes, block.codes + k), to);
}

// Reads the row of this output and stores it in its strip, which begins at `strip`. Gives the row's scale.
float load_compact_row(CompactReader& reader, const CompactForm& form, int64_t depth, int64_t output,
                       std::byte* strip) {
    const float scale = reader.read(output);
    int64_t first = 0;
    for (const CompactBlock& block : reader.blocks()) {
        const int64_t size = block_size(depth, first / kCompactBlock);
        store_block(form, block, size, output % kStrip, strip);
        strip += block_bytes(form, size);
        first += kCompactBlock;
    }
    return scale;
}

template <typename T>
T get(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

// Reads one row of a block of a strip, number by number, from where store_block() stored it.
class StoredBlock {
  public:
    StoredBlock(const CompactForm& form, const std::byte* block, int64_t columns, int64_t lane)
        : form_(form),
          groups_(columns / stored_group(form)),
          lane_(lane),
          scales_(block),
          codes_(block + scale_bytes(form, groups_)) {}

    [[nodiscard]] float scale(int64_t group) const {
        if (form_.scales == ScaleKind::none) return 1;
        if (form_.scales != ScaleKind::two) return half(group);
        return half(0) * static_cast<float>(factor(4, group));
    }
    [[nodiscard]] float min(int64_t group) const {
        if (!form_.mins) return 0;
        if (form_.scales == ScaleKind::half) return half(groups_ + group);
        if (form_.scales == ScaleKind::zeros) return half(group) * static_cast<float>(factor(2 * groups_, group));
        return half(1) * static_cast<float>(factor(4, groups_ + group));
    }
    // A code without its zero.
    [[nodiscard]] float code(int64_t column) const {
        const int64_t columns = line_columns(form_.codes);
        const int64_t place = column % columns;
        const auto byte = get<uint8_t>(codes_ + column / columns * kLine + lane_ * 4 + place % 4);
        const auto zero = static_cast<float>(form_.zero);
        switch (form_.codes) {
            case CodeKind::bits4:
                return static_cast<float>(place < 4 ? byte & 15 : byte >> 4) - zero;
            case CodeKind::int8:
                return static_cast<float>(byte - kInt8Zero) - zero;
            case CodeKind::e4m3:
                break;
        }
        return to_float(Float8E4M3{byte});
    }

  private:
    [[nodiscard]] float half(int64_t i) const { return to_float(get<Half>(scales_ + 2 * (i * kStrip + lane_))); }
    // The row's int8 number i of an array [][16] that stands behind `bytes_before` bytes for each of the 16 rows.
    [[nodiscard]] int8_t factor(int64_t bytes_before, int64_t i) const {
        return get<int8_t>(scales_ + (bytes_before + i) * kStrip + lane_);
    }

    const CompactForm& form_;
    const int64_t groups_;
    const int64_t lane_;
    const std::byte* const scales_;
    const std::byte* const codes_;
};

void expand_row_of(const CompactRows& of, int64_t row, float* to) {
    const std::byte* at = of.strips.data() + row / kStrip * strip_bytes(of.form, of.depth);
    const float row_scale = of.scales.data()[row];
    for (int64_t k = 0; k < of.depth; k += kCompactBlock) {
        const int64_t size = block_size(of.depth, k / kCompactBlock);
        const StoredBlock block(of.form, at, size, row % kStrip);
        const int64_t group_size = stored_group(of.form);
        for (int64_t first = 0; first < std::min(size, of.depth - k); first += group_size) {
            const float scale = block.scale(first / group_size);
            const float min = block.min(first / group_size);
            const int64_t end = std::min(first + group_size, of.depth - k);
            for (int64_t i = first; i < end; ++i) to[k + i] = row_scale * (scale * block.code(i) - min);
        }
        at += block_bytes(of.form, size);
    }
}

}  // namespace

uint64_t compact_bytes(const CompactForm& form, int64_t outputs, int64_t depth) {
    return saturating_product(
        {strips_of(outputs), strip_bytes(form, depth) + kStrip * static_cast<int64_t>(sizeof(float))});
}

Result<CompactRows> load_compact(const std::string& name, const WeightView& weight, const CompactForm& form,
                                 ThreadPool& pool) {
    CompactRows to{.form = form, .outputs = weight.rows, .depth = weight.cols, .strips = {}, .scales = {}};
    const int64_t stride = strip_bytes(form, weight.cols);
    const int64_t strips = strips_of(weight.rows);
    NL_ASSIGN(to.strips, Buffer<std::byte>::allocate("weight " + name, {strips, stride}));
    NL_ASSIGN(to.scales, Buffer<float>::allocate("the scales of weight " + name, {strips, kStrip}));
    std::vector<CompactReader> readers(static_cast<size_t>(pool.num_threads()), CompactReader(weight, form, kStrip));
    pool.run(strips, cost_of_bytes(weight.rows * weight.cols * 8), [&](int64_t strip, int32_t thread) {
        std::byte* const at = to.strips.data() + strip * stride;
        const int64_t first = strip * kStrip;
        const int64_t rows = std::min(kStrip, weight.rows - first);
        if (rows < kStrip) std::fill_n(at, stride, std::byte{});
        std::fill_n(to.scales.data() + first, kStrip, 0.0F);
        CompactReader& reader = readers[static_cast<size_t>(thread)];
        for (int64_t row = first; row < first + rows; ++row)
            to.scales.data()[row] = load_compact_row(reader, form, weight.cols, row, at);
    });
    return to;
}

void expand_row(const std::vector<CompactRows>& parts, int64_t row, float* to) {
    for (const CompactRows& part : parts) {
        if (row < part.outputs) return expand_row_of(part, row, to);
        row -= part.outputs;
    }
}

}  // namespace nanolith::cpu
