// Finds the tensors that a packed matrix consists of (packed_matrix.h) and checks what they are.
#pragma once

#include <cstdint>
#include <string>

#include "backend/weight_view.h"
#include "base/result.h"
#include "model/packed/packed_matrix.h"
#include "model/quantization.h"
#include "model/safetensors.h"

namespace nanolith {

// Whether the tensors have integer codes of the weight `name` ("... .weight"). If not, it is stored as it is, or
// missing.
bool is_packed(const TensorMap& tensors, const Quantization& quantization, const std::string& name);

// The weight `name` [rows, cols], for which is_packed() holds. `matrices` owns what the
// view reads through. BAD_MODEL: a tensor is missing, has another shape or an index that is too large. UNSUPPORTED: it
// has a dtype that is not read. OUT_OF_MEMORY. Messages begin with `where` and name the tensor.
Result<WeightView> find_packed(const TensorMap& tensors, const Quantization& quantization, const std::string& where,
                               const std::string& name, int64_t rows, int64_t cols, PackedMatrices& matrices);

}  // namespace nanolith
