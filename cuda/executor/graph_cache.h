// Forward passes that are recorded as CUDA graphs, by the shape of their batch.
#pragma once

#include <algorithm>
#include <list>

#include "batch/device_batch.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

// Keeps the most recently used graphs. A step is recorded when its shape is met for the second time: the first time it
// is launched without a graph, which also loads kernels and chooses algorithms, neither of which a recording may do.
class GraphCache {
  public:
    struct Entry {
        BatchShape shape;
        Graph graph;        // null until recorded
        bool seen = false;  // a step of this shape has been launched
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
