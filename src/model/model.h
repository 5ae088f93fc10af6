// A model in memory: a Hugging Face folder's, or a GGUF file's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/dtype.h"
#include "backend/model_spec.h"
#include "backend/model_weights.h"
#include "base/result.h"
#include "model/decoded_weights.h"
#include "model/packed/packed_matrix.h"
#include "model/weight_file.h"

namespace nanolith {

// The tensors of a model's files that have one number format.
struct StoredType {
    std::string name;  // "Q4_K"
    int64_t tensors = 0;
    int64_t bytes = 0;
};

// Usable from any thread as long as none changes it. Owns the files that the weights point into: a backend loads the
// weights, then finish_loading is called.
struct Model {
    ModelSpec spec;
    ModelWeights weights;
    std::string architecture;         // its name in config.json
    std::vector<int32_t> end_tokens;  // below spec.vocab_size; may be empty
    DType file_dtype = DType::f32;    // of the projections, see projection_dtype
    int64_t num_parameters = 0;       // a tied head counted once
    std::vector<int32_t> head_order;  // the weights point into it
    std::vector<std::unique_ptr<WeightFile>> files;
    PackedMatrices packed;                    // of a folder with packed weights
    std::unique_ptr<DecodedWeights> decoded;  // of a GGUF file; null else
    std::string format = "safetensors";
    std::vector<StoredType> stored;       // of a GGUF file: its types, those with the most bytes first
    std::string folder;                   // or file that it was loaded from; empty: it was made in memory
    std::vector<FileFacts> weight_files;  // what was loaded, in no particular order
};

// Loads the model at `path`: a GGUF file (see load_gguf_model), or a folder with config.json, generation_config.json
// where there is one, and model.safetensors or its shards. Reads no weights but the scales and zero points of those in
// 8 or 4 bits. Every file is treated as hostile. `max_context` is the longest context wanted, 0 the model's own: it
// chooses among the rotations of models that have one for short and one for long contexts. INVALID_ARGUMENT: it is more
// than the model holds. NOT_FOUND: a file is missing. BAD_MODEL: one is damaged, or they contradict each other.
// UNSUPPORTED: a model that is not computed here. The message names the file, the field or tensor, what it is and what
// was expected.
Result<std::unique_ptr<Model>> load_model(const std::string& path, int64_t max_context = 0,
                                          WeightPlace place = WeightPlace::mapped);

// To be called when a backend has loaded the weights. `in_place`: it goes on to use them where they lie; else the
// files are unmapped, and the weights are gone. Gives the tensors that have elements which are NaN or infinite. IO: a
// file has changed meanwhile.
Result<std::vector<NotFinite>> finish_loading(Model& model, bool in_place);

}  // namespace nanolith
