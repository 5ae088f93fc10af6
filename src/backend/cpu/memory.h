// How much memory and how many cores the process may still take.
#pragma once

#include <cstdint>
#include <string>

namespace nanolith::cpu {

// Bytes that can be allocated now without swapping: what /proc/meminfo calls available, and less where a control
// group's limit leaves less. 0 where the system doesn't tell.
uint64_t available_memory();

// Cores that the process may run on, at least 1.
int32_t available_cores();

// "cpu (2 threads)".
std::string describe_threads(int32_t num_threads);

}  // namespace nanolith::cpu
