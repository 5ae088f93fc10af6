// The products of a step: which kernels compute them, for wide and for compact matrices.
//
// - Few rows: kernels that read the matrix at memory's rate and do what follows the product too, the activation or the
//   addition to the residual stream, and for up to four rows the norm before it. On Hopper these are streamed products,
//   up to four rows of wide matrices (linear/streamed.h) and eight of compact ones (compact/streamed_compact.h),
//   elsewhere and for float32 matrix-vector products.
// - More rows of wide matrices on Hopper, up to 96: staged products (linear/staged.h), with what follows fused too.
// - More rows of compact matrices on Hopper: their weights are rounded to 16 bits on their way to the tensor cores
//   (compact/rounded_compact.h).
// - All others: cuBLASLt. With batch_invariant, where a row's result must not depend on the number of rows, it computes
//   every product.
// A compact matrix that no kernel takes is expanded to 16 bits, a part of it at a time, and multiplied as a wide one.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>

#include "backend/executor.h"
#include "backend/model_spec.h"
#include "compact/expand.h"
#include "compact/rounded_compact.h"
#include "compact/streamed_compact.h"
#include "executor/dtype_of.h"
#include "executor/weights.h"
#include "linear/gather.h"
#include "linear/matmul.h"
#include "linear/matrix.h"
#include "linear/matvec.h"
#include "linear/staged.h"
#include "linear/streamed.h"
#include "runtime/gpu_facts.h"

namespace nanolith::cuda {

// The launch before a streamed product, on which it depends whether the product's blocks may begin early:
// - streamed: they may. Each multiprocessor has a block of that launch in half of its shared memory, and room for one.
// - norm: they may. It is an early launch behind a streamed product itself, and its blocks need no shared memory.
// - attention, where DeviceAttention::lets_next_begin(): they may, if they take more than half of the shared memory; so
//   must those of staged products. It leaves some multiprocessors empty, or some before others, on which two smaller
//   blocks of the product would meet. The next product's blocks, which take less than half, still fit beside these.
// - other: they may not.
enum class After : uint8_t { other, streamed, norm, attention };

// Adjacent outputs of a product, of rows that are `stride` elements apart.
template <typename Output>
struct OutputRows {
    Output* to;
    int64_t stride;
};

// T is the type of activations and of wide weights. All launches are put on the stream.
template <typename T>
class Products {
  public:
    static Result<Products> create(const GpuFacts& gpu, const ExecutorOptions& options, const DeviceWeights<T>& weights,
                                   cudaStream_t stream) {
        Products products;
        products.gpu_ = gpu;
        products.batch_invariant_ = options.batch_invariant;
        products.stream_ = stream;
        NL_ASSIGN(products.matmul_, Matmul::create());
        products.find_halves(weights);
        const size_t expanded = products.most_expanded(weights);
        NL_ASSIGN(products.expanded_, allocate_device(expanded * sizeof(T), "weights that are expanded"));
        const auto rows = static_cast<size_t>(padded_rows(options.max_rows, options.batch_invariant));
        const size_t ordered = rows * longest_in_other_order(weights);
        NL_ASSIGN(products.ordered_, allocate_device(ordered * sizeof(T), "activations in another order"));
        bool any_codes = false;
        for_matrices(weights, [&](const DeviceMatrix<T>& matrix) { any_codes |= products.takes_codes(matrix); });
        if (any_codes) {
            NL_ASSIGN(products.clusters_, find_rounded_clusters());
        }
        if (kMayStream && gpu.major == 9) {
            NL_ASSIGN(products.staged_clusters_, find_staged_clusters());
        }
        return products;
    }

    // Whether such a product is computed by streamed kernels.
    [[nodiscard]] bool streams(int rows, const DeviceMatrix<T>& matrix) const {
        if constexpr (kMayStream) {
            return rows <= most_streamed_rows(matrix) && !batch_invariant_ && fits(rows, matrix, halves(rows));
        }
        return false;
    }
    // Whether such a product is a staged one.
    [[nodiscard]] bool stages(int rows, const DeviceMatrix<T>& matrix) const {
        return kMayStream && !batch_invariant_ && !matrix.compact() && rows > kStreamedRows &&
               staged_supports(rows, matrix.size, staged_clusters_);
    }
    // Whether the norm, and an activation, are fused into such a product. Where it is a gate with its up projection,
    // compact ones must be gated.
    [[nodiscard]] bool takes_fused(int rows, const DeviceMatrix<T>& matrix) const {
        if (streams(rows, matrix)) return rows <= kStreamedRows && !(matrix.compact() && puts_in_order(rows, matrix));
        return !matrix.compact() && takes_matvec(rows);
    }

