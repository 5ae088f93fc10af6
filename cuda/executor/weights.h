// A model's weights on the device, in one allocation.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "backend/model_spec.h"
#include "backend/model_weights.h"
#include "backend/progress.h"
#include "backend/weight_form.h"
#include "experts/expert_matrix.h"
#include "linear/matrix.h"
#include "runtime/memory.h"

namespace nanolith::cuda {

// Norms are float32, with ModelSpec::norm_offset added. Weights that are multiplied with the same input follow each
// other in memory, so that they are one product. What the model does not have is null. Matrices are wide or compact;
// routers are wide.
template <typename T>
struct DeviceLayer {
    float* attention_norm = nullptr;       // [hidden]
    DeviceMatrix<T> qkv;                   // [(num_heads + 2 * num_kv_heads) * head_dim, hidden]
    T* qkv_bias = nullptr;                 // [(num_heads + 2 * num_kv_heads) * head_dim], zero where a part has none
    float* q_norm = nullptr;               // [head_dim]
    float* k_norm = nullptr;               // [head_dim]
    DeviceMatrix<T> o;                     // [hidden, num_heads * head_dim]
    T* o_bias = nullptr;                   // [hidden]
    float* attention_post_norm = nullptr;  // [hidden]
    float* mlp_norm = nullptr;             // [hidden]
    DeviceMatrix<T> gate_up;               // [2 * intermediate, hidden]
    T* gate_up_bias = nullptr;             // [2 * intermediate]
    DeviceMatrix<T> down;                  // [hidden, intermediate]
    T* down_bias = nullptr;                // [hidden]
    float* mlp_post_norm = nullptr;        // [hidden]
    // In place of gate_up and down where the layer has experts.
    DeviceMatrix<T> router;  // [experts, hidden]
    ExpertLayer<T> experts;
};

template <typename T>
struct DeviceWeights {
    DeviceBuffer memory;
    DeviceMatrix<T> embedding;    // [vocab, hidden]
    float* final_norm = nullptr;  // [hidden]
    DeviceMatrix<T> head;         // [vocab, hidden]; the embedding where the head is tied
    std::vector<DeviceLayer<T>> layers;
};

// Memory on the device for the weights, matrices as compact weights where `form` says so, all others as T. It is filled
// with zeros on the stream. The weights must have passed check_model.
template <typename T>
Result<DeviceWeights<T>> allocate_weights(const ModelSpec& spec, const ModelWeights& weights, WeightForm form,
                                          cudaStream_t stream);

// Copies the weights to where allocate_weights() has made room for them, on a stream of its own, and waits. Steps may
// run on other streams meanwhile: where a weight has not arrived yet, they read zeros. Reports `progress` from 0 to
// `share`.
template <typename T>
Result<void> upload_weights(const ModelSpec& spec, const ModelWeights& weights, WeightForm form,
                            const DeviceWeights<T>& to, const Progress& progress, double share);

}  // namespace nanolith::cuda
