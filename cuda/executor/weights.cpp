#include "executor/weights.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "backend/read_weight.h"
#include "executor/dtype_of.h"
#include "executor/uploader.h"
#include "runtime/check.h"
#include "runtime/stream.h"

namespace nanolith::cuda {

namespace {

constexpr size_t kAlignment = 256;

// Divides one allocation among the weights. It is used twice: with a null base to measure, then with the allocation.
class Arena {
  public:
    explicit Arena(std::byte* base) : base_(base) {}

    template <typename T>
    T* reserve(int64_t count) {
        std::byte* const at = base_ == nullptr ? nullptr : base_ + used_;
        used_ += (static_cast<size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
        return reinterpret_cast<T*>(at);
    }
    [[nodiscard]] size_t used() const { return used_; }

  private:
    std::byte* base_;
    size_t used_ = 0;
};

bool is_tied(const ModelWeights& weights) {
    return weights.head.data == weights.embedding.data && weights.head.dtype == weights.embedding.dtype;
}

bool has_bias(const LayerWeights& layer) {
    return layer.q_bias.present() || layer.k_bias.present() || layer.v_bias.present();
}

int64_t qkv_rows(const ModelSpec& spec) {
    return (int64_t{spec.num_heads} + 2 * int64_t{spec.num_kv_heads}) * spec.head_dim;
}

// Views of the weights that a matrix consists of, on top of each other.
using MatrixViews = std::vector<const WeightView*>;

MatrixViews qkv_views(const LayerWeights& layer) {
    return {&layer.q_proj, &layer.k_proj, &layer.v_proj};
}
MatrixViews gate_up_views(const LayerWeights& layer) {
    return {&layer.gate_proj, &layer.up_proj};
}

MatrixViews expert_gate_up_views(const ExpertWeights& expert) {
    return {&expert.gate_proj, &expert.up_proj};
}
MatrixViews expert_down_views(const ExpertWeights& expert) {
    return {&expert.down_proj};
}
using ViewsOfExpert = MatrixViews (*)(const ExpertWeights&);

// Such a matrix without a place for its tiles.
CompactMatrix compact_matrix(const CompactForm& form, int64_t outputs, int64_t size, bool gated) {
    CompactMatrix matrix;
    matrix.layout = CompactLayout(form);
    matrix.size = static_cast<int>(size);
    matrix.outputs = static_cast<int>(outputs);
    matrix.gated = gated;
    return matrix;
}

CompactMatrix place_compact(const CompactForm& form, int64_t outputs, int64_t size, bool gated, Arena& arena) {
    CompactMatrix matrix = compact_matrix(form, outputs, size, gated);
    matrix.tiles = arena.reserve<std::byte>(matrix.bytes());
    return matrix;
}

// Where the part that begins with view `first` ends: views of one form are a part, as long as each but the last one is
// whole tiles.
size_t end_of_part(const MatrixViews& views, size_t first, WeightForm form) {
    size_t end = first + 1;
    while (end < views.size() && views[end - 1]->rows % kCompactTile == 0 &&
           compact_form(*views[end], form) == compact_form(*views[first], form)) {
        ++end;
    }
    return end;
}

// Decides where matrices are and whether they are compact. `gated`: two views that become one gated matrix where they
// are of one form and have no biases.
template <typename T>
DeviceMatrix<T> place_matrix(const MatrixViews& views, WeightForm form, bool gated, Arena& arena) {
    DeviceMatrix<T> matrix;
    matrix.size = static_cast<int>(views.front()->cols);
    for (const WeightView* view : views) matrix.outputs += static_cast<int>(view->rows);
    const auto stored = [&](const WeightView* view) { return CompactLayout::stores(compact_form(*view, form)); };
    if (!is_compact(views, form) || !std::ranges::all_of(views, stored)) {
        matrix.wide = arena.reserve<T>(int64_t{matrix.outputs} * matrix.size);
        return matrix;
    }
    if (!views.front()->columns.empty()) matrix.columns = arena.reserve<int32_t>(matrix.size);
    const CompactForm first = compact_form(*views.front(), form);
    if (gated && first == compact_form(*views.back(), form)) {
        matrix.parts = {place_compact(first, views.front()->rows, matrix.size, true, arena)};
        return matrix;
    }
    for (size_t i = 0; i < views.size();) {
        const size_t end = end_of_part(views, i, form);
        int64_t outputs = 0;
        for (size_t j = i; j < end; ++j) outputs += views[j]->rows;
        matrix.parts.push_back(place_compact(compact_form(*views[i], form), outputs, matrix.size, false, arena));
        i = end;
    }
    return matrix;
}

// Decides where a matrix of all experts is and whether it is compact: where all experts have it in one form, with its
// columns in order.
template <typename T>
ExpertMatrix<T> place_experts(const LayerWeights& layer, ViewsOfExpert views_of, WeightForm form, Arena& arena) {
    const MatrixViews first = views_of(layer.experts.front());
    const CompactForm first_form = compact_form(*first.front(), form);
    const auto is_alike = [&](const ExpertWeights& expert) {
        const MatrixViews views = views_of(expert);
        return is_compact(views, form) && std::ranges::all_of(views, [&](const WeightView* view) {
                   return view->columns.empty() && compact_form(*view, form) == first_form;
               });
    };
    const auto count = static_cast<int64_t>(layer.experts.size());
    const int64_t rows = first.front()->rows;
    const int64_t size = first.front()->cols;
    ExpertMatrix<T> matrix;
    if (!CompactLayout::stores(first_form) || !std::ranges::all_of(layer.experts, is_alike)) {
        matrix.wide = arena.reserve<T>(count * static_cast<int64_t>(first.size()) * rows * size);
        return matrix;
    }
    matrix.first = compact_matrix(first_form, rows, size, first.size() > 1);
    matrix.first.tiles = arena.reserve<std::byte>(count * matrix.first.bytes());
    return matrix;
}

template <typename T>
DeviceLayer<T> place_layer(const ModelSpec& spec, const LayerWeights& layer, WeightForm form, Arena& arena) {
    const int64_t hidden = spec.hidden_size;
    DeviceLayer<T> to;
    to.attention_norm = arena.reserve<float>(hidden);
    to.qkv = place_matrix<T>(qkv_views(layer), form, false, arena);
    if (has_bias(layer)) to.qkv_bias = arena.reserve<T>(qkv_rows(spec));
    if (layer.q_norm.present()) to.q_norm = arena.reserve<float>(spec.head_dim);
    if (layer.k_norm.present()) to.k_norm = arena.reserve<float>(spec.head_dim);
    to.o = place_matrix<T>({&layer.o_proj}, form, false, arena);
    if (layer.o_bias.present()) to.o_bias = arena.reserve<T>(hidden);
    if (layer.attention_post_norm.present()) to.attention_post_norm = arena.reserve<float>(hidden);
    to.mlp_norm = arena.reserve<float>(hidden);
    if (layer.mlp_post_norm.present()) to.mlp_post_norm = arena.reserve<float>(hidden);
    if (layer.router.present()) {
        to.router = place_matrix<T>({&layer.router}, WeightForm::wide, false, arena);
        to.experts.gate_up = place_experts<T>(layer, expert_gate_up_views, form, arena);
        to.experts.down = place_experts<T>(layer, expert_down_views, form, arena);
        return to;
    }
    const bool has_gate_bias = layer.gate_bias.present();
    to.gate_up = place_matrix<T>(gate_up_views(layer), form, !has_gate_bias, arena);
    if (has_gate_bias) to.gate_up_bias = arena.reserve<T>(2 * int64_t{spec.intermediate_size});
    to.down = place_matrix<T>({&layer.down_proj}, form, false, arena);
    if (layer.down_bias.present()) to.down_bias = arena.reserve<T>(hidden);
    return to;
}

template <typename T>
void place_all(const ModelSpec& spec, const ModelWeights& weights, WeightForm form, Arena& arena,
               DeviceWeights<T>& to) {
    to.embedding = place_matrix<T>({&weights.embedding}, table_form(form), false, arena);
    to.final_norm = arena.reserve<float>(spec.hidden_size);
    to.head = is_tied(weights) ? to.embedding : place_matrix<T>({&weights.head}, table_form(form), false, arena);
    to.layers.clear();
    for (const LayerWeights& layer : weights.layers) to.layers.push_back(place_layer<T>(spec, layer, form, arena));
}

Result<void> upload_floats(Uploader& uploader, const std::vector<float>& from, float* to) {
    if (from.empty()) return {};
    const WeightView view{DType::f32, 1, static_cast<int64_t>(from.size()),
                          reinterpret_cast<const std::byte*>(from.data())};
    return uploader.upload(view, to, DType::f32);
}

// A norm that the model has, or nothing.
Result<void> upload_norm(Uploader& uploader, const ModelSpec& spec, const WeightView& from, float* to) {
    if (!from.present()) return {};
    std::vector<float> weights(from.cols);
    read_weight(from, 0, from.cols, weights.data());
    for (float& weight : weights) weight += spec.norm_offset;
    return upload_floats(uploader, weights, to);
}

// Uploads the views to where place_matrix() has put their matrix.
template <typename T>
Result<void> upload_matrix(Uploader& uploader, const MatrixViews& views, WeightForm form, const DeviceMatrix<T>& to) {
    if (to.columns != nullptr) NL_TRY(uploader.upload_integers(views.front()->columns, to.columns));
    if (to.gated()) {
        return uploader.upload_compact(views, compact_form(*views.front(), form), to.parts.front());
    }
    if (to.compact()) {
        size_t first = 0;
        for (const CompactMatrix& part : to.parts) {
            CompactMatrix rows = part;  // of one view
            const size_t end = end_of_part(views, first, form);
            for (; first < end; ++first) {
                rows.outputs = static_cast<int>(views[first]->rows);
                NL_TRY(uploader.upload_compact({&views[first], 1}, compact_form(*views[first], form), rows));
                rows.tiles += rows.bytes();
            }
        }
        return {};
    }
    T* wide = to.wide;
    for (const WeightView* view : views) {
        NL_TRY(uploader.upload(*view, wide, kDTypeOf<T>));
        wide += view->rows * view->cols;
    }
    return {};
}

// Uploads the weights of a layer to where place_layer() has put them.
template <typename T>
class LayerUpload {
  public:
    LayerUpload(Uploader& uploader, const ModelSpec& spec, WeightForm form, cudaStream_t stream)
        : uploader_(uploader), spec_(spec), form_(form), stream_(stream) {}

