// Lists of messages to tokens, in the format that a chat model was trained with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/chat_marks.h"
#include "text/tokenizer.h"

namespace nanolith {

struct ChatMessage {
    int32_t role = NL_ROLE_USER;  // NL_ROLE_*
    std::string_view content;     // as a caller gave it, perhaps ill-formed
};

struct RenderedChat {
    std::vector<int32_t> tokens;
    std::vector<size_t> ends;  // for each message, where its part of the tokens ends
};

// Immutable, so every member may be called from any thread.
class ChatFormat {
  public:
    // The format called `name`, or where that is empty the one that the tokenizer's chat template is. INVALID_ARGUMENT
    // for a name that is not known, NOT_FOUND where there is no template, UNSUPPORTED where it is not known or where
    // the tokenizer lacks a token of the format.
    static Result<ChatFormat> create(std::shared_ptr<const Tokenizer> tokenizer, std::string_view name);

    [[nodiscard]] const std::string& name() const { return marks_.name; }

    // `flags` are NL_CHAT_*. INVALID_ARGUMENT for messages that the format has no place for; it names the message.
    [[nodiscard]] Result<RenderedChat> render(std::span<const ChatMessage> messages, uint32_t flags) const;

  private:
    friend class ChatWriter;

    ChatFormat(std::shared_ptr<const Tokenizer> tokenizer, ChatMarks marks);
    Result<void> find_tokens();
    [[nodiscard]] Result<void> check_content(std::string_view content, size_t index) const;
    [[nodiscard]] Result<void> encode_run(std::string_view text, bool at_start, std::vector<int32_t>& tokens) const;

    std::shared_ptr<const Tokenizer> tokenizer_;
    ChatMarks marks_;
    std::vector<std::pair<std::string, int32_t>> mark_tokens_;  // spelling and id, {bos} and {eos} among them
    std::vector<int32_t> unread_tokens_;                        // the ids: never read out of a message
    std::vector<std::string> text_marks_;                       // marks that are text to this tokenizer
};

}  // namespace nanolith
