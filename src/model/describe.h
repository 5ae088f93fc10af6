// What is in a model folder, as facts with names: nl_model_describe.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"

namespace nanolith {

struct ModelFact {
    std::string name;
    std::variant<std::string, int64_t> value;
};

// Facts about the folder's model, tokenizer and chat format. A part that can't be used has one fact, which says why.
// Weights are not loaded. NOT_FOUND where there is no such folder.
Result<std::vector<ModelFact>> describe_model(const std::string& folder);

// The facts as lines "name: value".
std::string as_text(const std::vector<ModelFact>& facts);
// The facts as one JSON object. Bytes that are not UTF-8 (in a file's name, say) become U+FFFD.
std::string as_json(const std::vector<ModelFact>& facts);

}  // namespace nanolith
