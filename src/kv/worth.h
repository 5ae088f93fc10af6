// Which of the chunks that nobody uses goes first when room is needed: of the highest level, among these of the lowest
// priority, among these of the least worth. The worth weighs what recomputing costs against how long ago the chunk was
// used, as GreedyDual does (Cao and Irani, Cost-Aware WWW Proxy Caching Algorithms, 1997): at each use it becomes the
// cost plus the worth of the chunk of that level that was evicted last. Chunks of equal cost so go in the order of
// their last use, and a chunk that costs twice as much outlives the evictions of one more round of others.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "nanolith/nanolith.h"

namespace nanolith {

struct Worth {
    int32_t level = 0;  // NL_LEVEL_*
    int32_t priority = NL_PRIORITY_NORMAL;
    double cost = 1;  // of recomputing it, a page: see recompute_cost
    double worth = 0;
    uint64_t last_used = 0;  // ticks of the store

    [[nodiscard]] bool pinned() const { return priority == NL_PRIORITY_PINNED; }
    [[nodiscard]] bool goes_before(const Worth& other) const {
        if (level != other.level) return level > other.level;
        if (priority != other.priority) return priority < other.priority;
        return worth != other.worth ? worth < other.worth : last_used < other.last_used;
    }
};

// The clock of one store.
class WorthClock {
  public:
    void use(Worth& item) {
        item.last_used = ++ticks_;
        item.worth = floors_[static_cast<size_t>(item.level)] + item.cost;
    }
    void evicted(const Worth& item) {
        double& floor = floors_[static_cast<size_t>(item.level)];
        floor = std::max(floor, item.worth);
    }

  private:
    uint64_t ticks_ = 0;
    std::array<double, 3> floors_{};  // of each level
};

}  // namespace nanolith
