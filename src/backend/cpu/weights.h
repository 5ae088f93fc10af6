// The weights of a model as the CPU backend computes with them.
#pragma once

#include <vector>

#include "backend/cpu/products.h"
#include "backend/model_spec.h"
#include "backend/model_weights.h"
#include "backend/progress.h"
#include "backend/weight_form.h"

namespace nanolith::cpu {

// An MLP, or one expert.
template <typename T>
struct CpuMlp {
    Matrix<T> gate_up;                // [2 * intermediate, hidden]: gate, up
    Matrix<T> down;                   // [hidden, intermediate]
    std::vector<float> gate_up_bias;  // [2 * intermediate]
    std::vector<float> down_bias;     // [hidden]
};

// Vectors are float32 and empty where the model does not have them; norms have the model's offset added. Projections of
// the same input are one matrix, so each layer has four products.
template <typename T>
struct CpuLayer {
    std::vector<float> attention_norm;       // [hidden]
    std::vector<float> qkv_bias;             // [(num_heads + 2 num_kv_heads) * head_dim]
    std::vector<float> q_norm, k_norm;       // [head_dim]
    std::vector<float> output_bias;          // [hidden]
    std::vector<float> attention_post_norm;  // [hidden]
    std::vector<float> mlp_norm;             // [hidden]
    std::vector<float> mlp_post_norm;        // [hidden]
    Matrix<T> qkv;                           // [(num_heads + 2 num_kv_heads) * head_dim, hidden]: q, k, v
    Matrix<T> output;                        // [hidden, num_heads * head_dim]
    CpuMlp<T> mlp;                           // of a layer without experts
    Matrix<T> router;                        // [experts, hidden]
    std::vector<CpuMlp<T>> experts;
};

template <typename T>
struct CpuWeights {
    Matrix<T> embedding;  // [vocab, hidden]
    Matrix<T> own_head;   // empty where the model ties the head to the embedding
    std::vector<float> final_norm;
    std::vector<CpuLayer<T>> layers;

    [[nodiscard]] const Matrix<T>& head() const { return own_head.outputs == 0 ? embedding : own_head; }
};

// Whether a matrix is used where the model's weights lie.
template <typename T>
bool any_in_place(const CpuWeights<T>& weights);

// Bytes that load_weights will allocate: what can't be used in place.
template <typename T>
uint64_t weight_bytes(const ModelWeights& weights, WeightForm form);

// Brings the weights into the executor's dtype, or makes them compact, on the pool's threads. A matrix that stands
// alone, has that dtype and is aligned to it is used where it lies; everything else is copied once. INVALID_ARGUMENT
// where a shape does not fit the spec (which names the weight), OUT_OF_MEMORY. `progress` counts the bytes that are
// copied.
template <typename T>
Result<CpuWeights<T>> load_weights(const ModelSpec& spec, const ModelWeights& weights, ThreadPool& pool,
                                   WeightForm form, PartProgress& progress);

}  // namespace nanolith::cpu
