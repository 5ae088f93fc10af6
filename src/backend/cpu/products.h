// Products of a batch's rows with a weight matrix.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/buffer.h"
#include "backend/cpu/compact_matrix.h"
#include "base/convert.h"
#include "base/thread_pool.h"

namespace nanolith::cpu {

// A weight matrix [outputs, depth]: row-major in the executor's dtype, its own memory or the model file's; or compact.
template <typename T>
struct Matrix {
    const T* data = nullptr;
    int64_t outputs = 0;
    int64_t depth = 0;
    Buffer<T> owned;  // empty where the file is used in place
    // Where there are any, the matrix is compact: these rows on top of each other, and `data` is null.
    std::vector<CompactRows> parts = {};
    // Of a compact matrix: the permutation WeightView::columns, or nothing.
    std::vector<int32_t> columns = {};

    [[nodiscard]] bool compact() const { return !parts.empty(); }
};

// Rows are computed in blocks: buffers that hold x or y need room for padded_rows(rows) of them. The rows added are
// overwritten and mean nothing.
int64_t padded_rows(int64_t rows);

// Runs products on the pool's threads: few rows through dot_products() or compact_products(), more through oneDNN, or
// through packed_product() where the processor does not multiply bfloat16. All read the one copy of the weights;
// compact ones go through compact_products() for as many rows as that is the fastest for, and are widened a tile at a
// time for more. A product of many rows is cut into tiles; oneDNN's are of a few shapes, so that all of its primitives
// are made beforehand, by prepare(). Not thread-safe.
template <typename T>
class Products {
  public:
    // The largest product that will be computed has `max_rows` rows and a matrix of depth `max_depth`.
    // `batch_invariant`: as ExecutorOptions', all rows go through tiles of one shape, or dot products. The pool
    // outlives this.
    static Result<Products> create(ThreadPool& pool, int64_t max_rows, int64_t max_depth, bool batch_invariant);
    // Bytes that create() will allocate for rows of x, at most.
    static uint64_t scratch_bytes(int64_t max_rows, int64_t max_depth);
    Products() noexcept;  // empty: assign a created one
    Products(Products&&) noexcept;
    Products& operator=(Products&&) noexcept;
    ~Products();

    // Makes ready what run() needs for up to `max_rows` rows, with the scratch memory for compact weights. INTERNAL or
    // OUT_OF_MEMORY where oneDNN fails; it may be tried again then.
    Result<void> prepare(const Matrix<T>& w, int64_t max_rows);

    // y[rows, outputs] = x[rows, depth] * w^T, or y += that. The matrix has been prepared for as many rows.
    // OUT_OF_MEMORY or INTERNAL where oneDNN fails; y holds anything then.
    Result<void> run(const Matrix<T>& w, T* x, int64_t rows, float* y, bool accumulate);

  private:
    struct State;
    explicit Products(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

extern template class Products<float>;
extern template class Products<BFloat16>;

}  // namespace nanolith::cpu
