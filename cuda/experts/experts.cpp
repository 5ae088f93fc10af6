#include "experts/experts.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "compact/expand.h"
#include "experts/grouped_compact.h"
#include "linear/gate.h"
#include "linear/matmul.h"

namespace nanolith::cuda {

namespace {

// Experts' matrices that no kernel takes are expanded so many bytes at a time, or one expert at least.
constexpr int64_t kExpandedBytes = int64_t{96} << 20;

// Elements of an expert's matrix, of gate and up where it is gated.
int64_t expert_elements(const CompactMatrix& matrix) {
    return int64_t{matrix.gated ? 2 : 1} * matrix.outputs * matrix.size;
}

}  // namespace

template <typename T>
Result<Experts<T>> Experts<T>::create(const ModelSpec& spec, const ExecutorOptions& options, const GpuFacts& gpu,
                                      std::span<const ExpertMatrix<T>> matrices) {
    Experts experts;
    experts.gpu_ = gpu;
    experts.batch_invariant_ = options.batch_invariant;
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
    size_t expanded = 0;  // elements
    for (const ExpertMatrix<T>& matrix : matrices) {
        if (!matrix.compact() || experts.takes_codes(matrix)) continue;
        const auto at_once = static_cast<size_t>(experts.expanded_experts(matrix));
        expanded = std::max(expanded, at_once * static_cast<size_t>(expert_elements(matrix.first)));
    }
    NL_ASSIGN(experts.expanded_, allocate_device(expanded * sizeof(T), "experts' weights that are expanded"));
    const auto takes_codes = [&](const ExpertMatrix<T>& matrix) { return experts.takes_codes(matrix); };
    if (std::ranges::any_of(matrices, takes_codes)) {
        NL_ASSIGN(experts.clusters_, find_rounded_clusters());
    }
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
    const int pairs = rows * spec_.top_k;
    const GroupedProduct<T> up{x,           nullptr,     view.begins, view.pairs, pairs,
                               spec_.top_k, spec_.count, hidden_,     2 * inner};
    NL_TRY(multiply_gate_up(up, layer.gate_up, stream));
    const GroupedProduct<T> down{inner_.as<T>(), nullptr,     view.begins, nullptr, pairs,
                                 spec_.top_k,    spec_.count, inner,       hidden_};
    NL_TRY(multiply_down(down, layer.down, stream));
    return add_experts(outputs_.as<float>(), view, spec_.top_k, rows, hidden_, residual, stream);
}

template <typename T>
Result<void> Experts<T>::multiply_gate_up(GroupedProduct<T> product, const ExpertMatrix<T>& matrix,
                                          cudaStream_t stream) {
    T* const to = inner_.as<T>();
    const int inner = spec_.intermediate_size;
    if (takes_codes(matrix)) {
        return multiply_codes(product, matrix, {CompactOutput::Kind::gate, to, inner, activation_}, stream);
    }
    NL_TRY(multiply_wide(product, matrix, gate_up_.as<T>(), stream));
    return gate<T>(gate_up_.as<T>(), nullptr, activation_, product.num_pairs, inner, to, false, stream);
}

template <typename T>
Result<void> Experts<T>::multiply_down(GroupedProduct<T> product, const ExpertMatrix<T>& matrix, cudaStream_t stream) {
    if (takes_codes(matrix)) {
        return multiply_codes(product, matrix, {CompactOutput::Kind::store32, outputs_.data(), hidden_, {}}, stream);
    }
    return multiply_wide(product, matrix, outputs_.as<float>(), stream);
}

template <typename T>
bool Experts<T>::takes_codes(const ExpertMatrix<T>& matrix) const {
    return kMayMultiplyCodes && matrix.compact() && !batch_invariant_ &&
           grouped_compact_supports(matrix.first.layout, matrix.first.size, gpu_);
}

template <typename T>
Result<void> Experts<T>::multiply_codes(const GroupedProduct<T>& product, const ExpertMatrix<T>& matrix,
                                        const CompactOutput& output, cudaStream_t stream) {
    if constexpr (kMayMultiplyCodes) {
        if (product.num_pairs <= kFewGroupedPairs * product.experts) {
            return multiply_grouped_compact(product, matrix.first, output, clusters_, stream);
        }
        // outputs_ has no contents yet where rows are gathered, which is for gate and up.
        return multiply_grouped_rounded(product, matrix.first, output, outputs_.as<T>(), stream);
    }
    return fail(NL_ERROR_INTERNAL, "experts' codes are multiplied with 16-bit activations");
}

template <typename T>
int Experts<T>::expanded_experts(const ExpertMatrix<T>& matrix) const {
    const int64_t bytes = expert_elements(matrix.first) * static_cast<int64_t>(sizeof(T));
    return static_cast<int>(std::clamp<int64_t>(kExpandedBytes / bytes, 1, spec_.count));
}

template <typename T>
template <typename Output>
Result<void> Experts<T>::multiply_wide(GroupedProduct<T> product, const ExpertMatrix<T>& matrix, Output* y,
                                       cudaStream_t stream) {
    product.hopper = gpu_.major == 9;
    if (!matrix.compact()) {
        product.weight = matrix.wide;
        return multiply_grouped(product, y, stream);
    }
    T* const expanded = expanded_.as<T>();
    const int most = expanded_experts(matrix);
    product.weight = expanded;
    for (int first = 0; first < spec_.count; first += most) {
        const CompactMatrix part = matrix.of(first);
        product.experts = std::min(most, spec_.count - first);
        NL_TRY(expand(part, 0, part.num_tiles(), expanded, stream, product.experts));
        NL_TRY(multiply_grouped(product, y, stream));
        product.begins += product.experts;
    }
    return {};
}

template <typename T>
bool Experts<T>::streams(int rows, const ExpertLayer<T>& layer, bool half) const {
    if constexpr (sizeof(T) == 2) {
        const bool compact = layer.gate_up.compact();
        if (layer.down.compact() != compact) return false;
        if (!compact) return streamed_experts_support<T>(rows_of(rows), half, gpu_);
        return streamed_compact_experts_support(rows_of(rows), layer.gate_up.first.layout, layer.down.first.layout,
                                                half, gpu_);
    }
    return false;
}

template <typename T>
Result<void> Experts<T>::stream_in(const NormedRows<T>& x, const ExpertLayer<T>& layer, const StreamedLaunch& how) {
    if constexpr (sizeof(T) == 2) {
        if (layer.gate_up.compact()) {
            return streamed_compact_gate_up(rows_of(x.rows), x, logits(), activation_, layer.gate_up.first, routing(),
                                            inner_.as<T>(), how);
        }
        return streamed_experts_gate_up(rows_of(x.rows), x, logits(), activation_, layer.gate_up.wide, routing(),
                                        inner_.as<T>(), how);
    }
    return fail(NL_ERROR_INTERNAL, "streamed experts have 16-bit weights");
}

template <typename T>
Result<void> Experts<T>::stream_out(const ExpertLayer<T>& layer, int rows, float* residual, const StreamedLaunch& how) {
    if constexpr (sizeof(T) == 2) {
        if (layer.down.compact()) {
            return streamed_compact_down(rows_of(rows), inner_.as<T>(), layer.down.first, routing(), residual, how);
        }
        return streamed_experts_down(rows_of(rows), inner_.as<T>(), layer.down.wide, routing(), residual, how);
    }
    return fail(NL_ERROR_INTERNAL, "streamed experts have 16-bit weights");
}

template class Experts<float>;
template class Experts<__half>;
template class Experts<__nv_bfloat16>;

}  // namespace nanolith::cuda
