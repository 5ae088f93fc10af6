#include "model/tensor_finder.h"

#include <optional>

#include "files/json.h"
#include "model/fp8_source.h"

namespace nanolith {
namespace {

int64_t blocks(int64_t size, int64_t block) {
    return (size + block - 1) / block;
}

}  // namespace

Result<void> TensorFinder::matrix(const std::string& name, int64_t rows, int64_t cols, WeightView& weight) const {
    return find(name, {rows, cols}, weight);
}

Result<void> TensorFinder::vector(const std::string& name, int64_t size, WeightView& weight) const {
    return find(name, {size}, weight);
}

Result<void> TensorFinder::fused(const std::string& name, int64_t cols, const std::vector<int64_t>& sizes,
                                 const std::vector<WeightView*>& parts) const {
    int64_t rows = 0;
    for (const int64_t size : sizes) rows += size;
    WeightView whole;
    NL_TRY(matrix(name, rows, cols, whole));
    int64_t row = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
        WeightView& part = *parts[i];
        part = whole;
        part.rows = sizes[i];
        if (whole.wide()) part.data += static_cast<size_t>(row * cols) * dtype_bytes(whole.dtype);
        part.scales.first_row = row;
        row += sizes[i];
    }
    return {};
}

Result<void> TensorFinder::find(const std::string& name, const std::vector<int64_t>& shape, WeightView& weight) const {
    if (shape.size() == 2 && is_packed(tensors_, quantization_, name)) {
        NL_ASSIGN(weight, find_packed(tensors_, quantization_, where_, name, shape[0], shape[1], packed_));
        return {};
    }
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
        return fail(NL_ERROR_BAD_MODEL, where_, ": tensor ", name, " is missing: expected one of shape ",
                    show_shape(shape));
    }
    const Tensor& tensor = found->second;
    if (tensor.shape != shape) {
        return fail(NL_ERROR_BAD_MODEL, where_, ": tensor ", name, " has the shape ", show_shape(tensor.shape),
                    ": expected ", show_shape(shape), " by the model's sizes");
    }
    const std::optional<DType> dtype = weight_dtype(tensor.dtype);
    const bool is_fp8 = dtype == DType::f8_e4m3;
    if (!dtype || (is_fp8 && (quantization_.method != QuantMethod::fp8 || shape.size() != 2))) {
        return fail(NL_ERROR_UNSUPPORTED, where_, ": tensor ", name, " has the dtype ", show_json(tensor.dtype),
                    ": expected F32, F16 or BF16", is_fp8 ? " where config.json has no fp8 quantization" : "");
    }
    weight = WeightView{*dtype, shape.size() == 2 ? shape[0] : 1, shape.back(), tensor.bytes.data()};
    weight.source = tensor.source;
    weight.compact = shape.size() == 2 ? tensor.compact : nullptr;
    return is_fp8 ? find_fp8(name, weight) : Result<void>();
}

Result<void> TensorFinder::find_fp8(const std::string& name, WeightView& weight) const {
    NL_TRY(find_scales(name, weight));
    weight.compact = fp8_source(weight);
    return {};
}

// One scale of the matrix, one of each row, or one of each block.
Result<void> TensorFinder::find_scales(const std::string& name, WeightView& weight) const {
    const std::string inverse = name + "_scale_inv";
    const std::string scale_name = has_tensor(inverse) ? inverse : name + "_scale";
    const auto found = tensors_.find(scale_name);
    if (found == tensors_.end()) {
        return fail(NL_ERROR_BAD_MODEL, where_, ": tensor ", scale_name, " is missing: expected the scales of ", name);
    }
    const Tensor& tensor = found->second;
    const std::optional<DType> dtype = weight_dtype(tensor.dtype);
    if (!dtype || dtype == DType::f8_e4m3) {
        return fail(NL_ERROR_UNSUPPORTED, where_, ": tensor ", scale_name, " has the dtype ", show_json(tensor.dtype),
                    ": expected F32, F16 or BF16");
    }
    using Shape = std::vector<int64_t>;
    WeightScales& scales = weight.scales;
    scales = {*dtype, weight.rows, weight.cols, 1, 0, nullptr};
    const auto found_scales = [&]() -> Result<void> {
        scales.data = tensor.source != nullptr ? tensor.source->keep(tensor.bytes) : tensor.bytes.data();
        return {};
    };
    if (tensor.shape.empty() || tensor.shape == Shape{1} || tensor.shape == Shape{1, 1}) return found_scales();
    scales.block_rows = 1;
    if (tensor.shape == Shape{weight.rows} || tensor.shape == Shape{weight.rows, 1}) return found_scales();
    std::string expectation = "[1], [" + std::to_string(weight.rows) + ", 1]";
    if (quantization_.block_rows > 0) {
        const Shape by_block = {blocks(weight.rows, quantization_.block_rows),
                                blocks(weight.cols, quantization_.block_cols)};
        scales.block_rows = quantization_.block_rows;
        scales.block_cols = quantization_.block_cols;
        scales.row_stride = by_block[1];
        if (tensor.shape == by_block) return found_scales();
        expectation += " or " + show_shape(by_block);
    }
    return fail(NL_ERROR_BAD_MODEL, where_, ": tensor ", scale_name, " has the shape ", show_shape(tensor.shape),
                ": expected ", expectation, " for ", name);
}

}  // namespace nanolith
