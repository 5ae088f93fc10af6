// How a conversation draws its tokens: what the options of kind NL_OPTIONS_SAMPLING say. Names, bounds and defaults for
// callers are in src/api/option_table.cpp; the defaults here are the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/batch.h"

namespace nanolith {

struct LogitBias {
    int32_t token = 0;
    float bias = 0;

    bool operator==(const LogitBias&) const = default;
};

struct SamplingOptions {
    float temperature = 0;
    int32_t top_k = 0;
    float top_p = 1;
    float min_p = 0;
    uint64_t seed = 0;
    float repetition_penalty = 1;
    float frequency_penalty = 0;
    float presence_penalty = 0;
    int32_t penalty_window = 64;
    std::vector<LogitBias> biases = {};
    std::vector<int32_t> banned = {};
    std::vector<int32_t> allowed = {};  // empty: all
    float dry_multiplier = 0;           // 0: no DRY
    float dry_base = 1.75F;
    int32_t dry_allowed_length = 2;
    int32_t dry_window = 1024;
    std::vector<std::string> dry_breakers = {};  // empty: the four defaults; if all are empty texts, nothing breaks
    float xtc_probability = 0;                   // 0: no XTC
    float xtc_threshold = 0.1F;
    float typical_p = 1;
    float mirostat_tau = 0;  // 0: no Mirostat
    float mirostat_eta = 0.1F;
    std::vector<Filter> order = {};  // empty: as SampleParams::order

    bool operator==(const SamplingOptions&) const = default;
};

}  // namespace nanolith
