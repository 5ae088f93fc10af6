// The weight files of a model folder.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "files/mapped_file.h"
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

}  // namespace nanolith
