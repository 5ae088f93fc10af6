// What the option handles of the ABI hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nanolith/nanolith.h"

namespace nanolith {

struct EngineOptions {
    std::string device = "auto";
    int32_t dtype = NL_DTYPE_AUTO;
    int32_t page_size = 64;
    int64_t num_pages = 0;    // 0: sized from the model and the free memory
    int64_t max_context = 0;  // 0: the model's
    int32_t max_batch_tokens = 2048;
    int32_t max_output_rows = 256;
    double step_ms = 0;  // 0: see Pacer
    int64_t queue_limit = 4096;
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

struct GenerationOptions {
    int64_t max_tokens = 0;  // 0: until the context is full
    int64_t min_tokens = 0;
    std::vector<int32_t> stop_tokens;
    bool end_tokens = true;  // the model's
    std::vector<std::string> stop_texts;
    int64_t deadline_ms = 0;  // 0: none
    int32_t priority = 0;
    int32_t buffer_tokens = 1024;
    bool text = true;
};

}  // namespace nanolith
