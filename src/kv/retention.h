// Which of the chunks that nobody uses is evicted first when room is needed: one of the highest level, among these one
// of the lowest priority, and among these the one of the least worth. The worth weighs the cost of recomputing a chunk
// against how long ago it was used, by GreedyDual (Cao and Irani, Cost-Aware WWW Proxy Caching Algorithms, 1997): when
// a chunk is used, its worth becomes its cost plus the worth of the chunk of that level that was evicted last. So
// chunks of equal cost are evicted in the order of their last use, and one that costs more stays longer than that.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "nanolith/nanolith.h"

namespace nanolith {

struct Retention {
    int32_t level = 0;  // NL_LEVEL_*
    int32_t priority = NL_PRIORITY_NORMAL;
    double cost = 1;  // of recomputing one page of the chunk (recompute_cost)
    double worth = 0;
    uint64_t last_used = 0;  // ticks of the RetentionClock

    [[nodiscard]] bool pinned() const { return priority == NL_PRIORITY_PINNED; }
    [[nodiscard]] bool goes_before(const Retention& other) const {
        if (level != other.level) return level > other.level;
        if (priority != other.priority) return priority < other.priority;
        return worth != other.worth ? worth < other.worth : last_used < other.last_used;
    }
};

// Is told of the uses and evictions in one tier, and sets what follows from them.
class RetentionClock {
  public:
    void use(Retention& item) {
        item.last_used = ++ticks_;
        item.worth = evicted_worth_[static_cast<size_t>(item.level)] + item.cost;
    }
    void evicted(const Retention& item) {
        double& worth = evicted_worth_[static_cast<size_t>(item.level)];
        worth = std::max(worth, item.worth);
    }

  private:
    uint64_t ticks_ = 0;
    std::array<double, 3> evicted_worth_{};  // of each level: the largest worth of a chunk that was evicted
};

}  // namespace nanolith
