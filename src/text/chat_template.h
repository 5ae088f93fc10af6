// A model folder's own chat template, run for a chat.
#pragma once

#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/chat_message.h"
#include "text/jinja/template.h"
#include "text/mark_tokens.h"
#include "text/tokenizer.h"

namespace nanolith {

// Immutable, so every member may be called from any thread.
class ChatTemplate {
  public:
    // UNSUPPORTED where the tokenizer's template is none, or has tags that are not supported.
    static Result<ChatTemplate> create(std::shared_ptr<const Tokenizer> tokenizer);

    // INVALID_ARGUMENT where the template refuses the messages, UNSUPPORTED where it needs what is not supported.
    [[nodiscard]] Result<RenderedChat> render(std::span<const ChatMessage> messages, bool generation) const;
    // `request` is a JSON object: see nl_chat_format_render_json.
    [[nodiscard]] Result<RenderedChat> render_json(std::string_view request, bool generation) const;

  private:
    ChatTemplate(jinja::Template parsed, std::shared_ptr<const Tokenizer> tokenizer);
    void find_marks(const std::string& source);
    [[nodiscard]] Result<RenderedChat> encode(const jinja::Rendered& rendered, size_t num_messages) const;

    jinja::Template template_;
    std::shared_ptr<const Tokenizer> tokenizer_;
    std::shared_ptr<MarkTokens> tokens_;
    std::vector<std::pair<std::string, std::string>> special_tokens_;  // "bos_token" and its spelling
};

}  // namespace nanolith
