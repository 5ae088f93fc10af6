// What a model folder is, in words.
#pragma once

#include <string>

#include "base/result.h"

namespace nanolith {

// Lines "name: value" about the folder's model, tokenizer and chat format, each part either with its facts or with why
// it can't be used. Loads no weights. NOT_FOUND where there is no such folder.
Result<std::string> describe_model(const std::string& folder);

}  // namespace nanolith
