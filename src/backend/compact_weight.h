// Compact weights: 8 or 4 bits each, with scales along a row. Every quantised source (a file's blocks, or 16-bit
// weights that are quantised while they are loaded) is read as these, and each backend lays them out as its kernels
// read them.
//
// A row of a matrix [rows, cols] is cut into blocks of kCompactBlock weights along its columns, the last one shorter
// where they do not divide cols; a block into groups. Weight k of a row is
//
//     row scale * (scale of its group * (code of k - zero) - minimum of its group),
//
// computed in float32, each operation rounded in this order; a minimum is 0 where the form has none, and scales and
// minimums are what ScaleKind says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/convert.h"

namespace nanolith {

inline constexpr int64_t kCompactBlock = 256;
inline constexpr int64_t kLeastCompactGroup = 16;
inline constexpr int64_t kMostCompactGroups = kCompactBlock / kLeastCompactGroup;  // of a block

// What a weight is stored as. 4 bits are W4, the others W8.
enum class CodeKind : uint8_t {
    bits4,  // 0 to 15
    int8,   // -128 to 127
    e4m3    // the bits of a Float8E4M3; the code is its value
};

// How the scales and minimums of groups are stored. A product of a block's with a group's is exact in float32.
enum class ScaleKind : uint8_t {
    none,   // the row's scale alone; no minimums
    half,   // float16 a group
    zeros,  // scales as float16 a group; a minimum is the scale times the group's zero point, an int8
    two     // float16 a block, multiplied by an int8 a group
};

struct CompactForm {
    CodeKind codes = CodeKind::int8;
    ScaleKind scales = ScaleKind::half;
    int32_t group = 32;  // weights along the row that share a scale and a minimum: 16, 32, 64, 128 or 256
    int32_t zero = 0;    // what is subtracted from every code; 0 with e4m3
    bool mins = false;   // whether groups have minimums; with ScaleKind::zeros they do

    bool operator==(const CompactForm&) const = default;
};

// One block of a row. Codes beyond the row's end are `zero`; groups beyond it have scales and minimums of 0.
struct CompactBlock {
    int8_t codes[kCompactBlock];
    // By group.
    Half scales[kMostCompactGroups];         // of ScaleKind::half and zeros
    Half mins[kMostCompactGroups];           // of ScaleKind::half
    int8_t factors[kMostCompactGroups];      // of ScaleKind::two
    int8_t min_factors[kMostCompactGroups];  // of ScaleKind::two; the zero points of ScaleKind::zeros
    // Of ScaleKind::two.
    Half scale;
    Half min;
};

constexpr int64_t compact_blocks(int64_t cols) {
    return (cols + kCompactBlock - 1) / kCompactBlock;
}

// Bits that a weight takes, with its share of the scales and minimums but not of the row's scale.
double bits_of(const CompactForm& form);

// The scale and the minimum of a block's group, as the formula above has them.
struct ScaleAndMin {
    float scale;
    float min;
};
ScaleAndMin scale_and_min(const CompactForm& form, const CompactBlock& block, int64_t group);

// The formula above: to[i] = weight first + i of the block, i < count.
void expand_block(const CompactForm& form, const CompactBlock& block, float row_scale, int64_t first, int64_t count,
                  float* to);

// Whether all that the form has of a block's scales is finite, and all codes are: its weights are finite then.
bool is_finite(const CompactForm& form, const CompactBlock& block);

// Quantises a row. Deterministic: each row follows from its own numbers alone. Codes are rounded to nearest (ties to
// even) with the scales and minimums as they are stored. What quantised_form() gives for
// - int8: of each group of 32 the scale max|w| / 127, as float16 beside the row's, a power of two;
// - 4 bits: of each group of 32 the minimum -min(w, 0) and then the scale (max(w, 0) + minimum) / 15, each as 7 bits
//   of the largest in its block of 256; the row's scale is a power of two;
// - e4m3: the row's scale max|w| / 448, and no others.
// A row with numbers that are not finite gets a scale that is NaN, so that all of it is.
CompactForm quantised_form(CodeKind codes);
// `blocks` has compact_blocks(cols) elements. Gives the row's scale.
float quantise_row(CodeKind codes, const float* row, int64_t cols, CompactBlock* blocks);

struct WeightView;

// Reads compact weights out of a file. Thread-safe. The `data` of a WeightView that has such a source means something
// to the source alone (it is not null); backends read the weight through the source.
class CompactSource {
  public:
    CompactSource() = default;
    CompactSource(const CompactSource&) = delete;
    CompactSource& operator=(const CompactSource&) = delete;
    virtual ~CompactSource() = default;

    [[nodiscard]] virtual CompactForm form() const = 0;
    // to[i] = block first + i of a row, i < count. `row` is a row as stored: the view's order has been applied. Fields
    // that the form does not have are finite.
    virtual void read_blocks(const WeightView& view, int64_t row, int64_t first, int64_t count,
                             CompactBlock* to) const noexcept = 0;
    // All blocks of `count` rows that are stored one after the other. To be overridden where that is faster than row by
    // row.
    virtual void read_rows(const WeightView& view, int64_t row, int64_t count, CompactBlock* to) const noexcept;
    [[nodiscard]] virtual float row_scale(const WeightView&, int64_t) const noexcept { return 1; }
};

}  // namespace nanolith
