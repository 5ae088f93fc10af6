// The part of the CUDA runtime that the backend calls, over host memory. Device memory begins as 0xff, which reads as
// NaN, and ends at a page that can't be touched. What is put on a stream is done when the host waits for it, and not
// before: so page-locked memory that changes too early, or is read too early, shows.
#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <atomic>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "stream_work.h"

struct CUstream_st {
    bool capturing = false;
    std::vector<std::function<void()>> recorded;
    std::deque<std::function<void()>> queued;
    uint64_t done = 0;  // pieces of work that have been run

    // Runs work until so many pieces have been.
    void run_to(uint64_t count) {
        while (done < count && !queued.empty()) {
            const std::function<void()> work = std::move(queued.front());
            queued.pop_front();
            ++done;
            work();
        }
    }
    void run_all() { run_to(done + queued.size()); }
};
struct CUgraph_st {
    std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
    std::vector<std::function<void()>> work;
};
struct CUevent_st {
    cudaStream_t stream = nullptr;  // where it was recorded
    uint64_t count = 0;             // pieces of work in front of it
    // Of cudaEventRecordWithFlags: when the stream came to it.
    std::shared_ptr<std::chrono::steady_clock::time_point> time =
        std::make_shared<std::chrono::steady_clock::time_point>();
};

namespace cuda_host {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kDeviceBytes = size_t{1} << 30;  // of one allocation at most

struct Mapping {
    void* begin;
    size_t bytes;
};

std::map<void*, Mapping>& mappings() {
    static std::map<void*, Mapping> all;
    return all;
}

std::recursive_mutex& lock() {
    static std::recursive_mutex mutex;
    return mutex;
}
using Guard = std::lock_guard<std::recursive_mutex>;

std::set<cudaStream_t>& streams() {
    static std::set<cudaStream_t> all;
    return all;
}

void run_everything() {
    for (const cudaStream_t stream : streams()) stream->run_all();
}

// Device memory or page-locked memory.
bool is_allocated(const void* data) {
    const auto above = mappings().upper_bound(const_cast<void*>(data));
    if (above == mappings().begin()) return false;
    const Mapping& mapping = std::prev(above)->second;
    return static_cast<const char*>(data) < static_cast<const char*>(mapping.begin) + mapping.bytes;
}

}  // namespace

void submit(cudaStream_t stream, std::function<void()> work) {
    const Guard guard(lock());
    if (stream == nullptr) {
        run_everything();
        work();
    } else if (stream->capturing) {
        stream->recorded.push_back(std::move(work));
    } else {
        stream->queued.push_back(std::move(work));
    }
}

cudaError_t check_launch(dim3 grid, dim3 block, size_t shared_bytes) {
    constexpr size_t kMaxShared = 227 * 1024;
    const bool good = grid.x >= 1 && grid.x <= 2147483647U && grid.y >= 1 && grid.y <= 65535U && block.x >= 1 &&
                      block.x <= 1024U && shared_bytes <= kMaxShared;
    return good ? cudaSuccess : cudaErrorInvalidConfiguration;
}

}  // namespace cuda_host