    Result<void> upload(const LayerWeights& from, const DeviceLayer<T>& to) {
        NL_TRY(norm(from.attention_norm, to.attention_norm));
        NL_TRY(matrix(qkv_views(from), to.qkv));
        if (to.qkv_bias != nullptr) NL_TRY(qkv_bias(from, to.qkv_bias));
        NL_TRY(norm(from.q_norm, to.q_norm));
        NL_TRY(norm(from.k_norm, to.k_norm));
        NL_TRY(matrix({&from.o_proj}, to.o));
        NL_TRY(one(from.o_bias, to.o_bias));
        NL_TRY(norm(from.attention_post_norm, to.attention_post_norm));
        NL_TRY(norm(from.mlp_norm, to.mlp_norm));
        NL_TRY(norm(from.mlp_post_norm, to.mlp_post_norm));
        if (from.router.present()) return experts(from, to);
        NL_TRY(matrix(gate_up_views(from), to.gate_up));
        if (to.gate_up_bias != nullptr) NL_TRY(parts({&from.gate_bias, &from.up_bias}, to.gate_up_bias));
        NL_TRY(matrix({&from.down_proj}, to.down));
        return one(from.down_bias, to.down_bias);
    }

  private:
    Result<void> matrix(const MatrixViews& from, const DeviceMatrix<T>& to) {
        return upload_matrix(uploader_, from, form_, to);
    }
    // A weight that the model has, or nothing.
    Result<void> one(const WeightView& from, T* to) {
        return from.present() ? uploader_.upload(from, to, kDTypeOf<T>) : Result<void>();
    }
    Result<void> norm(const WeightView& from, float* to) { return upload_norm(uploader_, spec_, from, to); }
    // Uploads weights one after another, so that they are adjacent in memory.
    Result<void> parts(std::initializer_list<const WeightView*> from, T* to) {
        for (const WeightView* part : from) {
            NL_TRY(one(*part, to));
            to += part->rows * part->cols;
        }
        return {};
    }
    // The biases of q, k and v; zeros where one of them has none.
    Result<void> qkv_bias(const LayerWeights& from, T* to) {
        const int64_t q_rows = int64_t{spec_.num_heads} * spec_.head_dim;
        const int64_t kv_rows = int64_t{spec_.num_kv_heads} * spec_.head_dim;
        NL_CUDA_TRY(cudaMemsetAsync(to, 0, static_cast<size_t>(qkv_rows(spec_)) * sizeof(T), stream_));
        NL_TRY(one(from.q_bias, to));
        NL_TRY(one(from.k_bias, to + q_rows));
        return one(from.v_bias, to + q_rows + kv_rows);
    }
    Result<void> experts(const LayerWeights& from, const DeviceLayer<T>& to) {
        NL_TRY(one(from.router, to.router.wide));
        for (size_t i = 0; i < from.experts.size(); ++i) {
            NL_TRY(expert(expert_gate_up_views(from.experts[i]), to.experts.gate_up, static_cast<int64_t>(i)));
            NL_TRY(expert(expert_down_views(from.experts[i]), to.experts.down, static_cast<int64_t>(i)));
        }
        return {};
    }
    // A matrix of expert number `i`.
    Result<void> expert(const MatrixViews& from, const ExpertMatrix<T>& to, int64_t i) {
        if (to.compact()) return uploader_.upload_compact(from, compact_form(*from.front(), form_), to.of(i));
        T* wide = to.wide;
        for (const WeightView* view : from) wide += i * view->rows * view->cols;
        for (const WeightView* view : from) {
            NL_TRY(one(*view, wide));
            wide += view->rows * view->cols;
        }
        return {};
    }

