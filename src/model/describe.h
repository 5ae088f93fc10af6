// What a model folder is, in words.
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

// Facts about the folder's model, tokenizer and chat format, each part either with its facts or with why it can't be
// used. Loads no weights. NOT_FOUND where there is no such folder.
Result<std::vector<ModelFact>> describe_model(const std::string& folder);

// Lines "name: value".
std::string as_text(const std::vector<ModelFact>& facts);
// One JSON object. What is not UTF-8 (in the name of a file, say) becomes U+FFFD.
std::string as_json(const std::vector<ModelFact>& facts);

}  // namespace nanolith
