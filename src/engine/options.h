// What the option handles of the ABI hold.
#pragma once

#include <cstdint>
#include <string>

#include "nanolith/nanolith.h"

namespace nanolith {

struct EngineOptions {
    std::string device = "auto";
    int32_t dtype = NL_DTYPE_AUTO;
    int32_t page_size = 64;
    int64_t num_pages = 0;    // 0: sized from the model and the free memory
    int64_t max_context = 0;  // 0: the model's
    int32_t max_batch_tokens = 512;
    int32_t num_threads = 0;  // 0: all that the process may use
    nl_log_callback log = nullptr;
    void* log_user_data = nullptr;
};

struct SamplingOptions {
    float temperature = 0;
    int32_t top_k = 0;
    float top_p = 1;
    float min_p = 0;
    uint64_t seed = 0;
};

}  // namespace nanolith
