// Reads a parity fixture, as make_fixtures.py describes it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nanolith::parity {

struct Prompt {
    std::vector<int32_t> tokens;
    std::vector<size_t> prefix_lengths;  // each from 1 to the number of tokens; the last is the whole prompt
    std::vector<int32_t> greedy;         // what follows the whole prompt
    size_t first_row = 0;                // of the fixture's logits: prefix_lengths[i] has row first_row + i
};

struct Fixture {
    std::string name;
    std::string model_folder;
    size_t vocab_size = 0;
    // Transformers' own error in a dtype: rms of its differences from float32 over the rms of the float32 logits.
    double bfloat16_error = 0;
    double float16_error = 0;
    std::vector<Prompt> prompts;
    std::vector<float> logits;  // [rows, vocab_size]
    std::vector<float> states;  // [prompts, 2, hidden_size]: hidden states of the last token, and their mean

    // The reference for the token after the first prompt.prefix_lengths[index] tokens.
    [[nodiscard]] std::span<const float> logits_after(const Prompt& prompt, size_t index) const;
    // A reference of the prompts[index]: its last token's hidden state, or the mean of all.
    [[nodiscard]] std::span<const float> state(size_t index, bool is_mean) const;
    // Tokens of the longest prompt and what follows it.
    [[nodiscard]] size_t longest_context() const;
    // The root of the mean square of all logits.
    [[nodiscard]] double spread() const;
};

// The names of the folders in fixtures/, sorted.
std::vector<std::string> fixture_names();
// The names of the files in gguf/ without their ends, sorted: fixtures whose model is there as a GGUF file too.
std::vector<std::string> gguf_names();
// That file.
std::string gguf_file(const std::string& name);
// Throws std::runtime_error on a fixture that is not whole.
Fixture load_fixture(const std::string& name);

// The root of the mean square of a - b; both of the same size.
double rms_difference(std::span<const float> a, std::span<const float> b);

}  // namespace nanolith::parity
