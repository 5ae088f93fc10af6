// Lists of messages to tokens, in the format that a chat model was trained with.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/chat_marks.h"
#include "text/chat_message.h"
#include "text/chat_template.h"
#include "text/mark_tokens.h"
#include "text/tokenizer.h"

namespace nanolith {

// A known format, whose marks stand in a table, or a model folder's own template, which is run. A folder's template is
// taken for a known format only where both give the same tokens for many chats. Immutable, so every member may be
// called from any thread.
class ChatFormat {
  public:
    // The format called `name`, or where that is empty the one of the tokenizer's chat template. INVALID_ARGUMENT for a
    // name that is not known, NOT_FOUND where there is no template, UNSUPPORTED where it can't be run or where the
    // tokenizer lacks a token of the format.
    static Result<ChatFormat> create(const std::shared_ptr<const Tokenizer>& tokenizer, std::string_view name);

    // "template" where the folder's template is no known format.
    [[nodiscard]] const std::string& name() const { return name_; }

    // `flags` are NL_CHAT_*. INVALID_ARGUMENT for messages that the format has no place for; it names the message.
    [[nodiscard]] Result<RenderedChat> render(std::span<const ChatMessage> messages, uint32_t flags) const;
    // A request as JSON, see nl_chat_format_render_json. With a folder's template it is what that gives.
    [[nodiscard]] Result<RenderedChat> render_json(std::string_view request, uint32_t flags) const;

  private:
    ChatFormat() = default;
    static Result<ChatFormat> with_marks(const std::shared_ptr<const Tokenizer>& tokenizer, ChatMarks marks);
    static Result<ChatFormat> with_template(const std::shared_ptr<const Tokenizer>& tokenizer);
    Result<void> find_tokens(const std::shared_ptr<const Tokenizer>& tokenizer);
    [[nodiscard]] Result<RenderedChat> render_marks(std::span<const ChatMessage> messages, bool generation) const;

    std::string name_;
    std::optional<ChatMarks> marks_;
    std::shared_ptr<const MarkTokens> tokens_;  // of the marks
    std::optional<ChatTemplate> template_;
};

}  // namespace nanolith
