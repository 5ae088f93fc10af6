// The least time that a device needs for a step of a model: its bytes at the speed of memory, or its products at the
// speed of products, whichever takes longer.
#pragma once

#include <cstdint>
#include <string>

namespace nanolith::bench {

// What a model makes a device read and compute.
struct ModelSizes {
    double layers = 0;
    double hidden = 0;
    double heads = 0;  // query heads
    double kv_heads = 0;
    double head_dim = 0;
    double vocab = 0;
    double file_bytes = 0;     // of all weights in the folder
    double element_bytes = 2;  // of a weight, and of a number of the KV cache
    double layer_weights = 0;  // of all layers together, experts aside
    double experts = 0;        // of a layer; 0: none
    double experts_of_a_token = 0;
    double expert_weights = 0;   // of one expert of one layer
    double window = 0;           // of attention; 0: none
    double windowed_layers = 0;  // layers that have it
};

// Of a model folder, as nl_model_describe and its config.json say. A failure ends the program with a message. Of a GGUF
// file, whose weights differ in size, without what floors are made of: they are 0.
ModelSizes read_sizes(const std::string& folder);

// What a device can do at most. A zero leaves its part out of a floor.
struct Ceilings {
    double bytes_per_second = 0;       // read from the device's memory
    double flops_per_second = 0;       // of products; a multiplication and its addition are two
    double load_bytes_per_second = 0;  // from the host to the device
};

// Rows that are computed together. A token of a context that several rows share is read once.
struct StepRows {
    double rows = 0;
    double output_rows = 0;  // that draw a token
    double shared = 0;       // tokens of context that every row sees, read once
    double own = 0;          // mean number of tokens that a row sees beside those
    double own_readers = 0;  // rows whose own tokens come from the KV cache, each for itself
};

// Rows that each draw a token after `shared` tokens of one chunk and `own` tokens of their own.
StepRows decode_rows(double rows, double shared, double own);
// A prefill of so many tokens without history, all at once. Nothing of it needs to be read from the KV cache.
StepRows prefill_rows(double tokens);

// Seconds; 0 where no ceiling is known.
double floor_of(const ModelSizes& sizes, const Ceilings& ceilings, const StepRows& step);

}  // namespace nanolith::bench
