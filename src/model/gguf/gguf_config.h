// A GGUF file's metadata as the configuration of a model.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "files/gguf.h"
#include "model/config.h"
#include "model/gguf/gguf_files.h"

namespace nanolith {

struct GgufConfig {
    Config config;
    bool norms_have_one = false;  // the family's norms multiply by 1 + weight, and the file stores 1 + weight
};

// Makes a Config, as parse_config makes it of a config.json, from the file's metadata and from its tensors' names and
// shapes. The only tensors that are read are RoPE's frequency factors. UNSUPPORTED: a family or a value that is not
// computed here; BAD_MODEL: a key is missing or wrong; both name the key and its value. INVALID_ARGUMENT: max_context
// is more than the model's own context.
Result<GgufConfig> read_gguf_config(const GgufFiles& files, int64_t max_context);

}  // namespace nanolith
