// How an executor keeps the matrices of a model in memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/compact_weight.h"
#include "backend/dtype.h"
#include "backend/model_weights.h"
#include "backend/phase.h"
#include "backend/weight_view.h"

namespace nanolith {

// The form of matrices; norms, biases and routers are always wide.
enum class WeightForm : uint8_t {
    source,  // compact weights as their source has them, others wide
    wide,    // all in the executor's dtype
    // Weights that are not compact already are quantised, see quantised_form(); with int4 the embeddings and the head
    // become int8: errors of the head go into the logits directly, those of an embedding into all that follows.
    int8,
    int4,
    fp8
};

// For messages: "int8"; "as in the files" for source and "16 or 32 bits" for wide.
const char* form_name(WeightForm form);

// The form of the embeddings and the head.
WeightForm table_form(WeightForm form);

// Whether the matrix that consists of these parts on top of each other becomes compact. With `source` only if all parts
// are: nothing is quantised unless it is asked for. Parts whose columns are in different orders are no compact matrix.
bool is_compact(std::span<const WeightView* const> parts, WeightForm form);

// The form of a weight whose matrix is compact.
CompactForm compact_form(const WeightView& weight, WeightForm form);

// About how many bytes the matrices of a model take in this form, by the phase of a step that reads them.
struct MatrixBytes {
    struct Layer {
        ByPhase<double> phases{};  // the matrices of all the layer's experts count in mlp_output
        bool has_experts = false;
    };
    std::vector<Layer> layers;
    double head = 0;
};
MatrixBytes matrix_bytes(const ModelWeights& weights, WeightForm form, DType dtype);

// About how many bytes all matrices take together, the embedding too, if all of them are copied into memory.
uint64_t stored_bytes(const ModelWeights& weights, WeightForm form, DType dtype);

}  // namespace nanolith
