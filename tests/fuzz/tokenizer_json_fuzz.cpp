// Fuzzes tokenizer.json and tekken.json and what they make of texts. The input is the file and, after a NUL byte, a
// text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "text/chat_format.h"
#include "text/json_tokenizer.h"
#include "text/tekken.h"
#include "text/utf8.h"

namespace {

void use(const std::shared_ptr<const nanolith::Tokenizer>& tokenizer, std::string_view text) {
    for (const uint32_t flags : {0U, uint32_t{NL_ENCODE_ADD_SPECIAL}, uint32_t{NL_ENCODE_SPECIAL_AS_TEXT}}) {
        const auto tokens = tokenizer->encode(text, flags);
        if (!tokens.ok()) continue;
        for (const int32_t token : *tokens) {
            if (token < 0 || token >= tokenizer->vocab_size()) abort();
        }
        const auto decoded = tokenizer->decode(*tokens);
        if (decoded.ok() && !nanolith::is_valid_utf8(*decoded)) abort();
    }
    const nanolith::ChatMessage message{NL_ROLE_USER, text};
    for (const char* name : {"plain", "chatml"}) {
        const auto format = nanolith::ChatFormat::create(tokenizer, name);
        if (!format.ok()) continue;
        const auto chat = format->render({&message, 1}, 0);
        if (chat.ok() && (chat->ends.size() != 1 || chat->ends[0] > chat->tokens.size())) abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto split = static_cast<size_t>(std::find(data, data + size, 0) - data);
    const auto* const bytes = reinterpret_cast<const char*>(data);
    const std::string_view json(bytes, split);
    const std::string_view rest(bytes + std::min(split + 1, size), size - std::min(split + 1, size));
    const std::string_view text =
        rest.empty() ? "Hello  wörld\n\n1234 <s><|im_end|> 漢字 👩‍🚀 e\xCC\x81\xFF" : rest;
    const auto tokenizer = nanolith::parse_json_tokenizer(json, "tokenizer.json", {});
    if (tokenizer.ok()) use(*tokenizer, text);
    const auto tekken = nanolith::parse_tekken(json, "tekken.json", {});
    if (tekken.ok()) use(*tekken, text);
    return 0;
}