    // Whether multiply_gated() takes such a gate with its up projection.
    [[nodiscard]] bool takes_gated(int rows, const DeviceMatrix<T>& matrix) const {
        return matrix.compact() ? matrix.gated() && takes_codes(matrix) : stages(rows, matrix);
    }
    // y [rows, outputs / 2] = activation(x W_gate^T) * (x W_up^T), behind the norm that made x.
    Result<void> multiply_gated(int rows, const T* x, const DeviceMatrix<T>& matrix, Activation activation, T* y) {
        if constexpr (kMayStream) {
            const int outputs = matrix.outputs / 2;
            if (!matrix.compact()) {
                return staged_gate_up({x, rows, matrix.size}, matrix.wide, activation, outputs, y,
                                      staged_launch(After::norm));
            }
            const CompactOutput output{CompactOutput::Kind::gate, y, outputs, activation};
            if (puts_in_order(rows, matrix)) {
                NL_ASSIGN(x, in_order_of(matrix, x, rows));
            }
            if (streams(rows, matrix)) {
                return streamed_compact(plain_x(rows, x, matrix), matrix.parts.front(), output,
                                        streamed_launch(rows, After::norm));
            }
            return multiply_codes(rows, x, matrix.parts.front(), output);
        }
        return fail(NL_ERROR_INTERNAL, "a gated product of float32");
    }

    // Whether two streamed products of so many rows share each multiprocessor: where the memory that each needs allows
    // it.
    [[nodiscard]] bool halves(int rows) const {
        return rows <= kStreamedCompactRows && halves_[static_cast<size_t>(rows)];
    }
    // How a streamed product of so many rows is launched.
    [[nodiscard]] StreamedLaunch streamed_launch(int rows, After after) const {
        const bool beside_attention = after == After::attention && halves(rows);
        const bool early = after == After::streamed || after == After::norm || beside_attention;
        return {gpu_.multiprocessors, halves(rows), beside_attention, early, stream_};
    }

    [[nodiscard]] StagedLaunch staged_launch(After after) const {
        return {staged_clusters_, stream_, after == After::attention};
    }

    // y [x.rows, outputs] = norm(x) W^T, for rows that takes_fused() says.
    template <typename Output>
    Result<void> multiply_normed(const NormedRows<T>& x, const DeviceMatrix<T>& matrix, Output* y,
                                 bool after_streamed) {
        if constexpr (kMayStream) {
            const After after = after_streamed ? After::streamed : After::other;
            if (matrix.compact()) {
                return stream_parts(CompactX<T>{x, nullptr, matrix.columns}, matrix, kind_of<Output>(), y, after);
            }
            if (streams(x.rows, matrix)) {
                return streamed_normed(x, matrix.wide, matrix.outputs, y, streamed_launch(x.rows, after));
            }
        }
        return matvec_normed(x, matrix.wide, matrix.outputs, y, gpu_.multiprocessors, stream_);
    }

    // y [x.rows, outputs / 2] = activation(norm(x) W_gate^T) * (norm(x) W_up^T), for rows that takes_fused() says.
    Result<void> multiply_gate_up(const NormedRows<T>& x, const DeviceMatrix<T>& matrix, Activation activation, T* y,
                                  bool after_streamed) {
        const int outputs = matrix.outputs / 2;
        if constexpr (kMayStream) {
            const StreamedLaunch how = streamed_launch(x.rows, after_streamed ? After::streamed : After::other);
            if (matrix.compact()) {
                const CompactOutput output{CompactOutput::Kind::gate, y, outputs, activation};
                return streamed_compact(CompactX<T>{x, nullptr, matrix.columns}, matrix.parts.front(), output, how);
            }
            if (streams(x.rows, matrix)) return streamed_gate_up(x, matrix.wide, activation, outputs, y, how);
        }
        return matvec_gate_up(x, matrix.wide, activation, outputs, y, stream_);
    }

