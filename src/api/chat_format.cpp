#include <algorithm>
#include <string>
#include <vector>

#include "api/guard.h"
#include "api/handles.h"

using namespace nanolith;
using namespace nanolith::api;

namespace {

Result<std::vector<ChatMessage>> read_messages(const int32_t* roles, const char* const* contents,
                                               const size_t* content_lengths, size_t num_messages) {
    NL_ASSIGN(const auto role_span, check_array(roles, num_messages, "roles", "num_messages"));
    NL_ASSIGN(const auto content_span, check_array(contents, num_messages, "contents", "num_messages"));
    NL_ASSIGN(const auto length_span, check_array(content_lengths, num_messages, "content_lengths", "num_messages"));
    std::vector<ChatMessage> messages;
    messages.reserve(num_messages);
    for (size_t i = 0; i < num_messages; ++i) {
        const std::string index = "[" + std::to_string(i) + "]";
        NL_ASSIGN(const auto content, check_array(content_span[i], length_span[i], ("contents" + index).c_str(),
                                                  ("content_lengths" + index).c_str()));
        messages.push_back({role_span[i], {content.data(), content.size()}});
    }
    return messages;
}

}  // namespace

extern "C" {

nl_status nl_chat_format_create(const nl_tokenizer* tokenizer, const char* name, size_t name_length,
                                nl_chat_format** format) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(tokenizer, "tokenizer"));
        NL_TRY(check_pointer(format, "format"));
        NL_ASSIGN(const auto span, check_array(name, name_length, "name", "name_length"));
        NL_ASSIGN(ChatFormat made, ChatFormat::create(tokenizer->tokenizer, {span.data(), span.size()}));
        *format = new nl_chat_format{std::move(made)};
        return {};
    });
}

void nl_chat_format_free(nl_chat_format* format) {
    drop(format);
}

nl_status nl_chat_format_name(const nl_chat_format* format, char* buffer, size_t capacity, size_t* length) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(format, "format"));
        NL_TRY(check_pointer(length, "length"));
        return give_text(format->format.name(), buffer, capacity, length);
    });
}

nl_status nl_chat_format_render(const nl_chat_format* format, const int32_t* roles, const char* const* contents,
                                const size_t* content_lengths, size_t num_messages, uint32_t flags, size_t* ends,
                                int32_t* tokens, size_t capacity, size_t* count) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(format, "format"));
        NL_TRY(check_pointer(count, "count"));
        NL_ASSIGN(const auto messages, read_messages(roles, contents, content_lengths, num_messages));
        NL_ASSIGN(const RenderedChat chat, format->format.render(messages, flags));
        NL_TRY(give<int32_t>(chat.tokens, tokens, capacity, count));
        if (ends != nullptr) std::copy(chat.ends.begin(), chat.ends.end(), ends);
        return {};
    });
}

nl_status nl_chat_format_render_json(const nl_chat_format* format, const char* request, size_t request_length,
                                     uint32_t flags, size_t* ends, size_t num_ends, int32_t* tokens, size_t capacity,
                                     size_t* count) {
    return guarded([&]() -> Result<void> {
        NL_TRY(check_pointer(format, "format"));
        NL_TRY(check_pointer(count, "count"));
        NL_ASSIGN(const auto text, check_array(request, request_length, "request", "request_length"));
        NL_ASSIGN(const auto room, check_array(ends, num_ends, "ends", "num_ends"));
        NL_ASSIGN(const RenderedChat chat, format->format.render_json({text.data(), text.size()}, flags));
        if (!room.empty() && room.size() != chat.ends.size())
            return fail(NL_ERROR_INVALID_ARGUMENT, "num_ends is ", num_ends, ": expected 0 or the number of messages, ",
                        chat.ends.size());
        NL_TRY(give<int32_t>(chat.tokens, tokens, capacity, count));
        std::copy(chat.ends.begin(), chat.ends.begin() + static_cast<ptrdiff_t>(room.size()), room.begin());
        return {};
    });
}

}  // extern "C"
