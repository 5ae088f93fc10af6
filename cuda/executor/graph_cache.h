// Forward passes that are recorded as CUDA graphs, by the shape of their batch.
#pragma once

#include <algorithm>
#include <list>

#include "batch/device_batch.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

// Keeps the most recently used graphs. The first steps of a shape are launched without a graph: the first one also loads
// kernels and chooses algorithms, neither of which a recording may do, and a recording takes longer than several steps
// save by it, so that it would be lost on shapes that soon give way to others, as when conversations end one by one.
class GraphCache {
  public:
    struct Entry {
        BatchShape shape;
        Graph graph;    // null until recorded
        int steps = 0;  // of this shape that were launched without a graph
    };

    // The entry of `shape`. Where there is none it is made, and may replace the one that was used longest ago.
    Entry& find(const BatchShape& shape) {
        const auto found =
            std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.shape == shape; });
        if (found != entries_.end()) {
            entries_.splice(entries_.begin(), entries_, found);
            return entries_.front();
        }
        if (entries_.size() >= kMaxEntries) entries_.pop_back();
        entries_.emplace_front();
        entries_.front().shape = shape;
        return entries_.front();
    }

    // To be called when arrays or the page table get new addresses, which are part of every graph.
    void clear() { entries_.clear(); }

  private:
    static constexpr size_t kMaxEntries = 64;
    std::list<Entry> entries_;
};

}  // namespace nanolith::cuda