    // y [rows, outputs] = x W^T.
    template <typename Output>
    Result<void> multiply(int rows, const T* x, const DeviceMatrix<T>& matrix, Output* y, After after) {
        if constexpr (kMayStream) {
            if (!matrix.compact() && streams(rows, matrix)) {
                return streamed(x, matrix.wide, rows, matrix.size, matrix.outputs, y, streamed_launch(rows, after));
            }
            if (stages(rows, matrix)) {
                return staged({x, rows, matrix.size}, matrix.wide, matrix.outputs, y, staged_launch(after));
            }
        }
        return multiply_any(rows, x, matrix, y, false, after);
    }

    // residual [rows, outputs] += x W^T.
    Result<void> add(int rows, const T* x, const DeviceMatrix<T>& matrix, float* residual, After after) {
        if constexpr (kMayStream) {
            if (!matrix.compact() && streams(rows, matrix)) {
                return streamed_add(x, matrix.wide, rows, matrix.size, matrix.outputs, residual,
                                    streamed_launch(rows, after));
            }
            if (stages(rows, matrix)) {
                return staged_add({x, rows, matrix.size}, matrix.wide, matrix.outputs, residual, staged_launch(after));
            }
        }
        return multiply_any(rows, x, matrix, residual, true, after);
    }

  private:
    static constexpr bool kMayStream = sizeof(T) == 2;
    // Each thread block of a streamed product normalises all of its rows. Beyond this many a launch that does it once
    // takes less time, so that streamed products of more rows, of compact matrices, don't.
    static_assert(kStreamedRows == 4 && kStreamedRows <= kStreamedCompactRows);
    // A larger matrix is expanded and multiplied in parts of this many bytes. Smaller parts have too few outputs for
    // cuBLASLt to keep all multiprocessors busy.
    static constexpr int64_t kExpandedBytes = int64_t{96} << 20;
    // Tiles are expanded in multiples of so many, so that parts of y are aligned well.
    static constexpr int kExpandedTiles = 16;

    [[nodiscard]] bool takes_matvec(int rows) const { return rows <= kMatvecRows && !batch_invariant_; }

    [[nodiscard]] static int most_streamed_rows(const DeviceMatrix<T>& matrix) {
        return matrix.compact() ? kStreamedCompactRows : kStreamedRows;
    }
    [[nodiscard]] bool fits(int rows, const DeviceMatrix<T>& matrix, bool half) const {
        if (!matrix.compact()) return streamed_supports<T>(rows, matrix.size, half, gpu_);
        return std::ranges::all_of(matrix.parts, [&](const CompactMatrix& part) {
            return streamed_compact_supports(part.layout, rows, part.size, half, gpu_);
        });
    }

    void find_halves(const DeviceWeights<T>& weights) {
        if constexpr (kMayStream) {
            const auto all_fit = [&](int rows) {
                const auto fit = [&](const DeviceMatrix<T>& matrix) {
                    return !matrix.present() || rows > most_streamed_rows(matrix) || fits(rows, matrix, true);
                };
                return fit(weights.head) && std::ranges::all_of(weights.layers, [&](const DeviceLayer<T>& layer) {
                           return fit(layer.qkv) && fit(layer.o) && fit(layer.router) && fit(layer.gate_up) &&
                                  fit(layer.down);
                       });
            };
            for (int rows = 1; rows <= kStreamedCompactRows; ++rows) halves_[static_cast<size_t>(rows)] = all_fit(rows);
        }
    }

