// The weight files of a model folder, and a model's weights as views into them.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "files/mapped_file.h"
#include "model/config.h"
#include "model/safetensors.h"

namespace nanolith {

// The mapped files and their tensors; the tensors' bytes lie in the files.
struct WeightFiles {
    std::vector<MappedFile> files;
    TensorMap tensors;
};

// Opens model.safetensors, or else model.safetensors.index.json and the shards that it names, which must be plain
// file names inside of `folder`. NOT_FOUND names a missing file, BAD_MODEL what is wrong with one.
Result<WeightFiles> open_weight_files(const std::string& folder);

// Finds every tensor that the architecture asks for and checks its shape against the config. Other tensors are left
// alone. BAD_MODEL: a tensor is missing or has another shape. UNSUPPORTED: its dtype is not F32, F16 or BF16, or the
// model has a bias that is not computed. `where` begins messages: the folder. The views point into the tensors' bytes.
Result<ModelWeights> assemble_weights(const Config& config, const TensorMap& tensors, const std::string& where);

// Elements of all weights, a tied head counted once.
int64_t count_parameters(const ModelWeights& weights);

// The dtype of the projections: float32 where any of them is, else that of the first.
DType projection_dtype(const ModelWeights& weights);

}  // namespace nanolith
