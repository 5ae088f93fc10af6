#include "ops/kernels.h"

#include "attention/merge/merge_rows.h"
#include "norm/norm_rows.h"
#include "rope/rotate_rows.h"
#include "runtime/check.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

namespace {

class OwnedMemory final : public DeviceMemory {
  public:
    OwnedMemory(int device, DeviceBuffer buffer) : device_(device), buffer_(std::move(buffer)) {}
    ~OwnedMemory() override {
        const DeviceGuard guard(device_);
        buffer_ = DeviceBuffer();
    }
    [[nodiscard]] void* data() override { return buffer_.data(); }

  private:
    int device_;
    DeviceBuffer buffer_;
};

class CudaKernels final : public Kernels {
  public:
    CudaKernels(const OpsDevice& device, std::string name) : device_(device), name_(std::move(name)) {}

    [[nodiscard]] std::string device_name() const override { return name_; }
    [[nodiscard]] size_t alignment() const override { return 16; }
    Result<void> set_stream(void* stream) override {
        device_.stream = static_cast<cudaStream_t>(stream);
        return {};
    }
    Result<void> set_threads(int32_t) override { return {}; }
    Result<void> synchronize() override {
        return on_device([&]() -> Result<void> {
            NL_CUDA_TRY(cudaStreamSynchronize(device_.stream));
            return {};
        });
    }

    Result<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) override {
        const DeviceGuard guard(device_.index);
        NL_TRY(guard.result());
        NL_ASSIGN(DeviceBuffer buffer, allocate_device(static_cast<size_t>(bytes), "the cache"));
        return std::unique_ptr<DeviceMemory>(std::make_unique<OwnedMemory>(device_.index, std::move(buffer)));
    }
    Result<std::unique_ptr<PagedAttention>> create_plan(const AttentionSpec& spec,
                                                        const PlanCapacity& capacity) override {
        return create_paged_attention(device_, spec, capacity);
    }
    Result<void> merge(const MergeArguments& arguments) override {
        return on_device([&] { return merge_rows(arguments, device_.stream); });
    }
    Result<void> rms_norm(const RmsNormArguments& arguments) override {
        return on_device([&] { return norm_rows(arguments, device_.stream); });
    }
    Result<void> rope(const RopeArguments& arguments) override {
        return on_device([&] { return rotate_rows(arguments, device_.stream); });
    }

  private:
    template <typename Work>
    Result<void> on_device(const Work& work) {
        const DeviceGuard guard(device_.index);
        NL_TRY(guard.result());
        return work();
    }

    OpsDevice device_;
    std::string name_;
};

}  // namespace

std::unique_ptr<Kernels> make_kernels(const OpsDevice& device, std::string name) {
    return std::make_unique<CudaKernels>(device, std::move(name));
}

}  // namespace nanolith::cuda
