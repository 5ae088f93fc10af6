// Products of a weight matrix with many rows of activations, through cuBLASLt.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <unordered_map>

#include "backend/dtype.h"
#include "base/result.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

// y [rows, outputs] = x W^T, or += where `add`, with x [rows, size] and W [outputs, size] of `input` type and y of
// `output` type; y's rows are `stride` elements apart. Sums are float32; float32 inputs are not rounded to TF32.
struct MatmulShape {
    int32_t rows = 0;
    int32_t size = 0;
    int32_t outputs = 0;
    int32_t stride = 0;
    DType input = DType::f32;
    DType output = DType::f32;
    bool add = false;

    bool operator==(const MatmulShape&) const = default;
};

// Rows that a product of `rows` rows is made with, the additional ones with any contents: whatever lengths prefills
// have, algorithms are then chosen for few shapes, most of them while the executor is made. Tiles of products have no
// fewer rows, so that it costs nothing.
constexpr int32_t product_rows(int32_t rows) {
    const int32_t unit = rows <= 128 ? 16 : 64;
    return (rows + unit - 1) / unit * unit;
}

// Rows of every product where a row must not depend on how many others there are (ExecutorOptions::batch_invariant):
// one algorithm serves them all, and blocks of so few rows are not cut into tiles that it could treat differently.
constexpr int32_t kInvariantRows = 64;

// Rows that buffers of products have room for, so that there may be `rows` of them.
constexpr int32_t padded_rows(int32_t rows, bool batch_invariant) {
    if (!batch_invariant) return product_rows(rows);
    return (rows + kInvariantRows - 1) / kInvariantRows * kInvariantRows;
}

// One cuBLASLt handle with its workspace, and for each shape met so far the first algorithm that cuBLASLt names. For
// one stream.
class Matmul {
  public:
    static Result<std::unique_ptr<Matmul>> create();
    ~Matmul();
    Matmul(const Matmul&) = delete;
    Matmul& operator=(const Matmul&) = delete;

    // false, and nothing done, where cuBLASLt has no algorithm for the shape: it need not for sizes that are no
    // multiple of 16 bytes.
    Result<bool> multiply(const MatmulShape& shape, const void* x, const void* weight, void* y, cudaStream_t stream);

  private:
    struct Problem;
    struct Hash {
        size_t operator()(const MatmulShape& shape) const;
    };

    Matmul() = default;
    Result<const Problem*> find_problem(const MatmulShape& shape);

    cublasLtHandle_t handle_ = nullptr;
    DeviceBuffer workspace_;
    std::unordered_map<MatmulShape, std::unique_ptr<Problem>, Hash> problems_;
};

}  // namespace nanolith::cuda
