// The weight files of a model folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/safetensors.h"
#include "model/weight_file.h"

namespace nanolith {

// The files and their tensors; the tensors' bytes lie in the files.
struct WeightFiles {
    std::vector<std::unique_ptr<WeightFile>> files;
    TensorMap tensors;
};

// Opens model.safetensors, or else model.safetensors.index.json and the shards that it names, which must be plain
// file names inside of `folder`. NOT_FOUND names a missing file, BAD_MODEL what is wrong with one.
Result<WeightFiles> open_weight_files(const std::string& folder, WeightPlace place);

}  // namespace nanolith
