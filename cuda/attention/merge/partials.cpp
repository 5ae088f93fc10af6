#include "attention/merge/partials.h"

#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

constexpr size_t kWideCounters = 2;
constexpr int kSentinelByte = 0xff;  // of each word that is not published yet

}  // namespace

Result<Partials> Partials::create(const PlanShape& shape, int head_dim, int64_t max_rows, cudaStream_t stream) {
    Partials partials;
    const PartialBounds bounds = partial_bounds(shape, max_rows);
    partials.capacity_ = bounds.narrow + bounds.wide;
    partials.narrow_capacity_ = static_cast<int32_t>(bounds.narrow);
    const size_t outputs = static_cast<size_t>(partials.capacity_) * static_cast<size_t>(shape.num_kv_heads) *
                           static_cast<size_t>(head_dim);
    NL_ASSIGN(partials.outputs_, allocate_device(outputs * sizeof(float), "partial attention outputs"));
    NL_ASSIGN(partials.sums_, allocate_device(outputs / 4 * sizeof(float), "partial attention sums"));
    NL_ASSIGN(partials.counters_, allocate_device(kWideCounters * sizeof(int32_t), "counters of wide attention"));
    NL_CUDA_TRY(cudaMemsetAsync(partials.outputs_.data(), kSentinelByte, partials.outputs_.bytes(), stream));
    NL_CUDA_TRY(cudaMemsetAsync(partials.sums_.data(), kSentinelByte, partials.sums_.bytes(), stream));
    NL_CUDA_TRY(cudaMemsetAsync(partials.counters_.data(), 0, partials.counters_.bytes(), stream));
    return partials;
}

PartialView Partials::view() const {
    PartialView view;
    view.outputs = outputs_.as<float>();
    view.sums = sums_.as<float>();
    view.wide_counters = counters_.as<int32_t>();
    view.capacity = capacity_;
    view.narrow_capacity = narrow_capacity_;
    return view;
}

}  // namespace nanolith::cuda
