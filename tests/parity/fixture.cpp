#include "parity/fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace nanolith::parity {
namespace {

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<float> read_floats(const std::string& path) {
    const std::string bytes = read_file(path);
    std::vector<float> floats(bytes.size() / sizeof(float));
    std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
    return floats;
}

}  // namespace

std::vector<std::string> fixture_names() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(NL_PARITY_FIXTURES)) {
        if (entry.is_directory()) names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::vector<std::string> gguf_names() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(NL_PARITY_GGUF))
        names.push_back(entry.path().stem().string());
    std::sort(names.begin(), names.end());
    return names;
}

std::string gguf_file(const std::string& name) {
    return std::string(NL_PARITY_GGUF) + "/" + name + ".gguf";
}

Fixture load_fixture(const std::string& name) {
    const std::string folder = std::string(NL_PARITY_FIXTURES) + "/" + name;
    const auto json = nlohmann::json::parse(read_file(folder + "/reference.json"));
    Fixture fixture;
    fixture.name = name;
    fixture.model_folder = folder + "/" + json.at("model").get<std::string>();
    fixture.vocab_size = json.at("vocab_size");
    fixture.bfloat16_error = json.at("error").at("bfloat16");
    fixture.float16_error = json.at("error").at("float16");
    size_t rows = 0;
    for (const auto& entry : json.at("prompts")) {
        Prompt prompt{entry.at("tokens"), entry.at("prefix_lengths"), entry.at("greedy"), rows};
        rows += prompt.prefix_lengths.size();
        if (prompt.prefix_lengths.empty() || prompt.prefix_lengths.back() != prompt.tokens.size()) {
            throw std::runtime_error(folder + ": the last prefix of a prompt is not the whole prompt");
        }
        fixture.prompts.push_back(std::move(prompt));
    }
    fixture.logits = read_floats(folder + "/logits.f32");
    if (rows == 0 || fixture.logits.size() != rows * fixture.vocab_size) {
        throw std::runtime_error(folder + "/logits.f32 does not have " + std::to_string(rows) + " rows");
    }
    fixture.states = read_floats(folder + "/states.f32");
    if (fixture.states.empty() || fixture.states.size() % (2 * fixture.prompts.size()) != 0)
        throw std::runtime_error(folder + "/states.f32 does not have two rows for each prompt");
    return fixture;
}

std::span<const float> Fixture::logits_after(const Prompt& prompt, size_t index) const {
    return std::span(logits).subspan((prompt.first_row + index) * vocab_size, vocab_size);
}

std::span<const float> Fixture::state(size_t index, bool is_mean) const {
    const size_t hidden = states.size() / (2 * prompts.size());
    return std::span(states).subspan((2 * index + (is_mean ? 1 : 0)) * hidden, hidden);
}

size_t Fixture::longest_context() const {
    size_t longest = 0;
    for (const Prompt& prompt : prompts) longest = std::max(longest, prompt.tokens.size() + prompt.greedy.size());
    return longest;
}

double Fixture::spread() const {
    return rms_difference(logits, std::vector<float>(logits.size()));
}

double rms_difference(std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    return std::sqrt(sum / static_cast<double>(a.size()));
}

}  // namespace nanolith::parity
