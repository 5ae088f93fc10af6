// A model in a GGUF file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "model/model.h"

namespace nanolith {

// As load_model, of a GGUF file (the first, where the model is split into several). Tensors of quantised blocks are
// read as float32, others in their own format.
Result<std::unique_ptr<Model>> load_gguf_model(const std::string& path, int64_t max_context, WeightPlace place);

}  // namespace nanolith
