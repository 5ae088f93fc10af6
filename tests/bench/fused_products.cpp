// What fusing brings: a layer's products at decode with norm, activation and addition fused into them, beside the same
// with kernels of their own for these, on one GPU in one run.
//
//   bench_fused_products [--model NAME] [--rows N]
//
// NAME is a shape of bench/shapes.h, llama-3.1-8b where none is given: its norm and QKV product is RMSNorm over 4,096
// and a matrix of 6,144 x 4,096, in bfloat16. Three forms of each:
//
//   fused       as decode steps of few rows run it on Hopper
//   apart       norm, activation and addition as kernels, products by the same streaming kernel
//   cuBLASLt    norm, activation and addition as kernels, products by cuBLASLt
//
// "chained" lets each fused launch begin while the one before it runs, as decode steps do. A figure is microseconds a
// call: the median over replays of a graph of 64 calls, each with other weights, so that all come from memory.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/shapes.h"
#include "linear/gate.h"
#include "linear/matmul.h"
#include "linear/streamed.h"
#include "norm/rms_norm.h"
#include "runtime/check.h"
#include "runtime/memory.h"
#include "runtime/stream.h"

namespace {

using namespace nanolith;
using namespace nanolith::bench;
using namespace nanolith::cuda;
using Number = __nv_bfloat16;

constexpr int kCalls = 64;    // of one graph
constexpr int kReplays = 15;  // of which the first five don't count
constexpr int kWarmUps = 5;
constexpr size_t kWeights = 1U << 29U;  // elements that calls take their weights from, one after the other

// A layer's tensors for `rows` rows. Buffers of products have room for as many rows as cuBLASLt computes.
class Layer {
  public:
    static Result<std::unique_ptr<Layer>> create(const Shape& shape, int rows) {
        auto layer = std::unique_ptr<Layer>(new Layer(shape, rows));
        NL_TRY(layer->allocate());
        return layer;
    }

    // Of one call, which enqueues one form.
    Result<double> microseconds(const std::function<Result<void>()>& call) {
        next_weight_ = 0;
        NL_TRY(call());  // cuBLASLt chooses its algorithm outside of the graph
        NL_ASSIGN(const Graph graph, record_graph(stream_.get(), [&]() -> Result<void> {
                      for (int i = 0; i < kCalls; ++i) NL_TRY(call());
                      return {};
                  }));
        std::vector<double> times;
        for (int replay = 0; replay < kReplays; ++replay) {
            NL_CUDA_TRY(cudaEventRecord(begin_.get(), stream_.get()));
            NL_CUDA_TRY(cudaGraphLaunch(graph.get(), stream_.get()));
            NL_CUDA_TRY(cudaEventRecord(end_.get(), stream_.get()));
            NL_CUDA_TRY(cudaEventSynchronize(end_.get()));
            float milliseconds = 0;
            NL_CUDA_TRY(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()));
            if (replay >= kWarmUps) times.push_back(1e3 * milliseconds / kCalls);
        }
        std::nth_element(times.begin(), times.begin() + kReplays / 3, times.end());
        return times[kReplays / 3];
    }

    // Norm and QKV product.
    Result<void> fused_qkv(bool chained) {
        return streamed_normed(rows_to_norm(), weight(qkv(), hidden()), qkv(), out(), how(chained));
    }
    Result<void> apart_qkv(bool by_cublas) {
        NL_TRY(normalise());
        return product(by_cublas, normed(), hidden(), qkv(), out());
    }

    // Attention's output product and residual.
    Result<void> fused_output(bool chained) {
        return streamed_add(attended(), weight(hidden(), queries()), rows_, queries(), hidden(), residual(),
                            how(chained));
    }
    Result<void> apart_output(bool by_cublas) {
        NL_TRY(product(by_cublas, attended(), queries(), hidden(), added()));
        return add();
    }

    // The MLP: norm, gate and up, activation, down, residual.
    Result<void> fused_mlp(bool chained) {
        NL_TRY(streamed_gate_up(rows_to_norm(), weight(2 * inner(), hidden()), Activation::silu, inner(), inner_out(),
                                how(chained)));
        return streamed_add(inner_out(), weight(hidden(), inner()), rows_, inner(), hidden(), residual(), how(chained));
    }
    Result<void> apart_mlp(bool by_cublas) {
        NL_TRY(normalise());
        NL_TRY(product(by_cublas, normed(), hidden(), 2 * inner(), out()));
        NL_TRY(gate<Number>(out(), nullptr, Activation::silu, rows_, inner(), inner_out(), false, stream_.get()));
        NL_TRY(product(by_cublas, inner_out(), inner(), hidden(), added()));
        return add();
    }