extern "C" {

cudaError_t cudaMalloc(void** data, size_t bytes) {
    if (bytes > cuda_host::kDeviceBytes) return cudaErrorMemoryAllocation;
    const cuda_host::Guard guard(cuda_host::lock());
    const size_t padded = (bytes + 15) / 16 * 16;
    const size_t pages = (padded + cuda_host::kPage - 1) / cuda_host::kPage * cuda_host::kPage;
    void* const begin = mmap(nullptr, pages + cuda_host::kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED) return cudaErrorMemoryAllocation;
    mprotect(begin, pages, PROT_READ | PROT_WRITE);
    *data = static_cast<char*>(begin) + (pages - padded);
    std::memset(*data, 0xff, padded);
    cuda_host::mappings()[*data] = {begin, pages + cuda_host::kPage};
    return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
    const cuda_host::Guard guard(cuda_host::lock());
    if (data == nullptr) return cudaSuccess;
    cuda_host::run_everything();
    const auto found = cuda_host::mappings().find(data);
    if (found == cuda_host::mappings().end()) return cudaErrorInvalidValue;
    munmap(found->second.begin, found->second.bytes);
    cuda_host::mappings().erase(found);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
    return cudaMalloc(data, bytes);
}
cudaError_t cudaFreeHost(void* data) {
    return cudaFree(data);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    const cuda_host::Guard guard(cuda_host::lock());
    if (!cuda_host::is_allocated(from)) {  // leaves pageable memory before the call returns
        const auto* const bytes_now = static_cast<const char*>(from);
        cuda_host::submit(stream, [to, staged = std::vector<char>(bytes_now, bytes_now + bytes)] {
            std::memcpy(to, staged.data(), staged.size());
        });
        return cudaSuccess;
    }
    cuda_host::submit(stream, [=] { std::memcpy(to, from, bytes); });
    if (stream != nullptr && !cuda_host::is_allocated(to)) stream->run_all();
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
    const cuda_host::Guard guard(cuda_host::lock());
    cuda_host::run_everything();
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    const cuda_host::Guard guard(cuda_host::lock());
    cuda_host::run_everything();
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
    cuda_host::submit(stream, [=] { std::memset(to, value, bytes); });
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
    *free_bytes = *total_bytes = cuda_host::kDeviceBytes;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    const cuda_host::Guard guard(cuda_host::lock());
    *stream = new CUstream_st;
    cuda_host::streams().insert(*stream);
    return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    return cudaStreamCreateWithFlags(stream, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const cuda_host::Guard guard(cuda_host::lock());
    stream->run_all();
    cuda_host::streams().erase(stream);
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    const cuda_host::Guard guard(cuda_host::lock());
    if (stream == nullptr) return cudaDeviceSynchronize();
    if (stream->capturing) return cudaErrorStreamCaptureUnsupported;
    stream->run_all();
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    stream->capturing = true;
    stream->recorded.clear();
    return cudaSuccess;
}
// Every third capture is ended from outside, as a call of another thread that waits for the whole device would.
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    static std::atomic<int> captures = 0;
    stream->capturing = false;
    if (++captures % 3 == 0) {
        stream->recorded.clear();
        return cudaErrorStreamCaptureInvalidated;
    }
    *graph = new CUgraph_st{std::move(stream->recorded)};
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
    *exec = new CUgraphExec_st{graph->work};
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiate(exec, graph, flags);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    for (const auto& work : exec->work) cuda_host::submit(stream, work);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    delete exec;
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    *event = new CUevent_st;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const cuda_host::Guard guard(cuda_host::lock());
    event->stream = stream;
    event->count = stream == nullptr ? 0 : stream->done + stream->queued.size();
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    cuda_host::submit(stream, [source = event->stream, count = event->count] {
        if (cuda_host::streams().count(source) > 0) source->run_to(count);
    });
    return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
    cuda_host::submit(stream, [time = event->time] { *time = std::chrono::steady_clock::now(); });
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    *milliseconds = std::chrono::duration<float, std::milli>(*end->time - *begin->time).count();
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    const cuda_host::Guard guard(cuda_host::lock());
    if (cuda_host::streams().count(event->stream) > 0) event->stream->run_to(event->count);
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    std::strcpy(properties->name, "emulated on the host");
    properties->major = 9;
    properties->minor = 0;
    properties->multiProcessorCount = 4;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    // Few multiprocessors, so that small models reach both ways to share out matrix-vector work.
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 4;
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
    *attributes = {};
    attributes->ptxVersion = 90;
    attributes->numRegs = 255;  // of kernels that have code for this device
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t* config) {
    *clusters = 4 / static_cast<int>(config->attrs[0].val.clusterDim.x);
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetLastError() {
    return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t status) {
    return status == cudaSuccess ? "cudaSuccess" : "cudaError";
}
const char* cudaGetErrorString(cudaError_t) {
    return "an error of the host emulation";
}

}  // extern "C"
