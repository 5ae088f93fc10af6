// What is counted of an engine's chunks, of all of them or of those of one tenant.
#pragma once

#include <cstdint>

namespace nanolith {

struct StoreNumbers {
    // Of the moment.
    int64_t chunks = 0;                       // on the device
    int64_t host_chunks = 0, host_bytes = 0;  // in the host's memory
    int64_t file_chunks = 0, file_bytes = 0;  // in the store's folder
    // Since the beginning: chunks that were found there when they were asked for, those that were computed, the tokens
    // of both, and chunks that were evicted from the device.
    int64_t hits = 0, host_hits = 0, file_hits = 0, server_hits = 0;
    int64_t misses = 0;
    int64_t tokens_reused = 0, tokens_computed = 0;
    int64_t evictions = 0;
};

}  // namespace nanolith
