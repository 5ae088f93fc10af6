#include "experts/experts.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "experts/grouped.h"
#include "linear/gate.h"
#include "linear/matmul.h"

namespace nanolith::cuda {

template <typename T>
Result<Experts<T>> Experts<T>::create(const ModelSpec& spec, const ExecutorOptions& options) {
    Experts experts;
    experts.spec_ = spec.experts;
    experts.activation_ = spec.activation;
    experts.hidden_ = spec.hidden_size;
    if (spec.experts.count == 0) return experts;
    experts.max_pairs_ = int64_t{options.max_rows} * spec.experts.top_k;
    const auto pairs = static_cast<size_t>(experts.max_pairs_);
    const auto count = static_cast<size_t>(spec.experts.count);
    const auto inner = static_cast<size_t>(spec.experts.intermediate_size);
    const auto rows = static_cast<size_t>(padded_rows(options.max_rows, options.batch_invariant));
    NL_ASSIGN(experts.logits_, allocate_device(rows * count * sizeof(float), "router logits"));
    NL_ASSIGN(experts.numbers_, allocate_device((4 * pairs + count + 1) * sizeof(int32_t), "the choice of experts"));
    NL_ASSIGN(experts.gate_up_, allocate_device(pairs * 2 * inner * sizeof(T), "experts' gate and up projections"));
    NL_ASSIGN(experts.inner_, allocate_device(pairs * inner * sizeof(T), "experts' activations"));
    NL_ASSIGN(experts.outputs_,
              allocate_device(pairs * static_cast<size_t>(spec.hidden_size) * sizeof(float), "experts' outputs"));
    return experts;
}

template <typename T>
RoutingView Experts<T>::routing() const {
    int32_t* const numbers = numbers_.as<int32_t>();
    RoutingView view;
    view.experts = numbers;
    view.shares = reinterpret_cast<float*>(numbers + max_pairs_);
    view.places = numbers + 2 * max_pairs_;
    view.pairs = numbers + 3 * max_pairs_;
    view.begins = numbers + 4 * max_pairs_;
    return view;
}

template <typename T>
Result<void> Experts<T>::choose(int rows, cudaStream_t stream) {
    return route(logits(), spec_, rows, routing(), stream);
}

template <typename T>
Result<void> Experts<T>::add(const T* x, const ExpertLayer<T>& layer, int rows, float* residual, cudaStream_t stream) {
    const RoutingView view = routing();
    const int inner = spec_.intermediate_size;
    T* const gated = inner_.as<T>();
    const int pairs = rows * spec_.top_k;
    const GroupedProduct<T> up{x,           layer.gate_up, view.begins, view.pairs, pairs,
                               spec_.top_k, spec_.count,   hidden_,     2 * inner};
    NL_TRY(multiply_grouped(up, gate_up_.as<T>(), stream));
    NL_TRY(gate<T>(gate_up_.as<T>(), nullptr, activation_, pairs, inner, gated, false, stream));
    const GroupedProduct<T> down{gated,       layer.down,  view.begins, nullptr, pairs,
                                 spec_.top_k, spec_.count, inner,       hidden_};
    NL_TRY(multiply_grouped(down, outputs_.as<float>(), stream));
    return add_experts(outputs_.as<float>(), view, spec_.top_k, rows, hidden_, residual, stream);
}

template <typename T>
Result<void> Experts<T>::stream_in(const NormedRows<T>& x, const ExpertLayer<T>& layer, const StreamedLaunch& how) {
    if constexpr (sizeof(T) == 2) {
        return streamed_experts_gate_up(rows_of(x.rows), x, logits(), activation_, layer.gate_up, routing(),
                                        inner_.as<T>(), how);
    }
    return fail(NL_ERROR_INTERNAL, "streamed experts have 16-bit weights");
}

template <typename T>
Result<void> Experts<T>::stream_out(const ExpertLayer<T>& layer, int rows, float* residual, const StreamedLaunch& how) {
    if constexpr (sizeof(T) == 2) {
        return streamed_experts_down(rows_of(rows), inner_.as<T>(), layer.down, routing(), residual, how);
    }
    return fail(NL_ERROR_INTERNAL, "streamed experts have 16-bit weights");
}

template class Experts<float>;
template class Experts<__half>;
template class Experts<__nv_bfloat16>;

}  // namespace nanolith::cuda