    Uploader& uploader_;
    const ModelSpec& spec_;
    const WeightForm form_;
    cudaStream_t stream_;
};

template <typename T>
Result<void> upload_all(Uploader& uploader, const ModelSpec& spec, const ModelWeights& weights, WeightForm form,
                        const DeviceWeights<T>& device, cudaStream_t stream) {
    const WeightForm tables = table_form(form);
    NL_TRY(upload_matrix(uploader, {&weights.embedding}, tables, device.embedding));
    NL_TRY(upload_norm(uploader, spec, weights.final_norm, device.final_norm));
    if (!is_tied(weights)) NL_TRY(upload_matrix(uploader, {&weights.head}, tables, device.head));
    LayerUpload<T> layer(uploader, spec, form, stream);
    for (size_t i = 0; i < weights.layers.size(); ++i) {
        NL_TRY(layer.upload(weights.layers[i], device.layers[i]));
    }
    return {};
}

}  // namespace

template <typename T>
Result<DeviceWeights<T>> allocate_weights(const ModelSpec& spec, const ModelWeights& weights, WeightForm form,
                                          cudaStream_t stream) {
    DeviceWeights<T> device;
    Arena measure(nullptr);
    place_all(spec, weights, form, measure, device);
    NL_ASSIGN(device.memory, allocate_device(measure.used(), "the weights"));
    Arena arena(device.memory.data());
    place_all(spec, weights, form, arena, device);
    NL_CUDA_TRY(cudaMemsetAsync(device.memory.data(), 0, measure.used(), stream));
    return device;
}

template <typename T>
Result<void> upload_weights(const ModelSpec& spec, const ModelWeights& weights, WeightForm form,
                            const DeviceWeights<T>& to, const Progress& progress, double share) {
    PartProgress part(progress, 0, share, to.memory.bytes());
    NL_ASSIGN(const Stream stream, create_stream());
    NL_ASSIGN(Uploader uploader, Uploader::create(stream.get(), part));
    Result<void> uploaded = upload_all(uploader, spec, weights, form, to, stream.get());
    // After an error too, since copies from the uploader's buffers may still be under way.
    NL_CUDA_TRY(cudaStreamSynchronize(stream.get()));
    return uploaded;
}

#define NL_INSTANTIATE(T)                                                                                            \
    template Result<DeviceWeights<T>> allocate_weights(const ModelSpec&, const ModelWeights&, WeightForm,            \
                                                       cudaStream_t);                                                \
    template Result<void> upload_weights(const ModelSpec&, const ModelWeights&, WeightForm, const DeviceWeights<T>&, \
                                         const Progress&, double);
NL_INSTANTIATE(float)
NL_INSTANTIATE(__half)
NL_INSTANTIATE(__nv_bfloat16)
#undef NL_INSTANTIATE

}  // namespace nanolith::cuda
