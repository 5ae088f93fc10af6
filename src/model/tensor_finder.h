// Finds a checkpoint's tensors by name and checks what they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/weight_view.h"
#include "base/result.h"
#include "model/packed/find_packed.h"
#include "model/packed/packed_matrix.h"
#include "model/quantization.h"
#include "model/safetensors.h"

namespace nanolith {

// All of it must outlive this. BAD_MODEL: a tensor is missing or has another shape. UNSUPPORTED: its dtype is not F32,
// F16, BF16 or, in a quantized model, what its method stores. Messages begin with `where` and name the tensor.
class TensorFinder {
  public:
    // `packed` gets what views of packed weights read through.
    TensorFinder(const TensorMap& tensors, const Quantization& quantization, const std::string& where,
                 PackedMatrices& packed)
        : tensors_(tensors), quantization_(quantization), where_(where), packed_(packed) {}

    // Each stores the view in `weight`.
    [[nodiscard]] Result<void> matrix(const std::string& name, int64_t rows, int64_t cols, WeightView& weight) const;
    [[nodiscard]] Result<void> vector(const std::string& name, int64_t size, WeightView& weight) const;
    // Parts that are concatenated in one matrix: parts[i] gets sizes[i] rows.
    [[nodiscard]] Result<void> fused(const std::string& name, int64_t cols, const std::vector<int64_t>& sizes,
                                     const std::vector<WeightView*>& parts) const;
    // Whether the weight is there, as it is or packed.
    [[nodiscard]] bool has(const std::string& name) const {
        return has_tensor(name) || is_packed(tensors_, quantization_, name);
    }

  private:
    [[nodiscard]] Result<void> find(const std::string& name, const std::vector<int64_t>& shape,
                                    WeightView& weight) const;
    [[nodiscard]] Result<void> find_fp8(const std::string& name, WeightView& weight) const;
    [[nodiscard]] Result<void> find_scales(const std::string& name, WeightView& weight) const;
    [[nodiscard]] bool has_tensor(const std::string& name) const { return tensors_.find(name) != tensors_.end(); }

    const TensorMap& tensors_;
    const Quantization& quantization_;
    const std::string& where_;
    PackedMatrices& packed_;
};

}  // namespace nanolith
