// Products of a batch's rows with a weight matrix.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/cpu/buffer.h"
#include "base/convert.h"

namespace nanolith::cpu {

// A weight matrix [outputs, depth], row-major, in the executor's dtype: its own memory, or the model file's.
template <typename T>
struct Matrix {
    const T* data = nullptr;
    int64_t outputs = 0;
    int64_t depth = 0;
    Buffer<T> owned;  // empty where the file is used in place
};

// Rows are computed in blocks: buffers that hold x or y need room for padded_rows(rows) of them. The rows added are
// overwritten and mean nothing.
int64_t padded_rows(int64_t rows);

// Runs products with `num_threads` threads: few rows through matvec, more through oneDNN, or through matvec a few at a
// time where oneDNN has no such product (of bfloat16, on CPUs without AVX-512). Both read the one row-major copy of the
// weights. Keeps oneDNN's primitives by shape. Not thread-safe.
template <typename T>
class Products {
  public:
    // `max_depth` is the largest depth of a matrix that will be multiplied.
    static Result<Products> create(int num_threads, int64_t max_depth);
    Products() noexcept;  // empty: assign a created one
    Products(Products&&) noexcept;
    Products& operator=(Products&&) noexcept;
    ~Products();

    // Makes ready what run() of so many rows would make first. INTERNAL where oneDNN fails.
    Result<void> prepare(const Matrix<T>& w, int64_t rows, bool accumulate);

    // y[rows, outputs] = x[rows, depth] * w^T, or y += that. INTERNAL where oneDNN fails; nothing is written then.
    Result<void> run(const Matrix<T>& w, T* x, int64_t rows, float* y, bool accumulate);

  private:
    struct State;
    template <typename Work>
    Result<bool> with_primitives(const Matrix<T>& w, int64_t rows, const Work& work);
    explicit Products(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

extern template class Products<float>;
extern template class Products<BFloat16>;

}  // namespace nanolith::cpu
