// Quantized checkpoints: 8-bit weights with their scales, as the published formats carry them.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "files/json_fields.h"

namespace nanolith {

// How fp8 weights are scaled in blocks; where there are none, a scale's shape tells whether it is of the whole matrix
// or of each row.
struct Quantization {
    bool fp8 = false;
    int64_t block_rows = 0;
    int64_t block_cols = 0;
};

// "quantization_config" of config.json: "fp8" (scales of the matrix or of "weight_block_size" blocks), "fbgemm_fp8"
// (of rows) and "compressed-tensors" with 8-bit floats. Weights alone are read: activations are not quantized.
// UNSUPPORTED names any other method.
Result<Quantization> read_quantization(const JsonFields& config);

}  // namespace nanolith
