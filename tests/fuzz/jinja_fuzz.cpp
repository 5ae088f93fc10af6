// Fuzzes chat templates: their parser, and what they make of a chat. The input is a template and, after a NUL byte, a
// JSON object with its variables; without one, a small chat.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/jinja/template.h"
#include "text/utf8.h"

namespace {

constexpr std::string_view kChat =
    R"({"messages":[{"role":"system","content":"s <|im_end|>"},{"role":"user","content":[{"type":"text","text":" a "}]},)"
    R"({"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":{"x":1.5,"y":[true,null]}}}]}],)"
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"x":{"type":"number"}}}}}],)"
    R"("add_generation_prompt":true,"bos_token":"<s>","eos_token":"</s>"})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    namespace jinja = nanolith::jinja;
    const auto split = static_cast<size_t>(std::find(data, data + size, 0) - data);
    const auto* const bytes = reinterpret_cast<const char*>(data);
    const auto parsed = jinja::Template::parse({bytes, split});
    if (!parsed.ok()) return 0;
    jinja::Limits limits;  // that keep runs quick
    limits.steps = 100'000;
    limits.memory = size_t{32} << 20U;
    limits.output = size_t{1} << 20U;
    jinja::Run run(limits);
    const std::string_view rest = split + 1 < size ? std::string_view(bytes + split + 1, size - split - 1) : kChat;
    const auto values = jinja::parse_json(run, rest, "variables");
    if (!values.ok() || values->dict() == nullptr) return 0;
    std::vector<std::pair<std::string, jinja::Value>> variables;
    for (const auto& [key, value] : values->dict()->members) variables.emplace_back(key.text()->bytes(), value);
    const auto rendered = parsed->render(run, std::move(variables), std::tm{});
    if (!rendered.ok()) return 0;
    const jinja::Text& text = rendered->text;
    if (!nanolith::is_valid_utf8(text.view()) || text.size() > limits.output) abort();
    size_t done = 0;
    for (const jinja::Range& range : text.foreign()) {
        if (range.begin < done || range.begin >= range.end || range.end > text.size()) abort();
        done = range.end + 1;
    }
    for (const jinja::MessagePlace& place : rendered->places) {
        if (place.begin > place.end || place.end > text.size()) abort();
    }
    return 0;
}
