// A layer's mixture of experts (Shazeer et al., "Outrageously Large Neural Networks", 2017).
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "backend/executor.h"
#include "backend/model_spec.h"
#include "compact/rounded_compact.h"
#include "experts/expert_matrix.h"
#include "experts/grouped.h"
#include "experts/routing.h"
#include "experts/streamed_experts.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

// The memory for the experts of one layer at a time, and their computation.
template <typename T>
class Experts {
  public:
    Experts() = default;  // for models without experts
    // `matrices`: all that it will be called with.
    static Result<Experts> create(const ModelSpec& spec, const ExecutorOptions& options, const GpuFacts& gpu,
                                  std::span<const ExpertMatrix<T>> matrices);

    // Where the router's logits [rows, experts] belong.
    [[nodiscard]] float* logits() const { return logits_.as<float>(); }

    // Whether both steps of so few rows are streamed products. `half` is StreamedLaunch::half.
    [[nodiscard]] bool streams(int rows, const ExpertLayer<T>& layer, bool half) const;
    // Chooses by logits() the experts of each of the rows x of the residual stream, and computes what these experts'
    // down projections take: activation(gate) * up of the normalised row.
    Result<void> stream_in(const NormedRows<T>& x, const ExpertLayer<T>& layer, const StreamedLaunch& how);
    // residual += what these experts give, each by its share.
    Result<void> stream_out(const ExpertLayer<T>& layer, int rows, float* residual, const StreamedLaunch& how);

    // Any number of rows. Chooses by logits() which experts compute them.
    Result<void> choose(int rows, cudaStream_t stream);
    // residual += the chosen experts of x, each by its share: x [rows, hidden], residual [rows, hidden].
    Result<void> add(const T* x, const ExpertLayer<T>& layer, int rows, float* residual, cudaStream_t stream);

  private:
    static constexpr bool kMayMultiplyCodes = sizeof(T) == 2;

    [[nodiscard]] ExpertRows rows_of(int rows) const { return {spec_, hidden_, rows}; }
    [[nodiscard]] RoutingView routing() const;

    // Whether kernels for compact matrices take the matrix. If not, a compact one is expanded first.
    [[nodiscard]] bool takes_codes(const ExpertMatrix<T>& matrix) const;
    // Calls the faster one for so many pairs. `output`: what becomes of the products.
    Result<void> multiply_codes(const GroupedProduct<T>& product, const ExpertMatrix<T>& matrix,
                                const CompactOutput& output, cudaStream_t stream);
    // y = the product with the wide matrix, or with the compact one that is expanded, some experts at a time.
    template <typename Output>
    Result<void> multiply_wide(GroupedProduct<T> product, const ExpertMatrix<T>& matrix, Output* y,
                               cudaStream_t stream);
    // How many experts' matrices are expanded to expanded_ at a time, at least one.
    [[nodiscard]] int expanded_experts(const ExpertMatrix<T>& matrix) const;
    // Compute inner_ and outputs_ of all pairs.
    Result<void> multiply_gate_up(GroupedProduct<T> product, const ExpertMatrix<T>& matrix, cudaStream_t stream);
    Result<void> multiply_down(GroupedProduct<T> product, const ExpertMatrix<T>& matrix, cudaStream_t stream);

    GpuFacts gpu_;
    bool batch_invariant_ = false;
    ExpertSpec spec_;
    Activation activation_ = Activation::silu;
    int hidden_ = 0;
    int64_t max_pairs_ = 0;
    DeviceBuffer logits_;    // [rows, experts] float32
    DeviceBuffer numbers_;   // RoutingView
    DeviceBuffer gate_up_;   // [pairs, 2 * intermediate] T
    DeviceBuffer inner_;     // [pairs, intermediate] T
    DeviceBuffer outputs_;   // [pairs, hidden] float32
    DeviceBuffer expanded_;  // matrices of some experts
    ClustersAtOnce clusters_;
};

}  // namespace nanolith::cuda
