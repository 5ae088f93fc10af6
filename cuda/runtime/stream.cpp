#include "runtime/stream.h"

#include "runtime/check.h"

namespace nanolith::cuda {

void DestroyStream::operator()(cudaStream_t stream) const noexcept {
    cudaStreamDestroy(stream);
}
void DestroyEvent::operator()(cudaEvent_t event) const noexcept {
    cudaEventDestroy(event);
}
void DestroyGraph::operator()(cudaGraphExec_t graph) const noexcept {
    cudaGraphExecDestroy(graph);
}

Result<Stream> create_stream() {
    cudaStream_t stream = nullptr;
    NL_CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return Stream(stream);
}

Result<Event> create_event() {
    cudaEvent_t event = nullptr;
    NL_CUDA_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return Event(event);
}

Result<Event> create_timed_event() {
    cudaEvent_t event = nullptr;
    NL_CUDA_TRY(cudaEventCreateWithFlags(&event, cudaEventDefault));
    return Event(event);
}

DeviceGuard::DeviceGuard(int device) {
    status_ = cudaGetDevice(&former_);
    if (status_ != cudaSuccess) {
        former_ = -1;
        return;
    }
    if (former_ == device) {
        former_ = -1;
        return;
    }
    status_ = cudaSetDevice(device);
}

DeviceGuard::~DeviceGuard() {
    if (former_ >= 0) cudaSetDevice(former_);
}

Result<void> DeviceGuard::result() const {
    if (status_ != cudaSuccess) return cuda_error(status_, "cudaSetDevice");
    return {};
}

Result<void> begin_recording(cudaStream_t stream) {
    // In this mode calls of other threads meanwhile neither fail nor end the recording, but for two, as measured with
    // CUDA 13.0: cudaDeviceSynchronize fails and ends it, cublasLtDestroy ends it.
    NL_CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    return {};
}

Result<Graph> end_recording(cudaStream_t stream) {
    cudaGraph_t recorded = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &recorded);
    if (ended == cudaErrorStreamCaptureInvalidated) {
        cudaGetLastError();
        return Graph();
    }
    if (ended != cudaSuccess) return cuda_error(ended, "cudaStreamEndCapture");
    cudaGraphExec_t graph = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&graph, recorded, 0);
    cudaGraphDestroy(recorded);
    if (status != cudaSuccess) return cuda_error(status, "cudaGraphInstantiate");
    return Graph(graph);
}

}  // namespace nanolith::cuda
