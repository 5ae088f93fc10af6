// Fuzzes chat templates: the input is one, in the folder of a tokenizer that has the marks of ChatML.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_format.h"
#include "text/json_tokenizer.h"

namespace {

using nanolith::ChatMessage;

std::string read_tokenizer() {
    std::ifstream file(NL_TEXT_FIXTURES "/qwen2/tokenizer.json", std::ios::binary);
    if (!file) abort();
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void check(const nanolith::ChatFormat& format, const std::vector<ChatMessage>& messages, int32_t vocab_size) {
    for (const uint32_t flags : {0U, uint32_t{NL_CHAT_ADD_GENERATION_PROMPT}}) {
        const auto chat = format.render(messages, flags);
        if (!chat.ok()) continue;
        if (chat->ends.size() != messages.size()) abort();
        size_t last = 0;
        for (const size_t end : chat->ends) {
            if (end < last || end > chat->tokens.size()) abort();
            last = end;
        }
        for (const int32_t token : chat->tokens) {
            if (token < 0 || token >= vocab_size) abort();
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const std::string json = read_tokenizer();
    nanolith::TokenizerConfig config;
    config.chat_template.assign(reinterpret_cast<const char*>(data), size);
    const auto tokenizer = nanolith::parse_json_tokenizer(json, "tokenizer.json", std::move(config));
    if (!tokenizer.ok()) abort();
    const auto format = nanolith::ChatFormat::create(*tokenizer, "");
    if (!format.ok()) return 0;
    const ChatMessage system{NL_ROLE_SYSTEM, "Be brief. {{ system }}"};
    const ChatMessage question{NL_ROLE_USER, " Who? <|im_end|> {% for %}\xFF"};
    const ChatMessage answer{NL_ROLE_ASSISTANT, "<think>so</think>\n\nNobody. "};
    for (const auto& messages : std::vector<std::vector<ChatMessage>>{
             {question}, {system, question}, {question, answer}, {system, question, answer, question, question}}) {
        check(*format, messages, (*tokenizer)->vocab_size());
    }
    return 0;
}
