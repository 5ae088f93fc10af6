// The functions that libnanolith_cuda.so exports, and the Backend that nl_backend_open makes.
#include <cuda_runtime_api.h>

#include <exception>
#include <new>
#include <string>

#include "backend/backend.h"
#include "executor/executor.h"
#include "ops/kernels.h"
#include "runtime/check.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

namespace {

// The least compute capability: Ampere, the first with bfloat16.
constexpr int kMinMajor = 8;

class CudaBackend final : public Backend {
  public:
    CudaBackend(int index, int major, std::string name) : index_(index), major_(major), name_(std::move(name)) {}

    [[nodiscard]] std::string device_name() const override { return name_; }
    [[nodiscard]] bool supports(DType) const override { return true; }
    [[nodiscard]] bool keeps_compact() const override { return cuda::keeps_compact(major_); }

    [[nodiscard]] Result<uint64_t> available_memory() const override {
        const DeviceGuard guard(index_);
        NL_TRY(guard.result());
        size_t free_bytes = 0;
        size_t total_bytes = 0;
        NL_CUDA_TRY(cudaMemGetInfo(&free_bytes, &total_bytes));
        return uint64_t{free_bytes};
    }

    Result<std::unique_ptr<Executor>> create_executor(const ModelSpec& spec, const ModelWeights& weights,
                                                      const ExecutorOptions& options,
                                                      const Progress& progress) override {
        return create_cuda_executor(index_, spec, weights, options, progress);
    }

  private:
    int index_;
    int major_;  // of the compute capability
    std::string name_;
};

std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string name_of(const cudaDeviceProp& properties, int index) {
    return "cuda:" + std::to_string(index) + " " + properties.name;
}

// Why there is no device: the driver is missing, too old, or shows none.
Error no_device(cudaError_t status) {
    int driver = 0;
    int runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    cudaGetLastError();
    if (driver == 0) return fail(NL_ERROR_NOT_FOUND, "there is no NVIDIA driver: ", cudaGetErrorString(status));
    if (status == cudaErrorInsufficientDriver) {
        return fail(NL_ERROR_NOT_FOUND, "the NVIDIA driver supports CUDA ", version_text(driver),
                    ", older than the runtime's ", version_text(runtime), ": update the driver");
    }
    return fail(NL_ERROR_NOT_FOUND, "there is no CUDA device: ", cudaGetErrorName(status), ": ",
                cudaGetErrorString(status));
}

// Device `index`, if `version` is this library's own and the device is new enough.
Result<cudaDeviceProp> find_device(const char* version, int32_t index) {
    const std::string own_version = std::to_string(NL_VERSION_MAJOR) + "." + std::to_string(NL_VERSION_MINOR) + "." +
                                    std::to_string(NL_VERSION_PATCH);
    if (version == nullptr || own_version != version) {
        return fail(NL_ERROR_NOT_FOUND, "libnanolith_cuda.so has version ", own_version, ": expected ",
                    version == nullptr ? "none" : version, ", the version of libnanolith.so");
    }
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) return no_device(status);
    if (count == 0) return no_device(cudaErrorNoDevice);
    if (index < 0 || index >= count) {
        return fail(NL_ERROR_NOT_FOUND, "there is no device cuda:", index, ", the driver shows ", count);
    }
    cudaDeviceProp properties{};
    NL_CUDA_TRY(cudaGetDeviceProperties(&properties, index));
    if (properties.major < kMinMajor) {
        return fail(NL_ERROR_UNSUPPORTED, name_of(properties, index), " has compute capability ", properties.major, ".",
                    properties.minor, ": expected at least ", kMinMajor, ".0");
    }
    return properties;
}

Result<std::unique_ptr<Backend>> open_backend(const char* version, int32_t index) {
    NL_ASSIGN(const cudaDeviceProp properties, find_device(version, index));
    return std::unique_ptr<Backend>(std::make_unique<CudaBackend>(index, properties.major, name_of(properties, index)));
}

Result<std::unique_ptr<Kernels>> open_kernels(const char* version, int32_t index) {
    NL_ASSIGN(const cudaDeviceProp properties, find_device(version, index));
    OpsDevice device;
    device.index = index;
    device.gpu = {properties.multiProcessorCount, properties.major};
    return make_kernels(device, name_of(properties, index));
}

// Runs open() and catches what it throws: no exception may cross into the library that loaded this one.
template <typename Opened, typename Open>
void open_guarded(const Open& open, Result<Opened>& result) {
    try {
        result = open();
    } catch (const std::bad_alloc&) {
        result = fail(NL_ERROR_OUT_OF_MEMORY, "host memory is exhausted");
    } catch (const std::exception& error) {
        result = fail(NL_ERROR_INTERNAL, error.what());
    }
}

}  // namespace

}  // namespace nanolith::cuda

extern "C" __attribute__((visibility("default"))) void nl_backend_open(
    const char* version, int32_t index, nanolith::Result<std::unique_ptr<nanolith::Backend>>& result) {
    nanolith::cuda::open_guarded([&] { return nanolith::cuda::open_backend(version, index); }, result);
}

extern "C" __attribute__((visibility("default"))) void nl_kernels_open(
    const char* version, int32_t index, nanolith::Result<std::unique_ptr<nanolith::Kernels>>& result) {
    nanolith::cuda::open_guarded([&] { return nanolith::cuda::open_kernels(version, index); }, result);
}