    [[nodiscard]] double qkv_bytes() const { return 2.0 * qkv() * hidden(); }
    [[nodiscard]] double output_bytes() const { return 2.0 * queries() * hidden(); }
    [[nodiscard]] double mlp_bytes() const { return 6.0 * inner() * hidden(); }

  private:
    Layer(const Shape& shape, int rows) : shape_(shape), rows_(rows) {}

    Result<void> allocate() {
        cudaDeviceProp facts{};
        NL_CUDA_TRY(cudaGetDeviceProperties(&facts, 0));
        gpu_ = {facts.multiProcessorCount, facts.major};
        NL_ASSIGN(stream_, create_stream());
        NL_ASSIGN(begin_, create_timed_event());
        NL_ASSIGN(end_, create_timed_event());
        NL_ASSIGN(matmul_, Matmul::create());
        const size_t most = 2 * static_cast<size_t>(std::max({inner(), qkv(), queries(), hidden()})) * kMostRows;
        for (DeviceBuffer* buffer : {&residual_, &normed_, &attended_, &inner_, &out_, &added_}) {
            NL_ASSIGN(*buffer, allocate_device(most * sizeof(float), "activations"));
            NL_CUDA_TRY(cudaMemset(buffer->data(), 0, buffer->bytes()));
        }
        NL_ASSIGN(norm_weight_, allocate_device(static_cast<size_t>(hidden()) * sizeof(float), "norm"));
        NL_CUDA_TRY(cudaMemset(norm_weight_.data(), 0, norm_weight_.bytes()));
        NL_ASSIGN(weights_, allocate_device(kWeights * sizeof(Number), "weights"));
        return fill_weights();
    }

    Result<void> fill_weights() {
        std::mt19937 random(1);
        std::vector<uint16_t> values(size_t{1} << 22U);
        // bfloat16 of either sign from 2^-6 to 2^-5
        for (uint16_t& value : values) value = static_cast<uint16_t>((random() & 0x807fU) | 0x3c80U);
        for (size_t at = 0; at < kWeights; at += values.size()) {
            NL_CUDA_TRY(cudaMemcpy(weights_.as<uint16_t>() + at, values.data(), values.size() * sizeof(uint16_t),
                                   cudaMemcpyHostToDevice));
        }
        return {};
    }

    // The next matrix of [outputs, size]; begins again where there are too few weights left.
    const Number* weight(int outputs, int size) {
        const auto count = static_cast<size_t>(outputs) * static_cast<size_t>(size);
        if (next_weight_ + count > kWeights) next_weight_ = 0;
        const Number* const found = weights_.as<Number>() + next_weight_;
        next_weight_ += count;
        return found;
    }

    Result<void> normalise() {
        return rms_norm(residual(), nullptr, norm(), rows_, hidden(), normed(), gpu_.has_early_launches(),
                        stream_.get());
    }
    Result<void> add() {
        return add_normed<Number>(added(), nullptr, {}, rows_, hidden(), residual(), gpu_.has_early_launches(),
                                  stream_.get());
    }
    template <typename Output>
    Result<void> product(bool by_cublas, const Number* x, int size, int outputs, Output* to) {
        const Number* const w = weight(outputs, size);
        if (!by_cublas) return streamed(x, w, rows_, size, outputs, to, how(false));
        const MatmulShape shape = {product_rows(rows_),
                                   size,
                                   outputs,
                                   outputs,
                                   DType::bf16,
                                   sizeof(Output) == 4 ? DType::f32 : DType::bf16,
                                   false};
        NL_ASSIGN(const bool done, matmul_->multiply(shape, x, w, to, stream_.get()));
        if (!done) return fail(NL_ERROR_UNSUPPORTED, "cuBLASLt has no algorithm for ", outputs, " x ", size);
        return {};
    }

    // Whether two launches share a multiprocessor, as in Decoder.
    [[nodiscard]] bool halves() const {
        const int sizes[] = {hidden(), queries(), inner()};
        return std::all_of(std::begin(sizes), std::end(sizes),
                           [&](int size) { return streamed_supports<Number>(rows_, size, true, gpu_); });
    }
    [[nodiscard]] StreamedLaunch how(bool chained) const {
        return {gpu_.multiprocessors, halves(), false, chained, stream_.get()};
    }
    [[nodiscard]] NormedRows<Number> rows_to_norm() const { return {residual(), norm(), nullptr, rows_, hidden()}; }
    [[nodiscard]] Norm norm() const { return {norm_weight_.as<float>(), 1e-5F}; }

