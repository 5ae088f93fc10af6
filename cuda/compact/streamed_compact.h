// Products of compact weights with up to eight rows of 16-bit activations on Hopper: the codes stream through shared
// memory to the tensor cores once for all rows, and everything around the product is fused into it.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/model_spec.h"
#include "base/result.h"
#include "compact/layout.h"
#include "linear/streamed.h"

namespace nanolith::cuda {

// Most rows that the functions below take.
constexpr int kStreamedCompactRows = 8;

// The longest row that a kernel can put in the order of CompactX::columns: the threads of a block hold all of it in
// their registers meanwhile.
constexpr int kMostOrderedColumns = 16384;

// The activations of a product: rows of the residual stream that are normalised as they are read, and rounded to T, or,
// where `plain` is set, those, [normed.rows, normed.size].
template <typename T>
struct CompactX {
    NormedRows<T> normed;
    const T* plain = nullptr;
    // DeviceMatrix::columns, where the kernel is to put x in that order: a single row of at most kMostOrderedColumns.
    // Null: x is in the matrix's order.
    const int32_t* columns = nullptr;
};

// Where the outputs of a product go.
struct CompactOutput {
    enum class Kind : uint8_t {
        store16,  // to T
        store32,  // to float32
        add,      // added to float32
        gate      // to T: activation(gate) * up, of a gated matrix
    };
    Kind kind = Kind::store16;
    void* to = nullptr;  // of the matrix's first output
    int64_t stride = 0;  // elements from one row to the next
    Activation activation = Activation::silu;

    // The same without the first `rows` rows.
    [[nodiscard]] __host__ __device__ CompactOutput behind_rows(int64_t rows) const {
        const int64_t bytes = kind == Kind::store16 || kind == Kind::gate ? 2 : 4;
        CompactOutput rest = *this;
        rest.to = static_cast<std::byte*>(to) + rows * stride * bytes;
        return rest;
    }
};

// Whether there is a kernel for matrices of this form and `rows` rows of `size` elements.
bool streamed_compact_supports(const CompactLayout& layout, int rows, int size, bool half, const GpuFacts& gpu);

// outputs [rows, matrix.outputs] = x W^T.
template <typename T>
Result<void> streamed_compact(const CompactX<T>& x, const CompactMatrix& matrix, const CompactOutput& output,
                              const StreamedLaunch& how);

}  // namespace nanolith::cuda
