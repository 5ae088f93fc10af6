#include "executor/weights.h"

#include "executor/dtype_of.h"
#include "executor/uploader.h"
#include "runtime/check.h"

namespace nanolith::cuda {

namespace {

constexpr size_t kAlignment = 256;

// The places of the weights in one allocation. The first pass, with base null, measures; the second hands out.
class Arena {
  public:
    explicit Arena(std::byte* base) : base_(base) {}

    template <typename T>
    T* take(int64_t count) {
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

template <typename T>
DeviceLayer<T> place_layer(const ModelSpec& spec, const LayerWeights& layer, Arena& arena) {
    const int64_t hidden = spec.hidden_size;
    DeviceLayer<T> to;
    to.attention_norm = arena.take<T>(hidden);
    to.qkv = arena.take<T>(qkv_rows(spec) * hidden);
    if (has_bias(layer)) to.qkv_bias = arena.take<T>(qkv_rows(spec));
    if (layer.q_norm.present()) to.q_norm = arena.take<T>(spec.head_dim);
    if (layer.k_norm.present()) to.k_norm = arena.take<T>(spec.head_dim);
    to.o = arena.take<T>(hidden * spec.num_heads * spec.head_dim);
    to.mlp_norm = arena.take<T>(hidden);
    to.gate_up = arena.take<T>(2 * hidden * spec.intermediate_size);
    to.down = arena.take<T>(hidden * spec.intermediate_size);
    return to;
}

template <typename T>
void place_all(const ModelSpec& spec, const ModelWeights& weights, Arena& arena, DeviceWeights<T>& to) {
    to.embedding = arena.take<T>(weights.embedding.rows * weights.embedding.cols);
    to.final_norm = arena.take<T>(spec.hidden_size);
    to.head = is_tied(weights) ? to.embedding : arena.take<T>(weights.head.rows * weights.head.cols);
    to.frequencies.clear();
    for (size_t i = 0; i < spec.ropes.size(); ++i) to.frequencies.push_back(arena.take<float>(spec.head_dim / 2));
    to.layers.clear();
    for (const LayerWeights& layer : weights.layers) to.layers.push_back(place_layer<T>(spec, layer, arena));
}

// Uploads one part behind another; parts that are not there leave their place as it is.
template <typename T>
Result<void> upload_parts(Uploader& uploader, T* to, const WeightView* const* parts, const int64_t* sizes,
                          size_t count) {
    for (size_t i = 0; i < count; ++i) {
        if (parts[i]->present()) NL_TRY(uploader.upload(*parts[i], to, kDTypeOf<T>));
        to += sizes[i];
    }
    return {};
}

template <typename T>
Result<void> upload_layer(Uploader& uploader, const ModelSpec& spec, const LayerWeights& layer,
                          const DeviceLayer<T>& to, cudaStream_t stream) {
    const DType dtype = kDTypeOf<T>;
    const int64_t q_rows = int64_t{spec.num_heads} * spec.head_dim;
    const int64_t kv_rows = int64_t{spec.num_kv_heads} * spec.head_dim;
    const int64_t hidden = spec.hidden_size;
    NL_TRY(uploader.upload(layer.attention_norm, to.attention_norm, dtype));
    const WeightView* qkv[] = {&layer.q_proj, &layer.k_proj, &layer.v_proj};
    const int64_t qkv_sizes[] = {q_rows * hidden, kv_rows * hidden, kv_rows * hidden};
    NL_TRY(upload_parts(uploader, to.qkv, qkv, qkv_sizes, 3));
    if (to.qkv_bias != nullptr) {
        NL_CUDA_TRY(cudaMemsetAsync(to.qkv_bias, 0, static_cast<size_t>(qkv_rows(spec)) * sizeof(T), stream));
        const WeightView* bias[] = {&layer.q_bias, &layer.k_bias, &layer.v_bias};
        const int64_t bias_sizes[] = {q_rows, kv_rows, kv_rows};
        NL_TRY(upload_parts(uploader, to.qkv_bias, bias, bias_sizes, 3));
    }
    if (to.q_norm != nullptr) NL_TRY(uploader.upload(layer.q_norm, to.q_norm, dtype));
    if (to.k_norm != nullptr) NL_TRY(uploader.upload(layer.k_norm, to.k_norm, dtype));
    NL_TRY(uploader.upload(layer.o_proj, to.o, dtype));
    NL_TRY(uploader.upload(layer.mlp_norm, to.mlp_norm, dtype));
    const WeightView* gate_up[] = {&layer.gate_proj, &layer.up_proj};
    const int64_t gate_up_sizes[] = {hidden * spec.intermediate_size, hidden * spec.intermediate_size};
    NL_TRY(upload_parts(uploader, to.gate_up, gate_up, gate_up_sizes, 2));
    return uploader.upload(layer.down_proj, to.down, dtype);
}

template <typename T>
Result<void> upload_all(Uploader& uploader, const ModelSpec& spec, const ModelWeights& weights,
                        const DeviceWeights<T>& device, cudaStream_t stream) {
    NL_TRY(uploader.upload(weights.embedding, device.embedding, kDTypeOf<T>));
    NL_TRY(uploader.upload(weights.final_norm, device.final_norm, kDTypeOf<T>));
    if (!is_tied(weights)) NL_TRY(uploader.upload(weights.head, device.head, kDTypeOf<T>));
    for (size_t i = 0; i < spec.ropes.size(); ++i) {
        const std::vector<float>& frequencies = spec.ropes[i].frequencies;
        const WeightView view{DType::f32, 1, static_cast<int64_t>(frequencies.size()),
                              reinterpret_cast<const std::byte*>(frequencies.data())};
        NL_TRY(uploader.upload(view, device.frequencies[i], DType::f32));
    }
    for (size_t i = 0; i < weights.layers.size(); ++i) {
        NL_TRY(upload_layer(uploader, spec, weights.layers[i], device.layers[i], stream));
    }
    return {};
}

}  // namespace

template <typename T>
Result<DeviceWeights<T>> upload_weights(const ModelSpec& spec, const ModelWeights& weights, cudaStream_t stream) {
    DeviceWeights<T> device;
    Arena measure(nullptr);
    place_all(spec, weights, measure, device);
    NL_ASSIGN(device.memory, allocate_device(measure.used(), "the weights"));
    Arena arena(device.memory.data());
    place_all(spec, weights, arena, device);

    NL_ASSIGN(Uploader uploader, Uploader::create(stream));
    const Result<void> uploaded = upload_all(uploader, spec, weights, device, stream);
    // On an error too, since copies out of the uploader's buffers may still be under way.
    NL_CUDA_TRY(cudaStreamSynchronize(stream));
    if (!uploaded.ok()) return uploaded.error();
    return device;
}

template Result<DeviceWeights<float>> upload_weights(const ModelSpec&, const ModelWeights&, cudaStream_t);
template Result<DeviceWeights<__half>> upload_weights(const ModelSpec&, const ModelWeights&, cudaStream_t);
template Result<DeviceWeights<__nv_bfloat16>> upload_weights(const ModelSpec&, const ModelWeights&, cudaStream_t);

}  // namespace nanolith::cuda
