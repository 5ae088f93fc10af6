#include "backend/compact_weight.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/weight_view.h"

namespace nanolith {
namespace {

constexpr float kMostInt8 = 127;
constexpr float kMost4Bits = 15;
constexpr float kMostE4M3 = 448;
constexpr int64_t kGroup = 32;

// Weights that share a scale and a minimum.
template <typename ValueOf>
void expand_group(const ScaleAndMin& of, const int8_t* codes, int64_t count, float row_scale, const ValueOf& value_of,
                  float* to) {
    for (int64_t i = 0; i < count; ++i) {
        const float product = of.scale * value_of(codes[i]);
        to[i] = row_scale * (product - of.min);
    }
}

// The largest |w|, 0 of none.
float most_of(const float* row, int64_t count) {
    float most = 0;
    for (int64_t i = 0; i < count; ++i) most = std::max(most, std::fabs(row[i]));
    return most;
}

// x / step rounded to nearest, ties to even, and brought into [least, most]; 0 where the step is 0.
int8_t code_of(float x, float step, float least, float most) {
    if (step == 0) return static_cast<int8_t>(std::clamp(0.0F, least, most));
    return static_cast<int8_t>(std::clamp(std::nearbyint(x / step), least, most));
}

// Calls work(group, its first weight, its weights) for the groups of a block.
template <typename Work>
void for_groups(int64_t count, const Work& work) {
    for (int64_t first = 0; first < count; first += kGroup)
        work(first / kGroup, first, std::min(kGroup, count - first));
}

// A power of two, so that the row's largest number divided by it is 2^13 to 2^14: groups that are a million times
// smaller have scales then that are normal numbers of float16.
float power_near(float most) {
    if (most == 0) return 1;
    int exponent = 0;
    std::frexp(most, &exponent);
    return std::ldexp(1.0F, std::max(exponent - 14, -126));
}

void quantise_int8(const float* row, int64_t count, float row_scale, CompactBlock& to) {
    for_groups(count, [&](int64_t group, int64_t first, int64_t size) {
        to.scales[group] = to_half(most_of(row + first, size) / row_scale / kMostInt8);
        const float scale = to_float(to.scales[group]);
        for (int64_t i = first; i < first + size; ++i)
            to.codes[i] = code_of(row[i] / row_scale, scale, -kMostInt8, kMostInt8);
    });
}

// Numbers of a block's groups, none negative, as 7 bits each of the largest.
void share(const float* numbers, Half& block, int8_t* factors) {
    const float most = *std::max_element(numbers, numbers + kCompactBlock / kGroup);
    block = to_half(most / kMostInt8);
    for (int64_t group = 0; group < kCompactBlock / kGroup; ++group)
        factors[group] = code_of(numbers[group], to_float(block), 0, kMostInt8);
}

void quantise_4_bits(const float* row, int64_t count, float row_scale, CompactBlock& to) {
    const CompactForm form = quantised_form(CodeKind::bits4);
    float steps[kCompactBlock / kGroup] = {};
    float mins[kCompactBlock / kGroup] = {};
    for_groups(count, [&](int64_t group, int64_t first, int64_t size) {
        mins[group] = -std::min(*std::min_element(row + first, row + first + size), 0.0F) / row_scale;
    });
    share(mins, to.min, to.min_factors);
    for_groups(count, [&](int64_t group, int64_t first, int64_t size) {
        const float high = std::max(*std::max_element(row + first, row + first + size), 0.0F) / row_scale;
        steps[group] = (high + scale_and_min(form, to, group).min) / kMost4Bits;
    });
    share(steps, to.scale, to.factors);
    for_groups(count, [&](int64_t group, int64_t first, int64_t size) {
        const auto [scale, min] = scale_and_min(form, to, group);
        for (int64_t i = first; i < first + size; ++i)
            to.codes[i] = code_of(row[i] / row_scale + min, scale, 0, kMost4Bits);
    });
}

void quantise_e4m3(const float* row, int64_t count, float row_scale, CompactBlock& to) {
    for (int64_t i = 0; i < count; ++i)
        to.codes[i] = static_cast<int8_t>(to_float8_e4m3(row_scale == 0 ? 0 : row[i] / row_scale).bits);
}

}  // namespace

double bits_of(const CompactForm& form) {
    const double code = form.codes == CodeKind::bits4 ? 4 : 8;
    const double stored = form.mins ? 2 : 1;  // scales, and minimums where there are any
    switch (form.scales) {
        case ScaleKind::none:
            return code;
        case ScaleKind::half:
            return code + stored * 16 / form.group;
        case ScaleKind::zeros:
            return code + 24.0 / form.group;
        case ScaleKind::two:
            break;
    }
    return code + stored * (8.0 / form.group + 16.0 / kCompactBlock);
}

ScaleAndMin scale_and_min(const CompactForm& form, const CompactBlock& block, int64_t group) {
    if (form.scales == ScaleKind::none) return {1, 0};
    if (form.scales == ScaleKind::half)
        return {to_float(block.scales[group]), form.mins ? to_float(block.mins[group]) : 0};
    if (form.scales == ScaleKind::zeros) {
        const float scale = to_float(block.scales[group]);
        return {scale, scale * static_cast<float>(block.min_factors[group])};
    }
    const float scale = to_float(block.scale) * static_cast<float>(block.factors[group]);
    const float min = form.mins ? to_float(block.min) * static_cast<float>(block.min_factors[group]) : 0;
    return {scale, min};
}

void expand_block(const CompactForm& form, const CompactBlock& block, float row_scale, int64_t first, int64_t count,
                  float* to) {
    for (int64_t done = 0; done < count;) {
        const int64_t i = first + done;
        const int64_t part = std::min(form.group - i % form.group, count - done);
        const ScaleAndMin of = scale_and_min(form, block, i / form.group);
        if (form.codes == CodeKind::e4m3) {
            const auto value = [](int8_t code) { return to_float(Float8E4M3{static_cast<uint8_t>(code)}); };
            expand_group(of, block.codes + i, part, row_scale, value, to + done);
        } else {
            const auto value = [&form](int8_t code) { return static_cast<float>(code - form.zero); };
            expand_group(of, block.codes + i, part, row_scale, value, to + done);
        }
        done += part;
    }
}

bool is_finite(const CompactForm& form, const CompactBlock& block) {
    const auto finite = [](Half half) { return (half.bits & 0x7C00U) != 0x7C00U; };
    if ((form.scales == ScaleKind::half || form.scales == ScaleKind::zeros) &&
        !std::ranges::all_of(block.scales, finite))
        return false;
    if (form.scales == ScaleKind::half && form.mins && !std::ranges::all_of(block.mins, finite)) return false;
    if (form.scales == ScaleKind::two && !(finite(block.scale) && (!form.mins || finite(block.min)))) return false;
    return form.codes != CodeKind::e4m3 ||
           std::ranges::none_of(block.codes, [](int8_t code) { return (code & 0x7F) == 0x7F; });
}

CompactForm quantised_form(CodeKind codes) {
    switch (codes) {
        case CodeKind::bits4:
            return {.codes = codes, .scales = ScaleKind::two, .group = kGroup, .mins = true};
        case CodeKind::int8:
            return {.codes = codes, .scales = ScaleKind::half, .group = kGroup};
        case CodeKind::e4m3:
            break;
    }
    return {.codes = codes, .scales = ScaleKind::none, .group = kCompactBlock};
}

float quantise_row(CodeKind codes, const float* row, int64_t cols, CompactBlock* blocks) {
    if (!std::all_of(row, row + cols, [](float number) { return std::isfinite(number); })) {
        std::fill_n(blocks, compact_blocks(cols), CompactBlock{});
        return std::numeric_limits<float>::quiet_NaN();
    }
    const float most = most_of(row, cols);
    const float row_scale = codes == CodeKind::e4m3 ? most / kMostE4M3 : power_near(most);
    for (int64_t first = 0; first < cols; first += kCompactBlock) {
        CompactBlock& block = blocks[first / kCompactBlock];
        block = {};
        const int64_t count = std::min(kCompactBlock, cols - first);
        switch (codes) {
            case CodeKind::bits4:
                quantise_4_bits(row + first, count, row_scale, block);
                break;
            case CodeKind::int8:
                quantise_int8(row + first, count, row_scale, block);
                break;
            case CodeKind::e4m3:
                quantise_e4m3(row + first, count, row_scale, block);
                break;
        }
    }
    return row_scale;
}

void CompactSource::read_rows(const WeightView& view, int64_t row, int64_t count, CompactBlock* to) const noexcept {
    const int64_t blocks = compact_blocks(view.cols);
    for (int64_t i = 0; i < count; ++i) read_blocks(view, row + i, 0, blocks, to + i * blocks);
}

}  // namespace nanolith
