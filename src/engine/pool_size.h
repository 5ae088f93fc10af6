// How many pages an engine reserves.
#pragma once

#include <cstdint>

#include "backend/dtype.h"
#include "backend/model_spec.h"
#include "base/result.h"

namespace nanolith {

// Bytes of one page over all layers: K and V of page_size tokens in the KV cache's dtype.
int64_t page_bytes(const ModelSpec& spec, int32_t page_size, DType kv_dtype);

struct PoolRequest {
    int64_t wanted = 0;  // 0: choose
    int64_t page_bytes = 0;
    int64_t pages_per_context = 0;  // of the longest context
    int64_t page_size = 0;
    uint64_t memory = 0;       // bytes that the device could give now
    int64_t weight_bytes = 0;  // of these, what the weights will take
};

// The wanted number, or what suits the memory. OUT_OF_MEMORY where the device can't hold it: an overcommitting
// host would grant the pool and kill the program when it is written.
Result<int32_t> choose_num_pages(const PoolRequest& request);

}  // namespace nanolith
