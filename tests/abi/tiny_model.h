// A small random Llama model as a Hugging Face folder, for tests that need an engine but no sense.
#pragma once

#include <cstdint>
#include <string>

#include "support/temp_folder.h"

namespace nanolith::test {

struct TinyModelShape {
    int num_layers = 2;
    int hidden_size = 32;
    int intermediate_size = 64;
    int num_heads = 4;
    int num_kv_heads = 2;
    int head_dim = 8;
    int vocab_size = 400;  // more than the tokenizer's, as padded vocabularies are
    int max_context = 512;
    uint32_t seed = 1;
};

// Writes config.json, generation_config.json, model.safetensors (float32) and tokenizer.model (the unit tests'
// bpe_bytes) to a temporary folder, which goes away with the object.
class TinyModel {
  public:
    explicit TinyModel(const TinyModelShape& shape = {});
    TinyModel(const TinyModel&) = delete;
    TinyModel& operator=(const TinyModel&) = delete;

    [[nodiscard]] const std::string& path() const { return folder_.path(); }
    [[nodiscard]] const TinyModelShape& shape() const { return shape_; }

  private:
    TempFolder folder_;
    TinyModelShape shape_;
};

}  // namespace nanolith::test
