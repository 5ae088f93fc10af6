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
    bool norms_have_one = false;  // the family's norms multiply by 1 + weight, and the file has that sum
};

// What parse_config gives of config.json, out of the metadata and the tensors: their names and shapes, and the numbers
// of those that have factors of RoPE, which are read. UNSUPPORTED: a family or a value that is not computed here;
// BAD_MODEL: a key is missing or wrong; both name the key and its value. INVALID_ARGUMENT: as parse_config.
Result<GgufConfig> read_gguf_config(const GgufFiles& files, int64_t max_context);

}  // namespace nanolith
