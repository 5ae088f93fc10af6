#include "backend/cpu/products.h"

#include <algorithm>
#include <dnnl.hpp>
#include <map>
#include <tuple>

#include "backend/cpu/matvec.h"
#include "backend/cpu/norm_rope.h"
#include "backend/cpu/parallel.h"

namespace nanolith::cpu {
namespace {

using DnnlType = dnnl::memory::data_type;
using DnnlTag = dnnl::memory::format_tag;

// Weight rows that one thread takes at a time: few enough to spread a small matrix, many enough to stream.
constexpr int64_t kMatvecOutputs = 64;
// Below so many bytes of weights, waking the other threads costs more than they save.
constexpr int64_t kParallelBytes = 128 * 1024;

// oneDNN 2 makes a primitive descriptor from an operation descriptor, oneDNN 3 from the memory descriptors.
dnnl::matmul make_matmul(const dnnl::engine& engine, const dnnl::memory::desc& x, const dnnl::memory::desc& w,
                         const dnnl::memory::desc& y, bool accumulate) {
    dnnl::primitive_attr attributes;
    if (accumulate) {
        dnnl::post_ops post;
        post.append_sum(1.0F);
        attributes.set_post_ops(post);
    }
#if DNNL_VERSION_MAJOR >= 3
    return dnnl::matmul(dnnl::matmul::primitive_desc(engine, x, w, y, attributes));
#else
    return dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, w, y), attributes, engine));
#endif
}

template <typename T>
constexpr DnnlType dnnl_type() {
    return std::is_same_v<T, float> ? DnnlType::f32 : DnnlType::bf16;
}

}  // namespace

int64_t padded_rows(int64_t rows) {
    const int64_t step = rows <= 64 ? 16 : 64;
    return (rows + step - 1) / step * step;
}

template <typename T>
struct Products<T>::State {
    using Key = std::tuple<int64_t, int64_t, int64_t, bool>;  // rows, outputs, depth, accumulate
    struct Primitive {
        dnnl::matmul matmul;
        dnnl::memory x, w, y;
    };

    explicit State(int threads) : num_threads(threads) {}

    Primitive& primitive(const Key& key) {
        const auto found = primitives.find(key);
        if (found != primitives.end()) return found->second;
        const auto [rows, outputs, depth, accumulate] = key;
        const dnnl::memory::desc x({rows, depth}, dnnl_type<T>(), DnnlTag::ab);
        const dnnl::memory::desc w({depth, outputs}, dnnl_type<T>(), DnnlTag::ba);  // row-major [outputs, depth]
        const dnnl::memory::desc y({rows, outputs}, DnnlType::f32, DnnlTag::ab);
        Primitive made{make_matmul(engine, x, w, y, accumulate), dnnl::memory(x, engine, DNNL_MEMORY_NONE),
                       dnnl::memory(w, engine, DNNL_MEMORY_NONE), dnnl::memory(y, engine, DNNL_MEMORY_NONE)};
        return primitives.emplace(key, std::move(made)).first->second;
    }

    void many_rows(const Matrix<T>& w, T* x, int64_t rows, float* y, bool accumulate) {
        const int64_t padded = padded_rows(rows);
        Primitive& p = primitive({padded, w.outputs, w.depth, accumulate});
        // oneDNN 3's AMX kernels read past the end of a row whose depth their tiles don't divide, and multiply what
        // stands there by zero. Behind the last row that must not be the NaNs of memory never written.
        std::fill(x + rows * w.depth, x + padded * w.depth, T());
        p.x.set_data_handle(x);
        // oneDNN takes no const pointers; sources are only read.
        p.w.set_data_handle(const_cast<T*>(w.data));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
        p.y.set_data_handle(y);
        p.matmul.execute(stream, {{DNNL_ARG_SRC, p.x}, {DNNL_ARG_WEIGHTS, p.w}, {DNNL_ARG_DST, p.y}});
        stream.wait();
    }

    void few_rows(const Matrix<T>& w, const T* x, int64_t rows, float* y, bool accumulate) {
        convert(x, rows * w.depth, wide.data());
        const int64_t pieces = (w.outputs + kMatvecOutputs - 1) / kMatvecOutputs;
        const bool small = w.outputs * w.depth * static_cast<int64_t>(sizeof(T)) < kParallelBytes;
        parallel_for(small ? 1 : num_threads, pieces, [&](int64_t piece, int) {
            const int64_t first = piece * kMatvecOutputs;
            matvec(w.data, w.depth, wide.data(), rows, first, std::min(first + kMatvecOutputs, w.outputs), y, w.outputs,
                   accumulate);
        });
    }

    int num_threads;
    bool has_primitives = true;  // until oneDNN says otherwise
    Buffer<float> wide;          // few rows of x as float32
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    std::map<Key, Primitive> primitives;
};

template <typename T>
Products<T>::Products(std::unique_ptr<State> state) : state_(std::move(state)) {}
template <typename T>
Products<T>::Products() noexcept = default;
template <typename T>
Products<T>::Products(Products&&) noexcept = default;
template <typename T>
Products<T>& Products<T>::operator=(Products&&) noexcept = default;
template <typename T>
Products<T>::~Products() = default;

template <typename T>
Result<Products<T>> Products<T>::create(int num_threads, int64_t max_depth) {
    try {
        auto state = std::make_unique<State>(num_threads);
        NL_ASSIGN(state->wide, Buffer<float>::allocate("a few rows of activations", {kMatvecRows, max_depth}));
        return Products(std::move(state));
    } catch (const dnnl::error& error) {
        const nl_status status = error.status == dnnl_out_of_memory ? NL_ERROR_OUT_OF_MEMORY : NL_ERROR_INTERNAL;
        return fail(status, "oneDNN could not start: ", error.what());
    }
}

// Does `work` with oneDNN; false where few rows go without it, or where it has no such product.
template <typename T>
template <typename Work>
Result<bool> Products<T>::with_primitives(const Matrix<T>& w, int64_t rows, const Work& work) {
    if (rows <= kMatvecRows || !state_->has_primitives) return false;
    try {
        work();
        return true;
    } catch (const dnnl::error& error) {
        if (error.status != dnnl_unimplemented) {
            const nl_status status = error.status == dnnl_out_of_memory ? NL_ERROR_OUT_OF_MEMORY : NL_ERROR_INTERNAL;
            return fail(status, "oneDNN failed at a product of ", rows, " rows with a ", w.outputs, " x ", w.depth,
                        " matrix: ", error.what());
        }
        state_->has_primitives = false;  // bfloat16 without AVX-512
    }
    return false;
}

template <typename T>
Result<void> Products<T>::prepare(const Matrix<T>& w, int64_t rows, bool accumulate) {
    const auto make = [&] { state_->primitive({padded_rows(rows), w.outputs, w.depth, accumulate}); };
    NL_TRY(with_primitives(w, rows, make));
    return {};
}

template <typename T>
Result<void> Products<T>::run(const Matrix<T>& w, T* x, int64_t rows, float* y, bool accumulate) {
    if (rows == 0) return {};
    NL_ASSIGN(const bool done, with_primitives(w, rows, [&] { state_->many_rows(w, x, rows, y, accumulate); }));
    if (done) return {};
    for (int64_t row = 0; row < rows; row += kMatvecRows)
        state_->few_rows(w, x + row * w.depth, std::min<int64_t>(kMatvecRows, rows - row), y + row * w.outputs,
                         accumulate);
    return {};
}

template class Products<float>;
template class Products<BFloat16>;

}  // namespace nanolith::cpu
