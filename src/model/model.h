// A Hugging Face model folder in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "files/mapped_file.h"

namespace nanolith {

// Immutable once loaded, and so usable from any thread. Owns the file mappings that the weights point into.
struct Model {
    ModelSpec spec;
    ModelWeights weights;
    std::string architecture;         // its name in config.json
    std::vector<int32_t> end_tokens;  // below spec.vocab_size; may be empty
    DType file_dtype = DType::f32;    // of the projections, see projection_dtype
    int64_t num_parameters = 0;       // a tied head counted once
    std::vector<int32_t> head_order;  // the weights point into it
    std::vector<MappedFile> files;
};

// Loads config.json, generation_config.json where there is one, and model.safetensors or its shards. Maps the weights
// and touches none of them. Every file is treated as hostile.
// `max_context` is the longest context wanted, 0 the model's own: it chooses among the rotations of models that have
// one for short and one for long contexts. INVALID_ARGUMENT: it is more than the model holds. NOT_FOUND: a file is
// missing. BAD_MODEL: one is damaged, or they contradict each other. UNSUPPORTED: a model that is not computed here.
// The message names the file, the field or tensor, what it is and what was expected.
Result<std::unique_ptr<Model>> load_model(const std::string& folder, int64_t max_context = 0);

}  // namespace nanolith
