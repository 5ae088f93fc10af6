// How much memory the process may still take, and how many threads it takes.
#pragma once

#include <cstdint>
#include <string>

namespace nanolith::cpu {

// Bytes that can be allocated now without swapping: what /proc/meminfo calls available, and less where a control
// group's limit leaves less. 0 where the system doesn't tell.
uint64_t available_memory();

// "cpu (2 threads)".
std::string describe_threads(int32_t num_threads);

}  // namespace nanolith::cpu
