// How an executor keeps the matrices of a model in memory.
#pragma once

#include <cstdint>
#include <span>

#include "backend/compact_weight.h"
#include "backend/dtype.h"
#include "backend/model_weights.h"
#include "backend/weight_view.h"

namespace nanolith {

// Norms, biases and routers are wide whatever it is.
enum class WeightForm : uint8_t {
    source,  // compact ones as their source has them, others wide
    wide,    // all in the executor's dtype
    // Those that are not compact already are quantised, see quantised_form(); with int4 the embeddings and the head as
    // int8: the head gives the logits themselves, and a row of the embeddings may be of a token that is rare.
    int8,
    int4,
    fp8
};

// "int8"; "as in the files" of source and "16 or 32 bits" of wide.
const char* form_name(WeightForm form);

// The form of the embeddings and the head.
WeightForm table_form(WeightForm form);

// Whether a matrix becomes compact that consists of these parts on top of each other. Of source, all of them must be:
// no weight is rounded that nobody asked to round.
bool is_compact(std::span<const WeightView* const> parts, WeightForm form);

// What a weight is where its matrix is compact.
CompactForm compact_form(const WeightView& weight, WeightForm form);

// Bytes that the weights take in this form, about: each matrix for itself, and nothing used where it lies.
uint64_t stored_bytes(const ModelWeights& weights, WeightForm form, DType dtype);

}  // namespace nanolith
