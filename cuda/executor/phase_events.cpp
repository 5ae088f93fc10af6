#include "executor/phase_events.h"

#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

constexpr size_t kPhasesOfLayer = kNumPhases - 1;  // all but the head

}  // namespace

Result<PhaseEvents> PhaseEvents::create(int32_t num_layers) {
    PhaseEvents made;
    const size_t count = 1 + kPhasesOfLayer * static_cast<size_t>(num_layers) + 1;
    made.events_.reserve(count);
    while (made.events_.size() < count) {
        NL_ASSIGN(Event event, create_timed_event());
        made.events_.push_back(std::move(event));
    }
    return made;
}

Result<void> PhaseEvents::begin(cudaStream_t stream, bool recording) {
    next_ = 0;
    recording_ = recording;
    return record(stream);
}

Result<void> PhaseEvents::ended(cudaStream_t stream) {
    return record(stream);
}

Result<void> PhaseEvents::record(cudaStream_t stream) {
    const unsigned flags = recording_ ? cudaEventRecordExternal : cudaEventRecordDefault;
    NL_CUDA_TRY(cudaEventRecordWithFlags(events_[next_].get(), stream, flags));
    ++next_;
    return {};
}

Result<ByPhase<double>> PhaseEvents::seconds() const {
    ByPhase<double> seconds{};
    for (size_t i = 0; i + 1 < events_.size(); ++i) {
        float milliseconds = 0;
        NL_CUDA_TRY(cudaEventElapsedTime(&milliseconds, events_[i].get(), events_[i + 1].get()));
        const bool is_head = i + 2 == events_.size();
        seconds[is_head ? index_of(Phase::head) : i % kPhasesOfLayer] += 1e-3 * static_cast<double>(milliseconds);
    }
    return seconds;
}

}  // namespace nanolith::cuda
