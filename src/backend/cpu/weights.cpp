#include "backend/cpu/weights.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/norm_rope.h"
#include "backend/read_weight.h"

namespace nanolith::cpu {
namespace {

template <typename T>
constexpr DType kDType = std::is_same_v<T, float> ? DType::f32 : DType::bf16;

// Elements that are converted at a time, through a float32 buffer on the stack.
constexpr int64_t kPiece = 4096;

template <typename T>
bool usable_in_place(const WeightView& view) {
    return view.dtype == kDType<T> && view.plain() && reinterpret_cast<uintptr_t>(view.data) % alignof(T) == 0 &&
           (view.source == nullptr || view.source->stays());
}

template <typename T>
void copy_converted(const WeightView& view, ThreadPool& pool, T* to) {
    const int64_t size = view.rows * view.cols;
    const int64_t bytes = size * static_cast<int64_t>(sizeof(T) + dtype_bytes(view.dtype));
    pool.run((size + kPiece - 1) / kPiece, cost_of_bytes(bytes), [&](int64_t piece, int32_t) {
        const int64_t first = piece * kPiece;
        const int64_t count = std::min(kPiece, size - first);
        if (view.dtype == kDType<T> && view.plain()) {
            read_elements(view, first, count, to + first);
            return;
        }
        float wide[kPiece];
        read_weight(view, first, count, wide);
        convert(wide, count, to + first);
    });
}

// Has the source see a weight that stays where it is, as it sees those that are copied.
template <typename T>
void look_through(const WeightView& view, ThreadPool& pool) {
    if (view.source == nullptr) return;
    const int64_t size = view.rows * view.cols;
    const int64_t bytes = size * static_cast<int64_t>(dtype_bytes(view.dtype));
    pool.run((size + kPiece - 1) / kPiece, cost_of_bytes(bytes), [&](int64_t piece, int32_t) {
        T seen[kPiece];
        read_elements(view, piece * kPiece, std::min(kPiece, size - piece * kPiece), seen);
    });
}

// A named weight with the rows that it must have.
struct Part {
    const char* name;
    const WeightView& view;
    int64_t rows;
};

// How matrices are loaded.
struct Loading {
    ThreadPool& pool;
    WeightForm form;
};

template <typename T>
Result<Matrix<T>> load_compact_matrix(const std::string& prefix, std::initializer_list<Part> parts, int64_t cols,
                                      const Loading& loading) {
    Matrix<T> matrix;
    matrix.depth = cols;
    const std::span<const int32_t> columns = parts.begin()->view.columns;
    matrix.columns.assign(columns.begin(), columns.end());
    for (const Part& part : parts) {
        const CompactForm form = compact_form(part.view, loading.form);
        NL_ASSIGN(auto rows, load_compact(prefix + part.name, part.view, form, loading.pool));
        matrix.outputs += part.rows;
        matrix.parts.push_back(std::move(rows));
    }
    return matrix;
}

// The parts on top of each other as one matrix of `cols` columns.
template <typename T>
Result<Matrix<T>> load_matrix(const std::string& prefix, std::initializer_list<Part> parts, int64_t cols,
                              const Loading& loading) {
    std::vector<const WeightView*> views;
    for (const Part& part : parts) views.push_back(&part.view);
    if (is_compact(views, loading.form)) return load_compact_matrix<T>(prefix, parts, cols, loading);
    ThreadPool& pool = loading.pool;
    Matrix<T> matrix;
    matrix.depth = cols;
    for (const Part& part : parts) {
        matrix.outputs += part.rows;
    }
    if (parts.size() == 1 && usable_in_place<T>(parts.begin()->view)) {
        look_through<T>(parts.begin()->view, pool);
        matrix.data = reinterpret_cast<const T*>(parts.begin()->view.data);
        return matrix;
    }
    NL_ASSIGN(matrix.owned, Buffer<T>::allocate("weight " + prefix + parts.begin()->name, {matrix.outputs, cols}));
    T* to = matrix.owned.data();
    for (const Part& part : parts) {
        copy_converted(part.view, pool, to);
        to += part.rows * cols;
    }
    matrix.data = matrix.owned.data();
    return matrix;
}

// The vectors concatenated; nothing where they are not present.
std::vector<float> load_vector(std::initializer_list<Part> parts) {
    std::vector<float> vector;
    for (const Part& part : parts) {
        if (!part.view.present()) return {};
        const size_t before = vector.size();
        vector.resize(before + static_cast<size_t>(part.rows));
        read_weight(part.view, 0, part.rows, vector.data() + before);
    }
    return vector;
}

// Norms multiply by their weight plus the model's offset.
std::vector<float> load_norm(const ModelSpec& spec, const char* name, const WeightView& view) {
    std::vector<float> norm = load_vector({{name, view, view.cols}});
    for (float& weight : norm) weight += spec.norm_offset;
    return norm;
}

template <typename T>
Result<CpuMlp<T>> load_mlp(const std::string& prefix, const ExpertWeights& from, int64_t hidden, int64_t inner,
                           const Loading& loading) {
    CpuMlp<T> to;
    NL_ASSIGN(to.gate_up,
              load_matrix<T>(prefix, {{"gate_proj", from.gate_proj, inner}, {"up_proj", from.up_proj, inner}}, hidden,
                             loading));
    NL_ASSIGN(to.down, load_matrix<T>(prefix, {{"down_proj", from.down_proj, hidden}}, inner, loading));
    return to;
}

template <typename T>
Result<void> load_mlps(const ModelSpec& spec, const LayerWeights& from, const std::string& prefix,
                       const Loading& loading, CpuLayer<T>& to) {
    const int64_t hidden = spec.hidden_size;
    if (!from.router.present()) {
        NL_ASSIGN(to.mlp, load_mlp<T>(prefix, {from.gate_proj, from.up_proj, from.down_proj}, hidden,
                                      spec.intermediate_size, loading));
        const int64_t inner = spec.intermediate_size;
        to.mlp.gate_up_bias = load_vector({{"gate_bias", from.gate_bias, inner}, {"up_bias", from.up_bias, inner}});
        to.mlp.down_bias = load_vector({{"down_bias", from.down_bias, hidden}});
        return {};
    }
    // Rounding the router would change which experts tokens get.
    NL_ASSIGN(to.router, load_matrix<T>(prefix, {{"router", from.router, spec.experts.count}}, hidden,
                                        {loading.pool, WeightForm::wide}));
    for (size_t i = 0; i < from.experts.size(); ++i) {
        NL_ASSIGN(CpuMlp<T> expert, load_mlp<T>(prefix + "experts." + std::to_string(i) + ".", from.experts[i], hidden,
                                                spec.experts.intermediate_size, loading));
        to.experts.push_back(std::move(expert));
    }
    return {};
}

template <typename T>
Result<CpuLayer<T>> load_layer(const ModelSpec& spec, const LayerWeights& from, const std::string& prefix,
                               const Loading& loading) {
    const int64_t hidden = spec.hidden_size;
    const int64_t q = int64_t{spec.num_heads} * spec.head_dim;
    const int64_t kv = int64_t{spec.num_kv_heads} * spec.head_dim;
    CpuLayer<T> to;
    to.attention_norm = load_norm(spec, "attention_norm", from.attention_norm);
    to.attention_post_norm = load_norm(spec, "attention_post_norm", from.attention_post_norm);
    to.mlp_norm = load_norm(spec, "mlp_norm", from.mlp_norm);
    to.mlp_post_norm = load_norm(spec, "mlp_post_norm", from.mlp_post_norm);
    to.qkv_bias = load_vector({{"q_bias", from.q_bias, q}, {"k_bias", from.k_bias, kv}, {"v_bias", from.v_bias, kv}});
    to.output_bias = load_vector({{"o_bias", from.o_bias, hidden}});
    to.q_norm = load_norm(spec, "q_norm", from.q_norm);
    to.k_norm = load_norm(spec, "k_norm", from.k_norm);
    NL_ASSIGN(
        to.qkv,
        load_matrix<T>(prefix, {{"q_proj", from.q_proj, q}, {"k_proj", from.k_proj, kv}, {"v_proj", from.v_proj, kv}},
                       hidden, loading));
    NL_ASSIGN(to.output, load_matrix<T>(prefix, {{"o_proj", from.o_proj, hidden}}, q, loading));
    NL_TRY(load_mlps(spec, from, prefix, loading, to));
    return to;
}

template <typename T>
uint64_t copied_bytes(std::initializer_list<const WeightView*> views, WeightForm form) {
    const bool compact = is_compact({views.begin(), views.size()}, form);
    if (!compact && views.size() == 1 && usable_in_place<T>(**views.begin())) return 0;
    uint64_t bytes = 0;
    for (const WeightView* view : views) {
        const uint64_t part = !view->present() ? 0
                              : compact        ? compact_bytes(compact_form(*view, form), view->rows, view->cols)
                                        : saturating_product({view->rows, view->cols, static_cast<int64_t>(sizeof(T))});
        if (__builtin_add_overflow(bytes, part, &bytes)) return std::numeric_limits<uint64_t>::max();
    }
    return bytes;
}

template <typename T>
uint64_t owned_bytes(const Matrix<T>& matrix) {
    uint64_t bytes = matrix.owned.size() * sizeof(T) + matrix.columns.size() * sizeof(int32_t);
    for (const CompactRows& part : matrix.parts) bytes += part.strips.size() + part.scales.size() * sizeof(float);
    return bytes;
}

template <typename T>
uint64_t owned_bytes(const CpuLayer<T>& layer) {
    uint64_t bytes = owned_bytes(layer.qkv) + owned_bytes(layer.output) + owned_bytes(layer.router) +
                     owned_bytes(layer.mlp.gate_up) + owned_bytes(layer.mlp.down);
    for (const CpuMlp<T>& expert : layer.experts) bytes += owned_bytes(expert.gate_up) + owned_bytes(expert.down);
    return bytes;
}

}  // namespace

template <typename T>
uint64_t weight_bytes(const ModelWeights& weights, WeightForm form) {
    uint64_t bytes = 0;
    const auto add = [&bytes](uint64_t more) {
        if (__builtin_add_overflow(bytes, more, &bytes)) bytes = std::numeric_limits<uint64_t>::max();
    };
    add(copied_bytes<T>({&weights.embedding}, table_form(form)));
    if (weights.head.data != weights.embedding.data) add(copied_bytes<T>({&weights.head}, table_form(form)));
    for (const LayerWeights& layer : weights.layers) {
        add(copied_bytes<T>({&layer.q_proj, &layer.k_proj, &layer.v_proj}, form));
        add(copied_bytes<T>({&layer.o_proj}, form));
        add(copied_bytes<T>({&layer.gate_proj, &layer.up_proj}, form));
        add(copied_bytes<T>({&layer.down_proj}, form));
        add(copied_bytes<T>({&layer.router}, WeightForm::wide));
        for (const ExpertWeights& expert : layer.experts) {
            add(copied_bytes<T>({&expert.gate_proj, &expert.up_proj}, form));
            add(copied_bytes<T>({&expert.down_proj}, form));
        }
    }
    return bytes;
}

template <typename T>
Result<CpuWeights<T>> load_weights(const ModelSpec& spec, const ModelWeights& weights, ThreadPool& pool,
                                   WeightForm form, PartProgress& progress) {
    const Loading tables{pool, table_form(form)};
    const Loading loading{pool, form};
    CpuWeights<T> to;
    NL_ASSIGN(to.embedding,
              load_matrix<T>("", {{"embedding", weights.embedding, spec.vocab_size}}, spec.hidden_size, tables));
    NL_TRY(progress.add(owned_bytes(to.embedding)));
    to.final_norm = load_norm(spec, "final_norm", weights.final_norm);
    if (weights.head.data != weights.embedding.data) {
        NL_ASSIGN(to.own_head, load_matrix<T>("", {{"head", weights.head, spec.vocab_size}}, spec.hidden_size, tables));
        NL_TRY(progress.add(owned_bytes(to.own_head)));
    }
    for (size_t i = 0; i < weights.layers.size(); ++i) {
        NL_ASSIGN(CpuLayer<T> layer,
                  load_layer<T>(spec, weights.layers[i], "layers." + std::to_string(i) + ".", loading));
        NL_TRY(progress.add(owned_bytes(layer)));
        to.layers.push_back(std::move(layer));
    }
    return to;
}

template <typename T>
bool any_in_place(const CpuWeights<T>& weights) {
    const auto in_place = [](const Matrix<T>& matrix) { return matrix.data != nullptr && matrix.owned.size() == 0; };
    const auto mlp_in_place = [&](const CpuMlp<T>& mlp) { return in_place(mlp.gate_up) || in_place(mlp.down); };
    return in_place(weights.embedding) || in_place(weights.own_head) ||
           std::ranges::any_of(weights.layers, [&](const CpuLayer<T>& layer) {
               return in_place(layer.qkv) || in_place(layer.output) || in_place(layer.router) ||
                      mlp_in_place(layer.mlp) || std::ranges::any_of(layer.experts, mlp_in_place);
           });
}

template bool any_in_place(const CpuWeights<float>&);
template bool any_in_place(const CpuWeights<BFloat16>&);
template uint64_t weight_bytes<float>(const ModelWeights&, WeightForm);
template uint64_t weight_bytes<BFloat16>(const ModelWeights&, WeightForm);
template Result<CpuWeights<float>> load_weights(const ModelSpec&, const ModelWeights&, ThreadPool&, WeightForm,
                                                PartProgress&);
template Result<CpuWeights<BFloat16>> load_weights(const ModelSpec&, const ModelWeights&, ThreadPool&, WeightForm,
                                                   PartProgress&);

}  // namespace nanolith::cpu
