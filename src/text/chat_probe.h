// Whether a model folder's template is a known format.
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "text/chat_marks.h"
#include "text/chat_message.h"

namespace nanolith {

using RenderChat = std::function<Result<RenderedChat>(std::span<const ChatMessage> messages, bool generation)>;

// Whether the format gives the template's tokens for every one of a list of chats that the template renders: with and
// without a system prompt, of one turn and of several, with thoughts, odd white space and empty messages, with and
// without the generation prompt. What the template refuses the format may render.
bool is_same_format(const ChatMarks& marks, const RenderChat& with_marks, const RenderChat& with_template);

}  // namespace nanolith
