// The CPU as a Backend.
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/cpu_executor.h"
#include "backend/cpu/memory.h"

namespace nanolith {
namespace {

constexpr int32_t kMaxThreads = 1024;

// Dividing by zero and negative sizes stop here; what the weights' shapes must be is checked as they are loaded.
Result<void> check_spec(const ModelSpec& spec) {
    const auto positive = [](const char* name, int32_t value) -> Result<void> {
        if (value >= 1) return {};
        return fail(NL_ERROR_INVALID_ARGUMENT, "spec.", name, " is ", value, ", expected at least 1");
    };
    NL_TRY(positive("num_layers", spec.num_layers));
    NL_TRY(positive("hidden_size", spec.hidden_size));
    NL_TRY(positive("intermediate_size", spec.intermediate_size));
    NL_TRY(positive("num_heads", spec.num_heads));
    NL_TRY(positive("num_kv_heads", spec.num_kv_heads));
    NL_TRY(positive("head_dim", spec.head_dim));
    NL_TRY(positive("vocab_size", spec.vocab_size));
    NL_TRY(positive("max_context", spec.max_context));
    if (spec.num_heads % spec.num_kv_heads != 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "spec.num_heads is ", spec.num_heads,
                    ", expected a multiple of num_kv_heads ", spec.num_kv_heads);
    if (spec.head_dim % 2 != 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "spec.head_dim is ", spec.head_dim, ", expected an even one");
    if (spec.rope_frequencies.size() != static_cast<size_t>(spec.head_dim / 2))
        return fail(NL_ERROR_INVALID_ARGUMENT, "spec.rope_frequencies has ", spec.rope_frequencies.size(),
                    " elements, expected ", spec.head_dim / 2);
    return {};
}

Result<void> check_options(const ExecutorOptions& options) {
    const int32_t size = options.page_size;
    if (size < 16 || size > 256 || (size & (size - 1)) != 0)
        return fail(NL_ERROR_INVALID_ARGUMENT, "page_size is ", size, ", expected a power of two from 16 to 256");
    if (options.num_pages < 1 || options.num_pages > std::numeric_limits<int32_t>::max() / size)
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_pages is ", options.num_pages, ", expected 1 to ",
                    std::numeric_limits<int32_t>::max() / size);
    if (options.max_rows < 1)
        return fail(NL_ERROR_INVALID_ARGUMENT, "max_rows is ", options.max_rows, ", expected at least 1");
    if (options.max_output_rows < 1)
        return fail(NL_ERROR_INVALID_ARGUMENT, "max_output_rows is ", options.max_output_rows, ", expected at least 1");
    if (options.num_threads < 0 || options.num_threads > kMaxThreads)
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_threads is ", options.num_threads, ", expected 0 to ", kMaxThreads);
    return {};
}

class CpuBackend final : public Backend {
  public:
    explicit CpuBackend(int32_t num_threads) : num_threads_(num_threads) {}

    [[nodiscard]] std::string device_name() const override {
        return "cpu (" + std::to_string(num_threads_) + (num_threads_ == 1 ? " thread)" : " threads)");
    }
    [[nodiscard]] bool supports(DType dtype) const override { return dtype != DType::f16; }
    [[nodiscard]] bool prefers_16_bit() const override { return has_bfloat16_products(); }
    [[nodiscard]] Result<uint64_t> available_memory() const override {
        const uint64_t bytes = cpu::available_memory();
        if (bytes == 0) return fail(NL_ERROR_DEVICE, "the system does not tell how much memory is available");
        return bytes;
    }

    Result<std::unique_ptr<Executor>> create_executor(const ModelSpec& spec, const ModelWeights& weights,
                                                      const ExecutorOptions& options) override {
        if (!supports(options.dtype))
            return fail(NL_ERROR_UNSUPPORTED, "dtype ", dtype_name(options.dtype),
                        " on the CPU, expected float32 or bfloat16");
        NL_TRY(check_spec(spec));
        NL_TRY(check_options(options));
        ExecutorOptions with_threads = options;
        if (with_threads.num_threads == 0) with_threads.num_threads = num_threads_;
        const uint64_t told = cpu::available_memory();
        const uint64_t available = told == 0 ? std::numeric_limits<uint64_t>::max() : told;
        try {
            if (options.dtype == DType::f32)
                return cpu::CpuExecutor<float>::create(spec, weights, with_threads, available);
            return cpu::CpuExecutor<BFloat16>::create(spec, weights, with_threads, available);
        } catch (const std::bad_alloc&) {
            return fail(NL_ERROR_OUT_OF_MEMORY, "memory ran out while the model was made ready, with ", available,
                        " bytes available at the beginning");
        } catch (const std::length_error& error) {
            return fail(NL_ERROR_OUT_OF_MEMORY, "a size of the model is beyond what memory can hold: ", error.what());
        }
    }

  private:
    // Without instructions for it oneDNN emulates bf16 products slowly, and float32 is the better choice.
    static bool has_bfloat16_products() {
#if defined(__x86_64__) && defined(__GNUC__)
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx512bf16") != 0;
#else
        return false;
#endif
    }

    int32_t num_threads_;
};

}  // namespace

Result<std::unique_ptr<Backend>> open_cpu_backend(int32_t num_threads) {
    if (num_threads < 0 || num_threads > kMaxThreads)
        return fail(NL_ERROR_INVALID_ARGUMENT, "num_threads is ", num_threads, ", expected 0 to ", kMaxThreads);
    return std::unique_ptr<Backend>(
        std::make_unique<CpuBackend>(num_threads == 0 ? cpu::available_cores() : num_threads));
}

}  // namespace nanolith
