// A model's weights as views into its files.
#pragma once

#include <string>

#include "backend/dtype.h"
#include "backend/model_weights.h"
#include "base/result.h"
#include "model/config.h"
#include "model/packed/packed_matrix.h"
#include "model/safetensors.h"

namespace nanolith {

// Finds every tensor that the architecture asks for and checks its shape against the config. Other tensors are left
// alone. BAD_MODEL: a tensor is missing or has another shape. UNSUPPORTED: it has a dtype that is not read. `where`
// begins messages: the folder. The views point into the tensors' bytes, into config.head_order, and to `packed`, which
// gets a matrix for each weight that is packed.
Result<ModelWeights> assemble_weights(const Config& config, const TensorMap& tensors, const std::string& where,
                                      PackedMatrices& packed);

// Elements of all weights, a tied head counted once.
int64_t count_parameters(const ModelWeights& weights);

// The dtype of the projections: float32 where any of them is, else that of the first; bfloat16 for 8-bit ones, which
// have no products of their own.
DType projection_dtype(const ModelWeights& weights);

}  // namespace nanolith
