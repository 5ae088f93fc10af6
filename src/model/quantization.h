// Quantized checkpoints: how the published formats store weights of 8 and of 4 bits with their scales.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "files/json_fields.h"

namespace nanolith {

enum class QuantMethod : uint8_t {
    none,
    fp8,      // 8-bit floats: "fp8", "fbgemm_fp8", and "compressed-tensors" with these
    gptq,     // integers that share words along the inputs of a matrix
    awq,      // integers that share words along its outputs
    integers  // of "compressed-tensors"
};

struct Quantization {
    QuantMethod method = QuantMethod::none;
    // How fp8 weights are scaled in blocks; where there are none, a scale's shape tells whether it is of the whole
    // matrix or of each row.
    int64_t block_rows = 0;
    int64_t block_cols = 0;
    // Of "gptq" and "awq": inputs that share a scale, 0 where all of a row do. Those of "compressed-tensors", and how
    // many bits a weight has in any of these, follow from the tensors' shapes.
    int64_t group = 0;
    bool zeros_minus_one = false;  // "gptq": whether zero points are stored as one less
};

// "quantization_config" of config.json: "fp8" (scales of the matrix or of "weight_block_size" blocks), "fbgemm_fp8"
// (of rows), "gptq", "awq" and "compressed-tensors" with floats of 8 bits or integers of 8 or 4. Weights alone are
// read: activations are not quantized. UNSUPPORTED names any other method.
Result<Quantization> read_quantization(const JsonFields& config);

}  // namespace nanolith
