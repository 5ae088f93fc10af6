#include "attention/partials.h"

#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

constexpr size_t kWideCounters = 2;

}  // namespace

Result<Partials> Partials::create(const PlanShape& shape, int head_dim, int64_t max_rows, cudaStream_t stream) {
    Partials partials;
    partials.capacity_ = max_partial_vectors(shape, max_rows);
    const auto vectors = static_cast<size_t>(partials.capacity_) * static_cast<size_t>(shape.num_kv_heads);
    const size_t units = static_cast<size_t>(max_rows) * static_cast<size_t>(row_units(shape).count) *
                         static_cast<size_t>(shape.num_kv_heads);
    NL_ASSIGN(partials.outputs_,
              allocate_device(vectors * static_cast<size_t>(head_dim) * sizeof(float), "partial attention outputs"));
    NL_ASSIGN(partials.sums_, allocate_device(vectors * sizeof(float), "partial attention sums"));
    NL_ASSIGN(partials.arrived_,
              allocate_device((units + kWideCounters) * sizeof(int32_t), "counts of partial results"));
    NL_CUDA_TRY(cudaMemsetAsync(partials.arrived_.data(), 0, partials.arrived_.bytes(), stream));
    return partials;
}

PartialView Partials::view() const {
    PartialView view;
    view.outputs = outputs_.as<float>();
    view.sums = sums_.as<float>();
    view.wide_counters = arrived_.as<int32_t>();
    view.arrived = arrived_.as<int32_t>() + kWideCounters;
    view.capacity = capacity_;
    return view;
}

}  // namespace nanolith::cuda
