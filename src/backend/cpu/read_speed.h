// How fast this machine reads memory.
#pragma once

#include "base/thread_pool.h"

namespace nanolith::cpu {

// Bytes a second that the pool's threads read together, the best of a few turns over more memory than caches hold. It
// takes some 0.2 s and 256 MiB while it runs; OUT_OF_MEMORY where these can't be had.
Result<double> measure_read_speed(ThreadPool& pool);

}  // namespace nanolith::cpu