    [[nodiscard]] int hidden() const { return shape_.hidden; }
    [[nodiscard]] int inner() const { return shape_.intermediate; }
    [[nodiscard]] int queries() const { return shape_.heads * shape_.head_dim; }
    [[nodiscard]] int qkv() const { return (shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim; }
    [[nodiscard]] float* residual() const { return residual_.as<float>(); }
    [[nodiscard]] Number* normed() const { return normed_.as<Number>(); }
    [[nodiscard]] Number* attended() const { return attended_.as<Number>(); }
    [[nodiscard]] Number* inner_out() const { return inner_.as<Number>(); }
    [[nodiscard]] Number* out() const { return out_.as<Number>(); }
    [[nodiscard]] float* added() const { return added_.as<float>(); }

    static constexpr int kMostRows = 16;

    const Shape& shape_;
    const int rows_;
    GpuFacts gpu_;
    Stream stream_;
    Event begin_;
    Event end_;
    std::unique_ptr<Matmul> matmul_;
    DeviceBuffer residual_;     // [rows, hidden] float32
    DeviceBuffer normed_;       // [rows, hidden]
    DeviceBuffer attended_;     // [rows, queries]
    DeviceBuffer inner_;        // [rows, inner]
    DeviceBuffer out_;          // [rows, the widest product's outputs]
    DeviceBuffer added_;        // [rows, hidden] float32
    DeviceBuffer norm_weight_;  // [hidden] float32
    DeviceBuffer weights_;      // [kWeights]
    size_t next_weight_ = 0;
};

using Form = Result<void> (Layer::*)(bool);

Result<void> compare(Layer& layer, const char* what, double bytes, Form fused, Form apart) {
    const auto time = [&](Form form, bool flag) {
        return layer.microseconds([&, form, flag] { return (layer.*form)(flag); });
    };
    NL_ASSIGN(const double alone, time(fused, false));
    NL_ASSIGN(const double chained, time(fused, true));
    NL_ASSIGN(const double own, time(apart, false));
    NL_ASSIGN(const double cublas, time(apart, true));
    std::printf("%-28s %8.1f %9.2f %9.2f %9.2f %9.2f %8.2fx %8.2fx\n", what, bytes / 1e6, alone, chained, own, cublas,
                own / alone, cublas / alone);
    return {};
}

Result<void> run(const Shape& shape, int rows) {
    NL_ASSIGN(const auto layer, Layer::create(shape, rows));
    std::printf("%s, %d row(s), bfloat16, us a call\n", shape.name, rows);
    std::printf("%-28s %8s %9s %9s %9s %9s %9s %9s\n", "", "MB", "fused", "chained", "apart", "cuBLASLt", "apart",
                "cuBLASLt");
    NL_TRY(compare(*layer, "norm, QKV", layer->qkv_bytes(), &Layer::fused_qkv, &Layer::apart_qkv));
    NL_TRY(compare(*layer, "output, residual", layer->output_bytes(), &Layer::fused_output, &Layer::apart_output));
    return compare(*layer, "norm, MLP, residual", layer->mlp_bytes(), &Layer::fused_mlp, &Layer::apart_mlp);
}

}  // namespace

int main(int argc, char** argv) {
    const Shape* shape = find_shape("llama-3.1-8b");
    int rows = 1;
    bool good = argc % 2 == 1;
    for (int i = 1; good && i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        if (name == "--model") shape = find_shape(argv[i + 1]);
        if (name == "--rows") rows = std::atoi(argv[i + 1]);
        good = (name == "--model" || name == "--rows") && shape != nullptr && rows >= 1 && rows <= kStreamedRows;
    }
    if (!good || shape->experts.count > 0) {
        std::fprintf(stderr, "usage: bench_fused_products [--model NAME] [--rows N]: a dense shape, 1 to %d rows\n",
                     kStreamedRows);
        return 2;
    }
    const Result<void> result = run(*shape, rows);
    if (!result.ok()) std::fprintf(stderr, "bench_fused_products: %s\n", result.error().message.c_str());
    return result.ok() ? 0 : 1;
}
