// When the phases of a step began and ended on the device, for ExecutorOptions::profile.
#pragma once

#include <vector>

#include "backend/phase.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

// One event before the first phase of a step and one after each, all layers' one after the other. A step that is
// recorded into a graph has them as nodes, which set the same events each time the graph runs: so only one step may be
// in flight.
class PhaseEvents {
  public:
    static Result<PhaseEvents> create(int32_t num_layers);

    // The step's first event. `recording`: the stream's work becomes a graph.
    Result<void> begin(cudaStream_t stream, bool recording);
    // A phase has been put on the stream.
    Result<void> ended(cudaStream_t stream);
    // Of the step that ran last, which has ended: seconds of each phase, summed over the layers.
    [[nodiscard]] Result<ByPhase<double>> seconds() const;

  private:
    Result<void> record(cudaStream_t stream);

    std::vector<Event> events_;
    size_t next_ = 0;
    bool recording_ = false;
};

}  // namespace nanolith::cuda
