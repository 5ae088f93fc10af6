// The CPU as a Backend.
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>

#include "backend/backend.h"
#include "backend/check_model.h"
#include "backend/cpu/cpu_executor.h"
#include "backend/cpu/memory.h"
#include "base/cores.h"

namespace nanolith {
namespace {

constexpr int32_t kMaxThreads = 1024;

Result<void> check_threads(int32_t num_threads) {
    if (num_threads >= 0 && num_threads <= kMaxThreads) return {};
    return fail(NL_ERROR_INVALID_ARGUMENT, "num_threads is ", num_threads, ": expected 0 to ", kMaxThreads);
}

class CpuBackend final : public Backend {
  public:
    explicit CpuBackend(std::unique_ptr<ThreadPool> pool) : pool_(std::move(pool)) {}

    [[nodiscard]] std::string device_name() const override { return cpu::describe_threads(pool_->num_threads()); }
    [[nodiscard]] bool supports(DType dtype) const override { return dtype != DType::f16; }
    [[nodiscard]] bool keeps_compact() const override { return true; }
    [[nodiscard]] Result<uint64_t> available_memory() const override {
        const uint64_t bytes = cpu::available_memory();
        if (bytes == 0) return fail(NL_ERROR_DEVICE, "the system does not tell how much memory is available");
        return bytes;
    }

    Result<std::unique_ptr<Executor>> create_executor(const ModelSpec& spec, const ModelWeights& weights,
                                                      const ExecutorOptions& options,
                                                      const Progress& progress) override {
        if (!supports(options.dtype))
            return fail(NL_ERROR_UNSUPPORTED, "dtype ", dtype_name(options.dtype),
                        " on the CPU: expected float32 or bfloat16");
        NL_TRY(check_model(spec, weights, options));
        const uint64_t told = cpu::available_memory();
        const uint64_t available = told == 0 ? std::numeric_limits<uint64_t>::max() : told;
        try {
            if (options.dtype == DType::f32)
                return cpu::CpuExecutor<float>::create(spec, weights, options, *pool_, available, progress);
            return cpu::CpuExecutor<BFloat16>::create(spec, weights, options, *pool_, available, progress);
        } catch (const std::bad_alloc&) {
            return fail(NL_ERROR_OUT_OF_MEMORY, "memory ran out while the model was made ready, with ", available,
                        " bytes available at the beginning");
        } catch (const std::length_error& error) {
            return fail(NL_ERROR_OUT_OF_MEMORY, "a size of the model is beyond what memory can hold: ", error.what());
        }
    }

  private:
    std::unique_ptr<ThreadPool> pool_;
};

}  // namespace

Result<std::unique_ptr<Backend>> open_cpu_backend(int32_t num_threads,
                                                  const std::function<void(const std::string&)>& warn) {
    NL_TRY(check_threads(num_threads));
    const int32_t wanted = num_threads == 0 ? available_cores() : num_threads;
    std::string reason;
    auto pool = ThreadPool::create(wanted, [&](const std::string& why) { reason = why; });
    if (pool->num_threads() < wanted && warn) {
        warn("the CPU backend works with " + std::to_string(pool->num_threads()) + " of " + std::to_string(wanted) +
             " threads, since the system makes no more: " + reason);
    }
    return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(std::move(pool)));
}

}  // namespace nanolith
