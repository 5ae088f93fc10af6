#include "backend/cpu/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace nanolith::cpu {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

// What `read` makes of the file; unknown where it can't be read. A stream keeps exceptions to itself unless it is told
// not to, and std::bad_alloc must not pass for a file that says nothing.
template <typename Read>
uint64_t number_from(const std::string& path, Read&& read) {
    std::ifstream file(path);
    file.exceptions(std::ios::badbit);
    try {
        return read(file);
    } catch (const std::ios::failure&) {
        return kUnknown;
    }
}

// The number that follows `key` in a file of "key number" lines.
uint64_t number_after(const std::string& path, const std::string& key) {
    return number_from(path, [&key](std::ifstream& file) {
        std::string word;
        uint64_t number = 0;
        while (file >> word) {
            if (word == key) return file >> number ? number : kUnknown;
            file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
        }
        return kUnknown;
    });
}

uint64_t number_in(const std::string& path) {
    return number_from(path, [](std::ifstream& file) {
        uint64_t number = 0;
        return file >> number ? number : kUnknown;
    });
}

// Limit less use, where file pages that can be dropped don't count as used.
uint64_t left_of(uint64_t limit, uint64_t used, uint64_t droppable) {
    if (limit == kUnknown || used == kUnknown) return kUnknown;
    const uint64_t held = used - std::min(used, droppable == kUnknown ? 0 : droppable);
    return limit - std::min(limit, held);
}

uint64_t control_group_memory() {
    const std::string v2 = "/sys/fs/cgroup/";
    const std::string v1 = "/sys/fs/cgroup/memory/";
    return std::min(left_of(number_in(v2 + "memory.max"), number_in(v2 + "memory.current"),
                            number_after(v2 + "memory.stat", "inactive_file")),
                    left_of(number_in(v1 + "memory.limit_in_bytes"), number_in(v1 + "memory.usage_in_bytes"),
                            number_after(v1 + "memory.stat", "total_inactive_file")));
}

}  // namespace

uint64_t available_memory() {
    const uint64_t kilobytes = number_after("/proc/meminfo", "MemAvailable:");
    const uint64_t system = kilobytes == kUnknown ? kUnknown : kilobytes * 1024;
    const uint64_t available = std::min(system, control_group_memory());
    return available == kUnknown ? 0 : available;
}

std::string describe_threads(int32_t num_threads) {
    return "cpu (" + std::to_string(num_threads) + (num_threads == 1 ? " thread)" : " threads)");
}

}  // namespace nanolith::cpu
