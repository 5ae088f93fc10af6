// A matrix of integers with scales and zero points of their own tensors, as GPTQ, AWQ and compressed-tensors store it.
// Weight (row, col) is
//
//     scale of the row and the column's group * (integer - zero point of the same).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/compact_weight.h"
#include "backend/dtype.h"
#include "backend/weight_view.h"
#include "base/result.h"
#include "model/address_range.h"
#include "model/packed/packed_integers.h"
#include "model/packed/passing_bytes.h"
#include "model/safetensors.h"

namespace nanolith {

// Where everything is. The tensors' shapes have been checked.
struct PackedParts {
    int64_t rows = 0;
    int64_t cols = 0;
    int64_t group = 0;   // adjacent columns that share a scale; the last group may have fewer
    int64_t groups = 1;  // of a row
    PackedIntegers codes;
    int32_t code_shift = 0;  // added to an integer of the tensor gives a code: 0 to 15, or -128 to 127 of 8 bits
    const Tensor* code_tensor = nullptr;
    // Scale (row, group) is element row * scale_row_stride + group * scale_group_stride of its tensor.
    DType scale_dtype = DType::f16;  // f16, bf16 or f32
    int64_t scale_row_stride = 0;
    int64_t scale_group_stride = 0;
    const Tensor* scale_tensor = nullptr;
    // Zero points [rows, groups]. Where there is no tensor, all are `zero`, one of the codes.
    PackedIntegers zeros;
    int32_t zero_shift = 0;  // added to an integer of the tensor gives a code
    const Tensor* zero_tensor = nullptr;
    int32_t zero = 0;
    // The group of each column, [cols], where neighbours don't share one ("act-order"); else empty.
    std::vector<int32_t> group_of;
};

// Reads the matrix as compact weights where they have a form that is exact, with its columns in the order of their
// groups (WeightView::columns). Where they have none (groups of other sizes, scales that no float16 and power of two
// are) it is a source of wide weights, each rounded to 16 bits as the checkpoint's own tools round it. Thread-safe once
// it is created.
class PackedMatrix final : public CompactSource, public WeightSource {
  public:
    // Reads zero points and scales as far as that decision needs them. The tensors' sources must outlive it.
    static Result<std::unique_ptr<PackedMatrix>> create(PackedParts parts);

    // A view of the whole matrix. A view of some of its rows tells the first one in scales.first_row; where it is wide,
    // its data begin with that row instead.
    [[nodiscard]] WeightView view();

    // CompactSource.
    [[nodiscard]] CompactForm form() const override { return form_; }
    void read_blocks(const WeightView& view, int64_t row, int64_t first, int64_t count,
                     CompactBlock* to) const noexcept override;
    [[nodiscard]] float row_scale(const WeightView& view, int64_t row) const noexcept override;

    // WeightSource, of addresses that view() has given.
    void read(const std::byte* from, size_t size, void* to) noexcept override;
    [[nodiscard]] bool stays() const override { return false; }

  private:
    // The tensors in memory while some of their rows are read.
    struct InMemory;

    explicit PackedMatrix(PackedParts parts);
    Result<void> look_at_zeros();
    Result<void> look_at_scales();
    void put_columns_in_order();
    void choose_form();

    [[nodiscard]] float scale_of_row(int64_t row) const noexcept {
        return row_scales_.empty() ? 1 : row_scales_[static_cast<size_t>(row)];
    }
    [[nodiscard]] InMemory take(int64_t weights) const noexcept;
    // `whole_row`: the row's codes, [cols]; null: they are read out of the memory.
    void read_block(const InMemory& memory, int64_t row, int64_t block, const int8_t* whole_row,
                    CompactBlock& to) const noexcept;
    void read_row(const InMemory& memory, int64_t row, int64_t first, int64_t count, std::byte* to) const noexcept;
    [[nodiscard]] float scale(const InMemory& memory, int64_t row, int64_t group) const noexcept;
    [[nodiscard]] int32_t zero(const InMemory& memory, int64_t row, int64_t group) const noexcept;

    PackedParts parts_;
    mutable PassingBytes codes_;
    mutable PassingBytes scales_;
    mutable std::optional<PassingBytes> zeros_;  // where they differ
    std::vector<float> row_scales_;              // empty: all are 1
    std::vector<int32_t> columns_;               // in the order of their groups, where that is another order
    bool exact_ = true;                          // whether the scales are those of a compact form
    CompactForm form_;
    AddressRange addresses_;  // of wide weights
};

using PackedMatrices = std::vector<std::unique_ptr<PackedMatrix>>;

}  // namespace nanolith