    // Calls see(matrix) for all matrices that may be compact and are multiplied here.
    template <typename See>
    static void for_matrices(const DeviceWeights<T>& weights, const See& see) {
        see(weights.head);
        for (const DeviceLayer<T>& layer : weights.layers) {
            for (const auto* matrix : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) see(*matrix);
        }
    }
    // Elements of the largest part that is expanded at a time, over all compact matrices that no kernel takes.
    [[nodiscard]] size_t most_expanded(const DeviceWeights<T>& weights) const {
        int64_t most = 0;
        for_matrices(weights, [&](const DeviceMatrix<T>& matrix) {
            if (takes_codes(matrix)) return;
            for (const CompactMatrix& part : matrix.parts) {
                most = std::max(most, expanded_tiles(part) * tile_elements(part));
            }
        });
        return static_cast<size_t>(most);
    }
    // Columns of the largest matrix whose columns are in another order; 0 where there is none.
    [[nodiscard]] static size_t longest_in_other_order(const DeviceWeights<T>& weights) {
        int most = 0;
        for_matrices(weights, [&](const DeviceMatrix<T>& matrix) {
            if (matrix.columns != nullptr) most = std::max(most, matrix.size);
        });
        return static_cast<size_t>(most);
    }
    // Whether a launch of its own puts the elements of so many rows in the order of the matrix's columns before the
    // product. None is needed where the columns are in order, nor for a single row whose product is streamed: that
    // kernel puts the row in order itself.
    [[nodiscard]] bool puts_in_order(int rows, const DeviceMatrix<T>& matrix) const {
        if (matrix.columns == nullptr) return false;
        return rows > 1 || matrix.size > kMostOrderedColumns || !streams(rows, matrix);
    }
    Result<const T*> in_order_of(const DeviceMatrix<T>& matrix, const T* x, int rows) {
        NL_TRY(gather_columns(x, matrix.columns, rows, matrix.size, ordered_.template as<T>(), stream_));
        return static_cast<const T*>(ordered_.template as<T>());
    }
    [[nodiscard]] static int64_t tile_elements(const CompactMatrix& part) { return int64_t{kCompactTile} * part.size; }
    // Tiles of the matrix that are expanded at a time.
    [[nodiscard]] static int64_t expanded_tiles(const CompactMatrix& part) {
        const int64_t fit = kExpandedBytes / static_cast<int64_t>(sizeof(T)) / tile_elements(part);
        const int64_t tiles = std::max<int64_t>(fit / kExpandedTiles, 1) * kExpandedTiles;
        return std::min<int64_t>(tiles, part.num_tiles());
    }

    template <typename Output>
    static constexpr CompactOutput::Kind kind_of() {
        return sizeof(Output) == 2 ? CompactOutput::Kind::store16 : CompactOutput::Kind::store32;
    }

    // Calls use(part, its first output) for all parts of a compact matrix; of a gated one it is the gate's first.
    template <typename Use>
    static Result<void> for_parts(const DeviceMatrix<T>& matrix, const Use& use) {
        int64_t first = 0;
        for (const CompactMatrix& part : matrix.parts) {
            NL_TRY(use(part, first));
            first += part.outputs;
        }
        return {};
    }

    // y = x W^T (or y += x W^T) of a compact matrix by streamed kernels, a launch a part.
    template <typename Output>
    Result<void> stream_parts(const CompactX<T>& x, const DeviceMatrix<T>& matrix, CompactOutput::Kind kind, Output* y,
                              After after) requires kMayStream {
        return for_parts(matrix, [&](const CompactMatrix& part, int64_t first) -> Result<void> {
            const CompactOutput output{kind, y + first, matrix.outputs, {}};
            NL_TRY(streamed_compact(x, part, output, streamed_launch(x.normed.rows, after)));
            after = After::streamed;
            return {};
        });
    }

    // Rows x of activations for a streamed product. Where puts_in_order(), x has been put in order already.
    [[nodiscard]] CompactX<T> plain_x(int rows, const T* x, const DeviceMatrix<T>& matrix) const {
        CompactX<T> plain;
        plain.normed.rows = rows;
        plain.normed.size = matrix.size;
        plain.plain = x;
        if (!puts_in_order(rows, matrix)) plain.columns = matrix.columns;
        return plain;
    }

    // y = x W^T (or y += x W^T) where no streamed kernel takes the wide matrix.
    template <typename Output>
    Result<void> multiply_any(int rows, const T* x, const DeviceMatrix<T>& matrix, Output* y, bool add, After after) {
        const OutputRows<Output> to{y, matrix.outputs};
        if (!matrix.compact()) return multiply_wide(rows, x, matrix.wide, matrix.outputs, matrix.size, to, add);
        if (puts_in_order(rows, matrix)) {
            NL_ASSIGN(x, in_order_of(matrix, x, rows));
        }
        if constexpr (kMayStream) {
            if (streams(rows, matrix) && !matrix.gated()) {
                return stream_parts(plain_x(rows, x, matrix), matrix,
                                    add ? CompactOutput::Kind::add : kind_of<Output>(), y, after);
            }
            if (takes_codes(matrix) && !matrix.gated()) {
                return for_parts(matrix, [&](const CompactMatrix& part, int64_t first) {
                    const auto kind = add ? CompactOutput::Kind::add : kind_of<Output>();
                    return multiply_codes(rows, x, part, {kind, y + first, to.stride, {}});
                });
            }
        }
        return for_parts(matrix, [&](const CompactMatrix& part, int64_t first) {
            return multiply_expanded(rows, x, part, OutputRows<Output>{y + first, to.stride}, add);
        });
    }

