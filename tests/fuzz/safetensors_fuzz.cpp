// Fuzzes what reads a model folder. The input is a config.json, a NUL byte and a safetensors file; where both are well
// formed the weights are put together, and every byte that they name is read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "backend/compact_reader.h"
#include "backend/read_weight.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "model/weights.h"

namespace {

// A sum that the compiler can't leave out.
volatile uint8_t sum;

void read(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) sum = static_cast<uint8_t>(sum + std::to_integer<uint8_t>(byte));
}

// In its order and with its scales, up to a size that keeps runs quick: the last elements are those that matter.
void read(const nanolith::WeightView& weight) {
    if (!weight.present()) return;
    if (weight.wide() && weight.source == nullptr) read({weight.data, weight.bytes()});
    const int64_t size = weight.rows * weight.cols;
    std::vector<float> values(std::min<int64_t>(size, 4096));
    const auto count = static_cast<int64_t>(values.size());
    for (const int64_t first : {int64_t{0}, size - count}) nanolith::read_weight(weight, first, count, values.data());
    if (weight.compact == nullptr) return;
    nanolith::CompactReader reader(weight, weight.compact->form());
    for (const int64_t row : {int64_t{0}, weight.rows - 1}) reader.read(row);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto split = static_cast<size_t>(std::find(data, data + size, 0) - data);
    const std::string_view text(reinterpret_cast<const char*>(data), split);
    const auto config = nanolith::parse_config(text, "config.json");
    const auto tensors = nanolith::parse_safetensors(bytes.subspan(std::min(split + 1, size)), "model.safetensors");
    if (config.ok() && !config->end_tokens.empty() && config->end_tokens.front() >= config->spec.vocab_size) abort();
    if (tensors.ok()) {
        for (const auto& [name, tensor] : *tensors) read(tensor.bytes);
    }
    if (!config.ok() || !tensors.ok()) return 0;
    nanolith::PackedMatrices packed;
    const auto weights = nanolith::assemble_weights(*config, *tensors, "folder", packed);
    if (!weights.ok()) return 0;
    for (const auto& weight : {weights->embedding, weights->final_norm, weights->head}) read(weight);
    for (const nanolith::LayerWeights& layer : weights->layers) {
        for (const auto& weight : {layer.attention_norm, layer.q_proj,    layer.k_proj,    layer.v_proj,
                                   layer.q_bias,         layer.k_bias,    layer.v_bias,    layer.q_norm,
                                   layer.k_norm,         layer.o_proj,    layer.o_bias,    layer.attention_post_norm,
                                   layer.mlp_norm,       layer.gate_proj, layer.up_proj,   layer.down_proj,
                                   layer.gate_bias,      layer.up_bias,   layer.down_bias, layer.mlp_post_norm,
                                   layer.router}) {
            read(weight);
        }
        for (const nanolith::ExpertWeights& expert : layer.experts) {
            for (const auto& weight : {expert.gate_proj, expert.up_proj, expert.down_proj}) read(weight);
        }
    }
    return 0;
}
