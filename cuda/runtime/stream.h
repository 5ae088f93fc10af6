// Owners of streams, events and graphs, and the choice of the current device.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "base/result.h"

namespace nanolith::cuda {

struct DestroyStream {
    void operator()(cudaStream_t stream) const noexcept;
};
struct DestroyEvent {
    void operator()(cudaEvent_t event) const noexcept;
};
struct DestroyGraph {
    void operator()(cudaGraphExec_t graph) const noexcept;
};

using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraph>;

// A stream that does not wait for the default stream of the host program.
Result<Stream> create_stream();
// An event that can be waited for; it takes no time.
Result<Event> create_event();
// An event with one.
Result<Event> create_timed_event();

// Makes a device current for the calling thread while the guard lives, and the device that was current before again at
// its end, since the host program may use CUDA itself. result() tells whether it worked.
class DeviceGuard {
  public:
    explicit DeviceGuard(int device);
    ~DeviceGuard();
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;

    [[nodiscard]] Result<void> result() const;

  private:
    int former_ = -1;  // -1: nothing to restore
    cudaError_t status_ = cudaSuccess;
};

// Records what `enqueue` puts on `stream` as a graph, instead of running it. An error of `enqueue` is returned as it
// is, and the stream is as before. The graph is null where another thread of the program ended the recording, by
// cudaDeviceSynchronize or cublasLtDestroy, which the end of another engine calls: these end all recordings on the
// device. `enqueue` may then have failed because of that.
template <typename Enqueue>
Result<Graph> record_graph(cudaStream_t stream, const Enqueue& enqueue);

// The two halves of record_graph.
Result<void> begin_recording(cudaStream_t stream);
Result<Graph> end_recording(cudaStream_t stream);

template <typename Enqueue>
Result<Graph> record_graph(cudaStream_t stream, const Enqueue& enqueue) {
    NL_TRY(begin_recording(stream));
    Result<void> enqueued;
    try {
        enqueued = enqueue();
    } catch (...) {  // host memory ran out
        const Result<Graph> ended = end_recording(stream);
        throw;
    }
    Result<Graph> graph = end_recording(stream);
    const bool ended_from_outside = graph.ok() && *graph == nullptr;
    if (!enqueued.ok() && !ended_from_outside) return std::move(enqueued.error());
    return graph;
}

}  // namespace nanolith::cuda
