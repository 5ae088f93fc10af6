// The "post_processor" of a tokenizer.json: which tokens stand around an encoded text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "files/json.h"

namespace nanolith {

struct PostProcessor {
    std::vector<int32_t> before;
    std::vector<int32_t> after;

    // Reads one; null is none. Known are BertProcessing, ByteLevel, RobertaProcessing, Sequence and
    // TemplateProcessing; others are UNSUPPORTED by their name. Tokens must be less than `vocab_size`.
    static Result<PostProcessor> read(const Json* json, int32_t vocab_size, const std::string& where);
};

}  // namespace nanolith
