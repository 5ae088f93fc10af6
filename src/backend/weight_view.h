// A weight as a model's files have it: where its elements are, in which format, and how they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "backend/dtype.h"

namespace nanolith {

// The scale factors of a quantized weight, one for each block of block_rows x block_cols elements: element (r, c) is
// multiplied by factor[(first_row + r) / block_rows * row_stride + c / block_cols]. `data` is null where there are
// none.
struct WeightScales {
    DType dtype = DType::f32;
    int64_t block_rows = 1;
    int64_t block_cols = 1;
    int64_t row_stride = 1;  // factors in a row of blocks
    int64_t first_row = 0;   // the weight's first row in the matrix that the factors were made for
    const std::byte* data = nullptr;
};

// Reads weights that lie in a mapped file. While they are loaded they must not be read directly: somebody may cut the
// file short, and touching a mapped page beyond its end would kill the process. Thread-safe, except for keep().
class WeightSource {
  public:
    WeightSource() = default;
    WeightSource(const WeightSource&) = delete;
    WeightSource& operator=(const WeightSource&) = delete;
    virtual ~WeightSource() = default;

    // Copies the `size` bytes at `from`, whole elements of one weight, to `to`. Bytes that the file no longer has
    // become zeros; the source remembers that, and its owner asks for it when everything is loaded.
    virtual void read(const std::byte* from, size_t size, void* to) noexcept = 0;
    // A copy of the bytes that lives as long as the source.
    const std::byte* keep(std::span<const std::byte> bytes) {
        auto place = kept_.find(bytes.data());
        if (place == kept_.end()) {
            std::vector<std::byte> copy(bytes.size());
            read(bytes.data(), bytes.size(), copy.data());
            place = kept_.emplace(bytes.data(), std::move(copy)).first;
        }
        return place->second.data();
    }
    // Whether the memory of the weights may be used directly, without a copy, once they have been read.
    [[nodiscard]] virtual bool stays() const = 0;

  private:
    std::map<const std::byte*, std::vector<std::byte>> kept_;
};

class CompactSource;  // compact_weight.h

// A weight in host memory, not owned: row-major [rows, cols]; a vector has rows 1. `data` is null where the model has
// no such weight. The data need not be aligned to its element size (files are mapped). read_weight.h reads any of them.
struct WeightView {
    DType dtype = DType::f32;
    int64_t rows = 0;
    int64_t cols = 0;
    const std::byte* data = nullptr;
    // A permutation of the outputs (rows; elements of a vector), the same within each group of order.size() of them:
    // output i of a group is stored at index order[i] of that group. Empty: stored in their own order. Not owned.
    std::span<const int32_t> order = {};
    // A permutation of the inputs (columns), of a compact matrix alone: element i of a stored row is multiplied with
    // input columns[i]. Empty: stored in their own order. Not owned.
    std::span<const int32_t> columns = {};
    WeightScales scales = {};
    WeightSource* source = nullptr;  // where set, the data (not the scales) must be read through it
    // Where set, the weight is compact: its codes and scales are read through this. With a `source` beside it, its
    // values can be read wide through that too, as those of any weight. Without one they are what the blocks' codes and
    // scales say, and `dtype` is what they are given in where a backend wants them wide. Not owned.
    const CompactSource* compact = nullptr;

    [[nodiscard]] bool present() const { return data != nullptr; }
    // Whether the data are elements of the weight's dtype.
    [[nodiscard]] bool wide() const { return compact == nullptr || source != nullptr; }
    // Whether the weight is its data as stored: neither permuted nor scaled nor in compact blocks alone.
    [[nodiscard]] bool plain() const { return order.empty() && scales.data == nullptr && wide(); }
    [[nodiscard]] size_t bytes() const {
        return static_cast<size_t>(rows) * static_cast<size_t>(cols) * dtype_bytes(dtype);
    }
};

}  // namespace nanolith
