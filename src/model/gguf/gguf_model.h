// A model in a GGUF file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "model/model.h"

namespace nanolith {

// The same as load_model for a GGUF file, or the first of its parts, in the place of a folder. Tensors in blocks are
// float32 to their readers, plain ones stay as they are.
Result<std::unique_ptr<Model>> load_gguf_model(const std::string& path, int64_t max_context, WeightPlace place);

}  // namespace nanolith
