// Recorded steps, by the shape of their batch.
#pragma once

#include <algorithm>
#include <list>

#include "batch/device_batch.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

// The most recently used graphs. A shape is worth a graph when it comes for the second time: the first run goes
// without one, which also loads the kernels and chooses the algorithms that a recording may not.
class GraphCache {
  public:
    struct Entry {
        BatchShape shape;
        Graph graph;  // null until recorded
        bool seen = false;
    };

    // The entry of `shape`, made where there is none, which may drop the one that was used longest ago.
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

    void clear() { entries_.clear(); }

  private:
    static constexpr size_t kMaxEntries = 64;
    std::list<Entry> entries_;
};

}  // namespace nanolith::cuda
