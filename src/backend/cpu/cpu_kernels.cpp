// The CPU as Kernels. Merge, norm and rotation read and write each row once and are bound by memory.
#include <cmath>
#include <new>
#include <string>
#include <vector>

#include "backend/cpu/buffer.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/norm_rope.h"
#include "backend/cpu/paged_attention.h"
#include "backend/cpu/rows.h"
#include "backend/kernels.h"
#include "base/cores.h"

namespace nanolith {
namespace cpu {
namespace {

class HostMemory final : public DeviceMemory {
  public:
    explicit HostMemory(Buffer<std::byte> buffer) : buffer_(std::move(buffer)) {}
    [[nodiscard]] void* data() override { return buffer_.data(); }

  private:
    Buffer<std::byte> buffer_;
};

// One row's query head: `scratch` is [2][head_dim].
void merge_head(const MergeArguments& a, int64_t row, int64_t head, float* scratch) {
    const int64_t dim = a.head_dim;
    const float* const lse = a.lse + row * a.num_heads + head;
    float highest = -kInfinity;
    for (int64_t part = 0; part < a.num_parts; ++part) highest = std::fmax(highest, lse[part * a.lse_part_stride]);
    if (highest == -kInfinity) highest = 0;  // no numbers, but there may be NaN

    float* const sums = scratch;
    float* const values = scratch + dim;
    std::fill_n(sums, dim, 0.0F);
    float total = 0;
    for (int64_t part = 0; part < a.num_parts; ++part) {
        const float weight = std::exp(lse[part * a.lse_part_stride] - highest);
        if (weight == 0) continue;
        load_row(a.dtype, element(a.dtype, a.outputs.data, part * a.part_stride + a.outputs.offset(row, head)), dim,
                 values);
        for (int64_t i = 0; i < dim; ++i) sums[i] += weight * values[i];
        total += weight;
    }
    for (int64_t i = 0; i < dim && total != 0; ++i) sums[i] /= total;
    store_head(a.dtype, sums, dim, a.out, row, head);
    if (a.out_lse != nullptr) a.out_lse[row * a.num_heads + head] = total == 0 ? -kInfinity : highest + std::log(total);
}

// Of one tensor's row as it is worked on, in float32.
int64_t row_bytes(int64_t num_heads, int64_t size) {
    return num_heads * size * static_cast<int64_t>(sizeof(float));
}

class CpuKernels final : public Kernels {
  public:
    [[nodiscard]] std::string device_name() const override { return describe_threads(pool_->num_threads()); }
    [[nodiscard]] size_t alignment() const override { return 1; }
    Result<void> set_stream(void*) override { return {}; }
    Result<void> set_threads(int32_t num_threads) override {
        pool_ = ThreadPool::create(num_threads == 0 ? available_cores() : num_threads);
        return {};
    }
    Result<void> synchronize() override { return {}; }

    Result<std::unique_ptr<DeviceMemory>> allocate(uint64_t bytes) override {
        const uint64_t available = available_memory();
        if (available != 0 && bytes > available)
            return fail(NL_ERROR_OUT_OF_MEMORY, bytes, " bytes are wanted and ", available, " are available");
        NL_ASSIGN(auto buffer, Buffer<std::byte>::allocate("tensors", {static_cast<int64_t>(bytes)}));
        return std::unique_ptr<DeviceMemory>(std::make_unique<HostMemory>(std::move(buffer)));
    }
    Result<std::unique_ptr<PagedAttention>> create_plan(const AttentionSpec& spec, const PlanCapacity&) override {
        return CpuPagedAttention::create(spec, pool_);
    }

    Result<void> merge(const MergeArguments& a) override {
        NL_ASSIGN(auto scratch, scratch_rows(2, a.head_dim));
        const int64_t bytes = (a.num_parts + 1) * row_bytes(a.num_heads, a.head_dim);
        pool_->run(a.num_rows, cost_of_bytes(a.num_rows * bytes), [&](int64_t row, int32_t thread) {
            for (int64_t head = 0; head < a.num_heads; ++head)
                merge_head(a, row, head, scratch.data() + int64_t{thread} * 2 * a.head_dim);
        });
        return {};
    }
    Result<void> rms_norm(const RmsNormArguments& a) override {
        NL_ASSIGN(auto scratch, scratch_rows(1, a.size));
        NL_ASSIGN(auto weight, Buffer<float>::allocate("a norm's weight", {a.size}));
        load_row(a.dtype, a.weight, a.size, weight.data());
        const int64_t bytes = 2 * row_bytes(a.num_heads, a.size);
        pool_->run(a.num_rows, cost_of_bytes(a.num_rows * bytes), [&](int64_t row, int32_t thread) {
            float* const values = scratch.data() + int64_t{thread} * a.size;
            for (int64_t head = 0; head < a.num_heads; ++head) {
                load_head(a.dtype, a.x, row, head, a.size, values);
                cpu::rms_norm(values, weight.data(), a.size, a.epsilon, values);
                store_head(a.dtype, values, a.size, a.y, row, head);
            }
        });
        return {};
    }
    Result<void> rope(const RopeArguments& a) override {
        NL_ASSIGN(auto scratch, scratch_rows(2, a.head_dim));
        const int64_t bytes = 2 * row_bytes(a.num_heads, a.head_dim);
        pool_->run(a.num_rows, cost_of_bytes(a.num_rows * bytes), [&](int64_t row, int32_t thread) {
            float* const values = scratch.data() + int64_t{thread} * 2 * a.head_dim;
            float* const turn = values + a.head_dim;
            make_turn({a.frequencies, static_cast<size_t>(a.head_dim / 2)}, {}, a.positions[row], turn);
            for (int64_t head = 0; head < a.num_heads; ++head) {
                load_head(a.dtype, a.x, row, head, a.head_dim, values);
                rotate(values, turn, a.head_dim, 1, values);
                store_head(a.dtype, values, a.head_dim, a.y, row, head);
            }
        });
        return {};
    }

  private:
    [[nodiscard]] Result<Buffer<float>> scratch_rows(int64_t rows, int64_t size) const {
        return Buffer<float>::allocate("scratch", {pool_->num_threads(), rows, size});
    }

    std::unique_ptr<ThreadPool> pool_ = ThreadPool::create(available_cores());
};

}  // namespace
}  // namespace cpu

Result<std::unique_ptr<Kernels>> open_cpu_kernels() {
    return std::unique_ptr<Kernels>(std::make_unique<cpu::CpuKernels>());
}

}  // namespace nanolith
