// The addresses of the rows of a tensor [rows, heads, head_dim] with any strides, as kernels compute them.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cstdint>

namespace nanolith::cuda {

// Rows of heads in memory: row r, head h begins at
// (r / rows_per_block) * block_stride + (r % rows_per_block) * row_stride + h * head_stride, in elements.
class RowLayout {
  public:
    RowLayout() = default;
    RowLayout(int64_t row_stride, int64_t head_stride) : row_stride_(row_stride), head_stride_(head_stride) {}
    // Rows in blocks of rows_per_block, as HeadRows has them (backend/kernels.h). With s the number of bits of
    // rows_per_block - 1, r / rows_per_block is r * ceil(2^(31 + s) / rows_per_block) >> (31 + s) for all r (Granlund
    // and Montgomery, 1994), where a division would be forty instructions.
    RowLayout(int64_t row_stride, int64_t head_stride, int64_t block_stride, int32_t rows_per_block)
        : row_stride_(row_stride), head_stride_(head_stride), block_step_(block_stride - rows_per_block * row_stride) {
        const auto divisor = static_cast<uint64_t>(rows_per_block);
        shift_ = 31 + static_cast<int32_t>(std::bit_width(divisor - 1));
        inverse_ = static_cast<uint32_t>(((uint64_t{1} << shift_) + divisor - 1) / divisor);
    }

    // In elements from the tensor's beginning.
    [[nodiscard]] __host__ __device__ int64_t offset(int row, int head) const {
        const auto block = static_cast<int64_t>(uint64_t{static_cast<uint32_t>(row)} * inverse_ >> shift_);
        return row * row_stride_ + block * block_step_ + head * head_stride_;
    }

    // Whether every row and head begins at a multiple of `elements`.
    [[nodiscard]] bool all_multiples_of(int64_t elements) const {
        return row_stride_ % elements == 0 && head_stride_ % elements == 0 && block_step_ % elements == 0;
    }

  private:
    int64_t row_stride_ = 0;
    int64_t head_stride_ = 0;
    int64_t block_step_ = 0;  // from a block's end to the next block's beginning
    uint32_t inverse_ = 0;
    int32_t shift_ = 0;
};

}  // namespace nanolith::cuda