    // Whether kernels for compact matrices take the matrix, with any number of rows.
    [[nodiscard]] bool takes_codes(const DeviceMatrix<T>& matrix) const {
        return kMayStream && !batch_invariant_ && matrix.compact() &&
               std::ranges::all_of(matrix.parts, [&](const CompactMatrix& part) {
                   return rounded_compact_supports(part.layout, part.size, gpu_);
               });
    }
    Result<void> multiply_codes(int rows, const T* x, const CompactMatrix& part,
                                const CompactOutput& output) requires kMayStream {
        return rounded_compact<T>(x, rows, part, output, clusters_, stream_);
    }

    // The same by expanding the matrix, some of its tiles at a time.
    template <typename Output>
    Result<void> multiply_expanded(int rows, const T* x, const CompactMatrix& part, OutputRows<Output> y, bool add) {
        T* const weights = expanded_.template as<T>();
        const auto most = static_cast<int>(expanded_tiles(part));
        for (int first = 0; first < part.num_tiles(); first += most) {
            const int count = std::min(most, part.num_tiles() - first);
            NL_TRY(expand(part, first, count, weights, stream_));
            const int tile_rows = part.rows_of_tile();
            const int outputs = std::min(count * tile_rows, part.outputs - first * tile_rows);
            const OutputRows<Output> to{y.to + int64_t{first} * tile_rows, y.stride};
            NL_TRY(multiply_wide(rows, x, weights, outputs, part.size, to, add));
            if (!part.gated) continue;
            const OutputRows<Output> of_up{to.to + part.outputs, y.stride};
            const T* const up = weights + int64_t{outputs} * part.size;
            NL_TRY(multiply_wide(rows, x, up, outputs, part.size, of_up, add));
        }
        return {};
    }

    // The same of wide weights [outputs, size], by cuBLASLt or matrix-vector kernels.
    template <typename Output>
    Result<void> multiply_wide(int rows, const T* x, const T* weight, int outputs, int size, OutputRows<Output> y,
                               bool add) {
        const MatmulShape shape{0, size, outputs, static_cast<int32_t>(y.stride), kDTypeOf<T>, kDTypeOf<Output>, add};
        NL_ASSIGN(const bool done, multiply_blocks(shape, rows, x, weight, y.to));
        if (done) return {};
        const int step = batch_invariant_ ? 1 : kMatvecRows;
        for (int first = 0; first < rows; first += step) {
            const int count = std::min(step, rows - first);
            const T* const from = x + int64_t{first} * size;
            Output* const to = y.to + first * y.stride;
            if constexpr (std::is_same_v<Output, float>) {
                if (add) {
                    NL_TRY(matvec_add(from, weight, count, size, outputs, to, y.stride, gpu_.multiprocessors, stream_));
                    continue;
                }
            }
            NL_TRY(matvec(from, weight, count, size, outputs, to, y.stride, stream_));
        }
        return {};
    }

    // The same by cuBLASLt. With batch_invariant it is computed in blocks of kInvariantRows rows, so that one algorithm
    // does for every number of rows; otherwise all at once. False, with nothing done, where the rows are few or
    // cuBLASLt has no algorithm.
    template <typename Output>
    Result<bool> multiply_blocks(MatmulShape shape, int rows, const T* x, const T* weight, Output* y) {
        if (takes_matvec(rows)) return false;
        shape.rows = batch_invariant_ ? kInvariantRows : product_rows(rows);
        for (int64_t first = 0; first < rows; first += shape.rows) {
            NL_ASSIGN(const bool done,
                      matmul_->multiply(shape, x + first * shape.size, weight, y + first * shape.stride, stream_));
            if (!done) return false;  // can happen only in the first block: all have the same shape
        }
        return true;
    }

    GpuFacts gpu_;
    bool batch_invariant_ = false;
    cudaStream_t stream_ = nullptr;
    std::unique_ptr<Matmul> matmul_;
    DeviceBuffer expanded_;  // weights that are being expanded
    DeviceBuffer ordered_;   // see in_order_of()
    ClustersAtOnce clusters_;
    ClustersAtOnce staged_clusters_;                          // none where the GPU has no staged products
    std::array<bool, kStreamedCompactRows + 1> halves_ = {};  // by the number of rows
};

}  // namespace nanolith::cuda
